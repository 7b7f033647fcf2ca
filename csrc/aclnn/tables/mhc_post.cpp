// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

inline wide r(const Call &c) { return c.rank(0); }
inline wide n(const Call &c) { return c.dim(0, -2); }
inline wide D(const Call &c) { return c.dim(0, -1); }

std::vector<Check> checks_ascend950() {
    return {
        with_status(161001, null_check({0, 2, 3, 4})),
        with_status(161001, handles_check()),
        format_check({0, 4}),
        dtype_check({0, 1, 2, 3, 4}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        shape_check(1, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(2, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(3, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(4, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        with_status(0, empty_check({0, 1, 2, 3})),
    };
}

std::vector<Check> checks_ascend910b() {
    return {
        with_status(361001, null_check({1})),
        with_status(161001, null_check({0, 2, 3, 4})),
        with_status(161001, handles_check()),
        format_check({0, 4}),
        dtype_check({0, 1, 2, 3, 4}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        shape_check(1, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(2, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(3, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(4, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        with_status(0, empty_check({0, 1, 2, 3})),
    };
}

}  // namespace

Operator mhc_post_table() {
    Operator op;
    op.name = "MhcPost";
    op.lead = 0;
    op.lead_rest = 2;
    op.tensors = {
        {"x", "x", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"h_res", "hRes", false, {"FLOAT"}, -1},
        {"h_out", "hOut", false, {"BFLOAT16", "FLOAT16"}, 0},
        {"h_post", "hPost", false, {"FLOAT"}, -1},
        {"y", "out", true, {"BFLOAT16", "FLOAT16"}, 0},
    };
    op.attrs = {};
    op.rules["ascend950"] = {checks_ascend950(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910b"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910_93"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    return op;
}

}  // namespace aclnn
