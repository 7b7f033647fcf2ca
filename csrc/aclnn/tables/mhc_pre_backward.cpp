// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

inline wide r(const Call &c) { return c.rank(0); }
inline wide n(const Call &c) { return c.dim(4, -1); }
inline wide D(const Call &c) { return c.dim(3, -1); }
inline wide f(const Call &c) { return c.dim(1, 0); }

std::vector<Check> checks_ascend950() {
    return {
        one_of_check(1, {0, 1}),
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})),
        with_status(161001, null_check({12, 13, 14, 15})),
        with_status(161001, when({"given(gamma)", VALUE(c.given(10))}, null_check({16}))),
        empty_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rank_check(1, {{"2", VALUE(wide(2))}}),
        rank_check(2, {{"1", VALUE(wide(1))}}),
        rank_check(10, {{"2", VALUE(wide(2))}}),
        rank_check(3, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(4, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(5, {{"r", VALUE(r(c))}}),
        rank_check(6, {{"r-2", VALUE(sub({r(c), wide(2)}))}}),
        rank_check(11, {{"r", VALUE(r(c))}}),
        rank_check(12, {{"r", VALUE(r(c))}}),
        rank_check(13, {{"2", VALUE(wide(2))}}),
        rank_check(14, {{"1", VALUE(wide(1))}}),
        rank_check(15, {{"1", VALUE(wide(1))}}),
        rank_check(16, {{"2", VALUE(wide(2))}}),
        shape_check(0, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(4, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(5, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}}),
        shape_check(6, {{"[..]", {lead_dims()}}}),
        shape_check(7, {{"[.., dim(h_mix,-1)]", {lead_dims(), one_dim(VALUE(c.dim(7, -1)))}}}),
        shape_check(8, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(9, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(12, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(11, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(2, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        rule_check(1, {"f in (fact(n)+2*n, n*n+2*n)", VALUE(wide(in(f(c), {add({fact_of({n(c)}), mul({wide(2), n(c)})}), add({mul({n(c), n(c)}), mul({wide(2), n(c)})})})))}, {{"f", VALUE(f(c))}, {"n", VALUE(n(c))}}),
        shape_check(1, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(7, {{"[.., f]", {lead_dims(), one_dim(VALUE(f(c)))}}}),
        shape_check(13, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(14, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(15, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        shape_check(10, {{"[n, D]", {one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(16, {{"[n, D]", {one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        dtype_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
        format_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
    };
}

std::vector<Check> checks_ascend910b() {
    return {
        one_of_check(1, {0, 1}),
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})),
        with_status(161001, null_check({12, 13, 14, 15})),
        with_status(161001, when({"given(gamma)", VALUE(c.given(10))}, null_check({16}))),
        empty_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rank_check(1, {{"2", VALUE(wide(2))}}),
        rank_check(2, {{"1", VALUE(wide(1))}}),
        rank_check(10, {{"2", VALUE(wide(2))}}),
        rank_check(3, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(4, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(5, {{"r", VALUE(r(c))}, {"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(6, {{"r-2", VALUE(sub({r(c), wide(2)}))}}),
        rank_check(11, {{"r", VALUE(r(c))}}),
        rank_check(12, {{"r", VALUE(r(c))}}),
        rank_check(13, {{"2", VALUE(wide(2))}}),
        rank_check(14, {{"1", VALUE(wide(1))}}),
        rank_check(15, {{"1", VALUE(wide(1))}}),
        rank_check(16, {{"2", VALUE(wide(2))}}),
        shape_check(0, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(4, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(5, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}, {"[.., fact(n)]", {lead_dims(), one_dim(VALUE(fact_of({n(c)})))}}}),
        shape_check(6, {{"[..]", {lead_dims()}}}),
        shape_check(7, {{"[.., dim(h_mix,-1)]", {lead_dims(), one_dim(VALUE(c.dim(7, -1)))}}}),
        shape_check(8, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(9, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(12, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(11, {{"[.., n, D]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(2, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        rule_check(1, {"f in (fact(n)+2*n, n*n+2*n)", VALUE(wide(in(f(c), {add({fact_of({n(c)}), mul({wide(2), n(c)})}), add({mul({n(c), n(c)}), mul({wide(2), n(c)})})})))}, {{"f", VALUE(f(c))}, {"n", VALUE(n(c))}}),
        shape_check(1, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(7, {{"[.., f]", {lead_dims(), one_dim(VALUE(f(c)))}}}),
        shape_check(13, {{"[f, n*D]", {one_dim(VALUE(f(c))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(14, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(15, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        shape_check(10, {{"[n, D]", {one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(16, {{"[n, D]", {one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        dtype_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}),
        format_check({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
    };
}

}  // namespace

Operator mhc_pre_backward_table() {
    Operator op;
    op.name = "MhcPreBackward";
    op.lead = 3;
    op.lead_rest = 1;
    op.tensors = {
        {"x", "x", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"phi", "phi", false, {"FLOAT"}, -1},
        {"alpha", "alpha", false, {"FLOAT"}, -1},
        {"grad_h_in", "gradHIn", false, {"BFLOAT16", "FLOAT16"}, 0},
        {"grad_h_post", "gradHPost", false, {"FLOAT"}, -1},
        {"grad_h_res", "gradHRes", false, {"FLOAT"}, -1},
        {"inv_rms", "invRms", false, {"FLOAT"}, -1},
        {"h_mix", "hMix", false, {"FLOAT"}, -1},
        {"h_pre", "hPre", false, {"FLOAT"}, -1},
        {"h_post", "hPost", false, {"FLOAT"}, -1},
        {"gamma", "gammaOptional", false, {"FLOAT"}, -1},
        {"grad_x_post", "gradXPostOptional", false, {"BFLOAT16", "FLOAT16"}, 0},
        {"grad_x", "gradX", true, {"BFLOAT16", "FLOAT16"}, 0},
        {"grad_phi", "gradPhi", true, {"FLOAT"}, -1},
        {"grad_alpha", "gradAlpha", true, {"FLOAT"}, -1},
        {"grad_bias", "gradBias", true, {"FLOAT"}, -1},
        {"grad_gamma", "gradGamma", true, {"FLOAT"}, -1},
    };
    op.attrs = {"hcEps", "opImplMode"};
    op.rules["ascend950"] = {checks_ascend950(), {"40*1024*1024 + 4*(align(T*f + 24*aiv + aiv*f + T, 32) + 2*512*128*aic*2 + 2*1024*1024)", VALUE(add({mul({mul({wide(40), wide(1024)}), wide(1024)}), mul({wide(4), add({add({align_of({add({add({add({mul({c.tokens(), f(c)}), mul({wide(24), c.aiv})}), mul({c.aiv, f(c)})}), c.tokens()}), wide(32)}), mul({mul({mul({mul({wide(2), wide(512)}), wide(128)}), c.aic}), wide(2)})}), mul({mul({wide(2), wide(1024)}), wide(1024)})})})}))}};
    op.rules["ascend910b"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910_93"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    return op;
}

}  // namespace aclnn
