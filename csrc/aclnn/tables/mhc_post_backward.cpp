// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

inline wide r(const Call &c) { return c.rank(1); }
inline wide n(const Call &c) { return c.dim(1, -2); }
inline wide D(const Call &c) { return c.dim(1, -1); }

std::vector<Check> checks_ascend950() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 3, 4, 5, 6, 7, 8})),
        empty_check({0, 1, 2, 3, 4}),
        format_check({0, 1, 2, 3, 4, 5, 6, 7, 8}),
        dtype_check({0, 1, 2, 3, 4, 5, 6, 7, 8}),
        rank_check(1, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rule_check(1, {"n in (4, 6, 8)", VALUE(wide(in(n(c), {wide(4), wide(6), wide(8)})))}, {{"n", VALUE(n(c))}}),
        rank_check(0, {{"r", VALUE(r(c))}}),
        rank_check(2, {{"r", VALUE(r(c))}}),
        rank_check(3, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(4, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(5, {{"r", VALUE(r(c))}}),
        rank_check(6, {{"r", VALUE(r(c))}}),
        rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        shape_check(0, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(2, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(3, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(4, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(5, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(6, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(7, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(8, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
    };
}

std::vector<Check> checks_ascend910b() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6, 7, 8})),
        empty_check({0, 1, 2, 3, 4}),
        format_check({0, 1, 2, 3, 4, 5, 6, 7, 8}),
        dtype_check({0, 1, 2, 3, 4, 5, 6, 7, 8}),
        rank_check(1, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rule_check(1, {"n == 4", VALUE(wide(n(c) == wide(4)))}, {{"n", VALUE(n(c))}}),
        rule_check(1, {"0 < D <= 100000", VALUE(wide(wide(0) < D(c) && D(c) <= wide(100000)))}, {{"D", VALUE(D(c))}}),
        rule_check(1, {"D % 128 == 0", VALUE(wide(mod({D(c), wide(128)}) == wide(0)))}, {{"D", VALUE(D(c))}}),
        rank_check(0, {{"r", VALUE(r(c))}}),
        rank_check(2, {{"r", VALUE(r(c))}}),
        rank_check(3, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(4, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(5, {{"r", VALUE(r(c))}}),
        rank_check(6, {{"r", VALUE(r(c))}}),
        rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        shape_check(0, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(2, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(3, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(4, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(5, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(6, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(7, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(8, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
    };
}

}  // namespace

Operator mhc_post_backward_table() {
    Operator op;
    op.name = "MhcPostBackward";
    op.lead = 1;
    op.lead_rest = 2;
    op.tensors = {
        {"grad_y", "gradOutput", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"x", "x", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"h_res", "hRes", false, {"FLOAT"}, -1},
        {"h_out", "hOut", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"h_post", "hPost", false, {"FLOAT"}, -1},
        {"grad_x", "gradX", true, {"BFLOAT16", "FLOAT16"}, 1},
        {"grad_h_res", "gradHres", true, {"FLOAT"}, 2},
        {"grad_h_out", "gradHout", true, {"BFLOAT16", "FLOAT16"}, 3},
        {"grad_h_post", "gradHpost", true, {"FLOAT"}, 4},
    };
    op.attrs = {};
    op.rules["ascend950"] = {checks_ascend950(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910b"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910_93"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    return op;
}

}  // namespace aclnn
