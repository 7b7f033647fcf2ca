// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

inline wide r(const Call &c) { return c.rank(0); }
inline wide n(const Call &c) { return c.dim(0, -1); }
inline wide saved(const Call &c) { return wide(c.given(2) && wide(c.size(2) != wide(1))); }

std::vector<Check> checks_ascend950() {
    return {
        all_or_none_check({2, 3}, 1),
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1})),
        dtype_check({0, 1}),
        when({"saved", VALUE(saved(c))}, dtype_check({2, 3})),
        shape_check(1, {{"[*h_res]", {dims_of(0)}}}),
        in_range_check(1, 1, 100),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rule_check(0, {"n in (4, 6, 8)", VALUE(wide(in(n(c), {wide(4), wide(6), wide(8)})))}, {{"n", VALUE(n(c))}}),
        shape_check(0, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        when({"saved", VALUE(saved(c))}, shape_check(2, {{"[2*num_iters*T*n*8]", {one_dim(VALUE(mul({mul({mul({mul({wide(2), c.attrs[1].whole()}), c.tokens()}), n(c)}), wide(8)})))}}})),
        when({"saved", VALUE(saved(c))}, shape_check(3, {{"[2*num_iters*T*8]", {one_dim(VALUE(mul({mul({mul({wide(2), c.attrs[1].whole()}), c.tokens()}), wide(8)})))}}})),
        same_format_check({0, 1}),
        format_check({0, 1}),
        empty_check({0}),
    };
}

}  // namespace

Operator mhc_sinkhorn_table() {
    Operator op;
    op.name = "MhcSinkhorn";
    op.lead = 0;
    op.lead_rest = 2;
    op.tensors = {
        {"h_res", "x", false, {"FLOAT"}, -1},
        {"y", "output", true, {"FLOAT"}, -1},
        {"norm_out", "normOut", true, {"FLOAT"}, -1},
        {"sum_out", "sumOut", true, {"FLOAT"}, -1},
    };
    op.attrs = {"eps", "numIters", "out_flag"};
    op.rules["ascend950"] = {checks_ascend950(), {"0", VALUE(wide(0))}};
    return op;
}

}  // namespace aclnn
