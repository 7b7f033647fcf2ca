// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

inline wide r(const Call &c) { return c.rank(3); }
inline wide n(const Call &c) { return c.dim(3, -2); }
inline wide D(const Call &c) { return c.dim(3, -1); }
inline wide f(const Call &c) { return c.dim(4, 0); }
inline wide k(const Call &c) { return c.dim(10, 0); }

std::vector<Check> checks_ascend950() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})),
        with_status(0, empty_check({0, 1, 2, 3, 7, 8, 9, 10, 11})),
        rank_check(3, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rank_check(0, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(1, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(2, {{"r", VALUE(r(c))}, {"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(4, {{"2", VALUE(wide(2))}}),
        rank_check(5, {{"1", VALUE(wide(1))}}),
        rank_check(6, {{"1", VALUE(wide(1))}}),
        rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(10, {{"r", VALUE(r(c))}}),
        rank_check(11, {{"r+1", VALUE(add({r(c), wide(1)}))}}),
        rank_check(12, {{"r", VALUE(r(c))}}),
        rank_check(13, {{"2", VALUE(wide(2))}}),
        rank_check(14, {{"1", VALUE(wide(1))}}),
        rank_check(15, {{"1", VALUE(wide(1))}}),
        when({"r == 4", VALUE(wide(r(c) == wide(4)))}, shape_check(0, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}})),
        when({"r == 3", VALUE(wide(r(c) == wide(3)))}, shape_check(0, {{"[.., dim(grad_hin,-1)]", {lead_dims(), one_dim(VALUE(c.dim(0, -1)))}}})),
        shape_check(1, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(2, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}, {"[.., n*n]", {lead_dims(), one_dim(VALUE(mul({n(c), n(c)})))}}}),
        shape_check(4, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(5, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(6, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        shape_check(7, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(8, {{"[.., f]", {lead_dims(), one_dim(VALUE(f(c)))}}}),
        shape_check(9, {{"[.., 1]", {lead_dims(), one_dim(VALUE(wide(1)))}}}),
        shape_check(10, {{"[k, .., n]", {one_dim(VALUE(k(c))), lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(11, {{"[dim(norm_out,0), .., n, n]", {one_dim(VALUE(c.dim(11, 0))), lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(12, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(13, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(14, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(15, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        dtype_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
        format_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
        rule_check(3, {"1 <= n <= 8", VALUE(wide(wide(1) <= n(c) && n(c) <= wide(8)))}, {{"n", VALUE(n(c))}}),
        rule_check(3, {"0 < D < 100000", VALUE(wide(wide(0) < D(c) && D(c) < wide(100000)))}, {{"D", VALUE(D(c))}}),
        rule_check(3, {"D % 128 == 0", VALUE(wide(mod({D(c), wide(128)}) == wide(0)))}, {{"D", VALUE(D(c))}}),
    };
}

std::vector<Check> checks_ascend910b() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})),
        with_status(0, empty_check({0, 1, 2, 3, 7, 8, 9, 10, 11})),
        rank_check(3, {{"4", VALUE(wide(4))}}),
        rank_check(0, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(1, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(2, {{"r", VALUE(r(c))}, {"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(4, {{"2", VALUE(wide(2))}}),
        rank_check(5, {{"1", VALUE(wide(1))}}),
        rank_check(6, {{"1", VALUE(wide(1))}}),
        rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(10, {{"r", VALUE(r(c))}}),
        rank_check(11, {{"r+1", VALUE(add({r(c), wide(1)}))}}),
        rank_check(12, {{"r", VALUE(r(c))}}),
        rank_check(13, {{"2", VALUE(wide(2))}}),
        rank_check(14, {{"1", VALUE(wide(1))}}),
        rank_check(15, {{"1", VALUE(wide(1))}}),
        when({"r == 4", VALUE(wide(r(c) == wide(4)))}, shape_check(0, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}})),
        when({"r == 3", VALUE(wide(r(c) == wide(3)))}, shape_check(0, {{"[.., dim(grad_hin,-1)]", {lead_dims(), one_dim(VALUE(c.dim(0, -1)))}}})),
        shape_check(1, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(2, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}, {"[.., n*n]", {lead_dims(), one_dim(VALUE(mul({n(c), n(c)})))}}}),
        shape_check(4, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(5, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(6, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        shape_check(7, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(8, {{"[.., f]", {lead_dims(), one_dim(VALUE(f(c)))}}}),
        shape_check(9, {{"[.., 1]", {lead_dims(), one_dim(VALUE(wide(1)))}}}),
        shape_check(10, {{"[k, .., n]", {one_dim(VALUE(k(c))), lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(11, {{"[dim(norm_out,0), .., n, n]", {one_dim(VALUE(c.dim(11, 0))), lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(12, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(13, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(14, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(15, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        dtype_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
        format_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
        rule_check(3, {"n == 4", VALUE(wide(n(c) == wide(4)))}, {{"n", VALUE(n(c))}}),
        rule_check(3, {"0 < D < 100000", VALUE(wide(wide(0) < D(c) && D(c) < wide(100000)))}, {{"D", VALUE(D(c))}}),
        rule_check(3, {"D % 128 == 0", VALUE(wide(mod({D(c), wide(128)}) == wide(0)))}, {{"D", VALUE(D(c))}}),
    };
}

}  // namespace

Operator mhc_pre_sinkhorn_backward_table() {
    Operator op;
    op.name = "MhcPreSinkhornBackward";
    op.lead = 3;
    op.lead_rest = 2;
    op.tensors = {
        {"grad_hin", "gradHin", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"grad_h_post", "gradHPost", false, {"FLOAT"}, -1},
        {"grad_h_res", "gradHRes", false, {"FLOAT"}, -1},
        {"x", "x", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"phi", "phi", false, {"FLOAT"}, -1},
        {"alpha", "alpha", false, {"FLOAT"}, -1},
        {"bias", "bias", false, {"FLOAT"}, -1},
        {"h_pre", "hPre", false, {"FLOAT"}, -1},
        {"hc_before_norm", "hcBeforeNorm", false, {"FLOAT"}, -1},
        {"inv_rms", "invRms", false, {"FLOAT"}, -1},
        {"sum_out", "sumOut", false, {"FLOAT"}, -1},
        {"norm_out", "normOut", false, {"FLOAT"}, -1},
        {"grad_x", "gradX", true, {"BFLOAT16", "FLOAT16"}, 0},
        {"grad_phi", "gradPhi", true, {"FLOAT"}, -1},
        {"grad_alpha", "gradAlpha", true, {"FLOAT"}, -1},
        {"grad_bias", "gradBias", true, {"FLOAT"}, -1},
    };
    op.attrs = {"hcEps"};
    op.rules["ascend950"] = {checks_ascend950(), {"16*1024*1024 + 4*T*(n*n + 2*n + n*D)", VALUE(add({mul({mul({wide(16), wide(1024)}), wide(1024)}), mul({mul({wide(4), c.tokens()}), add({add({mul({n(c), n(c)}), mul({wide(2), n(c)})}), mul({n(c), D(c)})})})}))}};
    op.rules["ascend910b"] = {checks_ascend910b(), {"16*1024*1024 + 4*T*(n*n + 2*n + n*D)", VALUE(add({mul({mul({wide(16), wide(1024)}), wide(1024)}), mul({mul({wide(4), c.tokens()}), add({add({mul({n(c), n(c)}), mul({wide(2), n(c)})}), mul({n(c), D(c)})})})}))}};
    op.rules["ascend910_93"] = {checks_ascend910b(), {"16*1024*1024 + 4*T*(n*n + 2*n + n*D)", VALUE(add({mul({mul({wide(16), wide(1024)}), wide(1024)}), mul({mul({wide(4), c.tokens()}), add({add({mul({n(c), n(c)}), mul({wide(2), n(c)})}), mul({n(c), D(c)})})})}))}};
    return op;
}

}  // namespace aclnn
