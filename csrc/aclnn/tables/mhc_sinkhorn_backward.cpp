// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

inline wide r(const Call &c) { return c.rank(0); }
inline wide n(const Call &c) { return c.dim(0, -1); }
inline wide num_iters(const Call &c) { return div({c.size(1), mul({mul({mul({wide(2), c.tokens()}), n(c)}), wide(8)})}); }

std::vector<Check> checks_ascend950() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3})),
        dtype_check({0, 1, 2, 3}),
        shape_check(3, {{"[*grad_y]", {dims_of(0)}}}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        shape_check(0, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        rule_check(0, {"n in (4, 6, 8)", VALUE(wide(in(n(c), {wide(4), wide(6), wide(8)})))}, {{"n", VALUE(n(c))}}),
        format_check({0, 1, 2, 3}),
        with_status(0, empty_check({0})),
    };
}

}  // namespace

Operator mhc_sinkhorn_backward_table() {
    Operator op;
    op.name = "MhcSinkhornBackward";
    op.lead = 0;
    op.lead_rest = 2;
    op.tensors = {
        {"grad_y", "gradOutput", false, {"FLOAT"}, -1},
        {"norm", "normOut", false, {"FLOAT"}, -1},
        {"sum", "sumOut", false, {"FLOAT"}, -1},
        {"grad_input", "out", true, {"FLOAT"}, -1},
    };
    op.attrs = {};
    op.rules["ascend950"] = {checks_ascend950(), {"0", VALUE(wide(0))}};
    return op;
}

}  // namespace aclnn
