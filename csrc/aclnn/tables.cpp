// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

namespace mhc_pre {

inline wide r(const Call &c) { return c.rank(0); }
inline wide n(const Call &c) { return c.dim(0, -2); }
inline wide D(const Call &c) { return c.dim(0, -1); }
inline wide A(const Call &c) { return c.dim(2, 0); }
inline wide f(const Call &c) { return c.dim(1, 0); }

std::vector<Check> checks_ascend950() {
    return {
        one_of_check(2, {0, 1}),
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 5, 6})),
        empty_check({0, 1, 2, 3}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rank_check(1, {{"2", VALUE(wide(2))}}),
        rank_check(2, {{"1", VALUE(wide(1))}}),
        rank_check(3, {{"1", VALUE(wide(1))}}),
        rank_check(4, {{"2", VALUE(wide(2))}}),
        rule_check(2, {"A in (2, 3)", VALUE(wide(in(A(c), {wide(2), wide(3)})))}, {{"A", VALUE(A(c))}}),
        with_status(161001, when({"A == 3", VALUE(wide(A(c) == wide(3)))}, null_check({7}))),
        rank_check(5, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(6, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, rank_check(7, {{"r", VALUE(r(c))}})),
        all_or_none_check({8, 9, 10}, -1),
        rank_check(8, {{"r-2", VALUE(sub({r(c), wide(2)}))}}),
        rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(10, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rule_check(0, {"n > 0", VALUE(wide(n(c) > wide(0)))}, {{"n", VALUE(n(c))}}),
        rule_check(0, {"D > 0", VALUE(wide(D(c) > wide(0)))}, {{"D", VALUE(D(c))}}),
        rule_check(0, {"n in (4, 6, 8)", VALUE(wide(in(n(c), {wide(4), wide(6), wide(8)})))}, {{"n", VALUE(n(c))}}),
        rule_check(0, {"D % 16 == 0", VALUE(wide(mod({D(c), wide(16)}) == wide(0)))}, {{"D", VALUE(D(c))}}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, shape_check(1, {{"[n*n+2*n, n*D]", {one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})}))), one_dim(VALUE(mul({n(c), D(c)})))}}})),
        when({"A == 2", VALUE(wide(A(c) == wide(2)))}, shape_check(1, {{"[2*n, n*D]", {one_dim(VALUE(mul({wide(2), n(c)}))), one_dim(VALUE(mul({n(c), D(c)})))}}})),
        shape_check(3, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        shape_check(4, {{"[n, D]", {one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(5, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(6, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, shape_check(7, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}})),
        shape_check(8, {{"[..]", {lead_dims()}}}),
        shape_check(9, {{"[.., f]", {lead_dims(), one_dim(VALUE(f(c)))}}}),
        shape_check(10, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        dtype_check({0, 1, 2, 3, 4, 5, 6}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, dtype_check({7})),
        dtype_check({8, 9, 10}),
        format_check({0, 1, 2, 3, 4, 5, 6}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, format_check({7})),
        format_check({8, 9, 10}),
        one_of_check(2, {0, 1}),
    };
}

std::vector<Check> checks_ascend910b() {
    return {
        one_of_check(2, {0, 1}),
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 5, 6})),
        empty_check({0, 1, 2, 3}),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rank_check(1, {{"2", VALUE(wide(2))}}),
        rank_check(2, {{"1", VALUE(wide(1))}}),
        rank_check(3, {{"1", VALUE(wide(1))}}),
        rank_check(4, {{"2", VALUE(wide(2))}}),
        rule_check(2, {"A in (2, 3)", VALUE(wide(in(A(c), {wide(2), wide(3)})))}, {{"A", VALUE(A(c))}}),
        with_status(161001, when({"A == 3", VALUE(wide(A(c) == wide(3)))}, null_check({7}))),
        rank_check(5, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(6, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, rank_check(7, {{"r", VALUE(r(c))}, {"r-1", VALUE(sub({r(c), wide(1)}))}})),
        all_or_none_check({8, 9, 10}, -1),
        rank_check(8, {{"r-2", VALUE(sub({r(c), wide(2)}))}}),
        rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(10, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rule_check(0, {"n == 4", VALUE(wide(n(c) == wide(4)))}, {{"n", VALUE(n(c))}}),
        rule_check(0, {"D % 128 == 0", VALUE(wide(mod({D(c), wide(128)}) == wide(0)))}, {{"D", VALUE(D(c))}}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, shape_check(1, {{"[fact(n)+2*n, n*D]", {one_dim(VALUE(add({fact_of({n(c)}), mul({wide(2), n(c)})}))), one_dim(VALUE(mul({n(c), D(c)})))}}, {"[n*n+2*n, n*D]", {one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})}))), one_dim(VALUE(mul({n(c), D(c)})))}}})),
        when({"A == 2", VALUE(wide(A(c) == wide(2)))}, shape_check(1, {{"[2*n, n*D]", {one_dim(VALUE(mul({wide(2), n(c)}))), one_dim(VALUE(mul({n(c), D(c)})))}}})),
        shape_check(3, {{"[f]", {one_dim(VALUE(f(c)))}}}),
        shape_check(4, {{"[n, D]", {one_dim(VALUE(n(c))), one_dim(VALUE(D(c)))}}}),
        shape_check(5, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(6, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, shape_check(7, {{"[.., n, n]", {lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}, {"[.., fact(n)]", {lead_dims(), one_dim(VALUE(fact_of({n(c)})))}}})),
        shape_check(8, {{"[..]", {lead_dims()}}}),
        shape_check(9, {{"[.., f]", {lead_dims(), one_dim(VALUE(f(c)))}}}),
        shape_check(10, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        dtype_check({0, 1, 2, 3, 4, 5, 6}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, dtype_check({7})),
        dtype_check({8, 9, 10}),
        format_check({0, 1, 2, 3, 4, 5, 6}),
        when({"A == 3", VALUE(wide(A(c) == wide(3)))}, format_check({7})),
        format_check({8, 9, 10}),
        one_of_check(2, {0}),
    };
}

Operator table() {
    Operator op;
    op.name = "MhcPre";
    op.lead = 0;
    op.lead_rest = 2;
    op.tensors = {
        {"x", "x", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"phi", "phi", false, {"FLOAT"}, -1},
        {"alpha", "alpha", false, {"FLOAT"}, -1},
        {"bias", "bias", false, {"FLOAT"}, -1},
        {"gamma", "gammaOptional", false, {"FLOAT"}, -1},
        {"hin", "hIn", true, {"BFLOAT16", "FLOAT16"}, 0},
        {"h_post", "hPost", true, {"FLOAT"}, -1},
        {"h_res", "hRes", true, {"FLOAT"}, -1},
        {"inv_rms", "invRmsOptional", true, {"FLOAT"}, -1},
        {"h_mix", "hMixOptional", true, {"FLOAT"}, -1},
        {"h_pre", "hPreOptional", true, {"FLOAT"}, -1},
    };
    op.attrs = {"normEps", "hcEps", "opImplMode", "out_flag"};
    op.rules["ascend950"] = {checks_ascend950(), {"20*1024*1024 + 4*T*(f+1)*(2 if T <= 10240 and T <= 256*aic and n*D >= 512 else 1)", VALUE(add({mul({mul({wide(20), wide(1024)}), wide(1024)}), mul({mul({mul({wide(4), c.tokens()}), add({f(c), wide(1)})}), (wide(wide(c.tokens() <= wide(10240)) && wide(c.tokens() <= mul({wide(256), c.aic})) && wide(mul({n(c), D(c)}) >= wide(512))) ? wide(2) : wide(1))})}))}};
    op.rules["ascend910b"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910_93"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    return op;
}

}  // namespace mhc_pre

namespace mhc_pre_backward {

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

Operator table() {
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

}  // namespace mhc_pre_backward

namespace mhc_post {

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

Operator table() {
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

}  // namespace mhc_post

namespace mhc_post_backward {

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

Operator table() {
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

}  // namespace mhc_post_backward

namespace mhc_sinkhorn {

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

Operator table() {
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

}  // namespace mhc_sinkhorn

namespace mhc_sinkhorn_backward {

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

Operator table() {
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

}  // namespace mhc_sinkhorn_backward

namespace mhc_pre_sinkhorn {

inline wide r(const Call &c) { return c.rank(0); }
inline wide n(const Call &c) { return c.dim(0, -2); }
inline wide D(const Call &c) { return c.dim(0, -1); }

std::vector<Check> checks_ascend950() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6})),
        with_status(161001, when({"need_backward", VALUE(c.attrs[4].whole())}, null_check({7, 8, 9, 10, 11}))),
        dtype_check({0, 1, 2, 3, 4, 5, 6}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, dtype_check({7, 8, 9, 10, 11})),
        rank_check(0, {{"3", VALUE(wide(3))}, {"4", VALUE(wide(4))}}),
        rank_check(1, {{"2", VALUE(wide(2))}}),
        rank_check(2, {{"1", VALUE(wide(1))}}),
        rank_check(3, {{"1", VALUE(wide(1))}}),
        rank_check(4, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(5, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(6, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(10, {{"r", VALUE(r(c))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(11, {{"r+1", VALUE(add({r(c), wide(1)}))}})),
        one_of_check(0, {4}),
        rule_check(0, {"n == 4", VALUE(wide(n(c) == wide(4)))}, {{"n", VALUE(n(c))}}),
        one_of_check(1, {20}),
        shape_check(4, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(1, {{"[n*n+2*n, n*D]", {one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})}))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(2, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(3, {{"[n*n+2*n]", {one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})})))}}}),
        shape_check(5, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(6, {{"[.., n*n]", {lead_dims(), one_dim(VALUE(mul({n(c), n(c)})))}}}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(7, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(8, {{"[.., n*n+2*n]", {lead_dims(), one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})})))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(9, {{"[.., 1]", {lead_dims(), one_dim(VALUE(wide(1)))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(10, {{"[2*num_iters, .., n]", {one_dim(VALUE(mul({wide(2), c.attrs[1].whole()}))), lead_dims(), one_dim(VALUE(n(c)))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(11, {{"[2*num_iters, .., n, n]", {one_dim(VALUE(mul({wide(2), c.attrs[1].whole()}))), lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}})),
        format_check({0, 1, 2, 3, 4, 5, 6}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, format_check({7, 8, 9, 10, 11})),
        with_status(0, empty_check({0, 4, 5, 6})),
    };
}

std::vector<Check> checks_ascend910b() {
    return {
        with_status(161001, handles_check()),
        with_status(161001, null_check({0, 1, 2, 3, 4, 5, 6})),
        with_status(161001, when({"need_backward", VALUE(c.attrs[4].whole())}, null_check({7, 8, 9, 10, 11}))),
        dtype_check({0, 1, 2, 3, 4, 5, 6}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, dtype_check({7, 8, 9, 10, 11})),
        rank_check(0, {{"4", VALUE(wide(4))}}),
        rank_check(1, {{"2", VALUE(wide(2))}}),
        rank_check(2, {{"1", VALUE(wide(1))}}),
        rank_check(3, {{"1", VALUE(wide(1))}}),
        rank_check(4, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(5, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        rank_check(6, {{"r-1", VALUE(sub({r(c), wide(1)}))}}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(7, {{"r-1", VALUE(sub({r(c), wide(1)}))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(8, {{"r-1", VALUE(sub({r(c), wide(1)}))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(9, {{"r-1", VALUE(sub({r(c), wide(1)}))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(10, {{"r", VALUE(r(c))}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, rank_check(11, {{"r+1", VALUE(add({r(c), wide(1)}))}})),
        one_of_check(0, {4}),
        rule_check(0, {"n == 4", VALUE(wide(n(c) == wide(4)))}, {{"n", VALUE(n(c))}}),
        one_of_check(1, {20}),
        shape_check(4, {{"[.., D]", {lead_dims(), one_dim(VALUE(D(c)))}}}),
        shape_check(1, {{"[n*n+2*n, n*D]", {one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})}))), one_dim(VALUE(mul({n(c), D(c)})))}}}),
        shape_check(2, {{"[3]", {one_dim(VALUE(wide(3)))}}}),
        shape_check(3, {{"[n*n+2*n]", {one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})})))}}}),
        shape_check(5, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}}),
        shape_check(6, {{"[.., n*n]", {lead_dims(), one_dim(VALUE(mul({n(c), n(c)})))}}}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(7, {{"[.., n]", {lead_dims(), one_dim(VALUE(n(c)))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(8, {{"[.., n*n+2*n]", {lead_dims(), one_dim(VALUE(add({mul({n(c), n(c)}), mul({wide(2), n(c)})})))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(9, {{"[.., 1]", {lead_dims(), one_dim(VALUE(wide(1)))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(10, {{"[2*num_iters, .., n]", {one_dim(VALUE(mul({wide(2), c.attrs[1].whole()}))), lead_dims(), one_dim(VALUE(n(c)))}}})),
        when({"need_backward", VALUE(c.attrs[4].whole())}, shape_check(11, {{"[2*num_iters, .., n, n]", {one_dim(VALUE(mul({wide(2), c.attrs[1].whole()}))), lead_dims(), one_dim(VALUE(n(c))), one_dim(VALUE(n(c)))}}})),
        format_check({0, 1, 2, 3, 4, 5, 6}),
        when({"need_backward", VALUE(c.attrs[4].whole())}, format_check({7, 8, 9, 10, 11})),
        with_status(0, empty_check({0, 4, 5, 6})),
    };
}

Operator table() {
    Operator op;
    op.name = "MhcPreSinkhorn";
    op.lead = 0;
    op.lead_rest = 2;
    op.tensors = {
        {"x", "x", false, {"BFLOAT16", "FLOAT16"}, -1},
        {"phi", "phi", false, {"FLOAT"}, -1},
        {"alpha", "alpha", false, {"FLOAT"}, -1},
        {"bias", "bias", false, {"FLOAT"}, -1},
        {"hin", "hin", true, {"BFLOAT16", "FLOAT16"}, -1},
        {"h_post", "hPost", true, {"FLOAT"}, -1},
        {"h_res", "hRes", true, {"FLOAT"}, -1},
        {"h_pre", "hPre", true, {"FLOAT"}, -1},
        {"hc_before_norm", "hcBeforeNorm", true, {"FLOAT"}, -1},
        {"inv_rms", "invRms", true, {"FLOAT"}, -1},
        {"sum_out", "sumOut", true, {"FLOAT"}, -1},
        {"norm_out", "normOut", true, {"FLOAT"}, -1},
    };
    op.attrs = {"hcMult", "numIters", "hcEps", "normEps", "needBackward"};
    op.rules["ascend950"] = {checks_ascend950(), {"16*1024*1024 if T > 5120 else 16*1024*1024 + 4*T*(dim(phi,0)+1)*ceil_div(n*D, align(ceil_div(n*D, aic), 256))", VALUE((wide(c.tokens() > wide(5120)) ? mul({mul({wide(16), wide(1024)}), wide(1024)}) : add({mul({mul({wide(16), wide(1024)}), wide(1024)}), mul({mul({mul({wide(4), c.tokens()}), add({c.dim(1, 0), wide(1)})}), ceil_div_of({mul({n(c), D(c)}), align_of({ceil_div_of({mul({n(c), D(c)}), c.aic}), wide(256)})})})})))}};
    op.rules["ascend910b"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    op.rules["ascend910_93"] = {checks_ascend910b(), {"16*1024*1024", VALUE(mul({mul({wide(16), wide(1024)}), wide(1024)}))}};
    return op;
}

}  // namespace mhc_pre_sinkhorn

namespace mhc_pre_sinkhorn_backward {

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

Operator table() {
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

}  // namespace mhc_pre_sinkhorn_backward

}  // namespace

const std::vector<Operator> &operators() {
    static const auto *all = new std::vector<Operator>{mhc_pre::table(), mhc_pre_backward::table(), mhc_post::table(), mhc_post_backward::table(), mhc_sinkhorn::table(), mhc_sinkhorn_backward::table(), mhc_pre_sinkhorn::table(), mhc_pre_sinkhorn_backward::table()};
    return *all;
}

const std::vector<Chip> &chips() {
    static const auto *all = new std::vector<Chip>{{"ascend950", 32, 64, 262144}, {"ascend910b", 24, 48, 196608}, {"ascend910_93", 24, 48, 196608}};
    return *all;
}

const char *dtype_name(int number) {
    switch (number) {
        case 0: return "FLOAT";
        case 1: return "FLOAT16";
        case 2: return "INT8";
        case 3: return "INT32";
        case 4: return "UINT8";
        case 6: return "INT16";
        case 7: return "UINT16";
        case 8: return "UINT32";
        case 9: return "INT64";
        case 10: return "UINT64";
        case 11: return "DOUBLE";
        case 12: return "BOOL";
        case 13: return "STRING";
        case 16: return "COMPLEX64";
        case 17: return "COMPLEX128";
        case 27: return "BFLOAT16";
        default: return nullptr;
    }
}

const char *format_name(int number) {
    switch (number) {
        case -1: return "UNDEFINED";
        case 0: return "NCHW";
        case 1: return "NHWC";
        case 2: return "ND";
        case 3: return "NC1HWC0";
        case 4: return "FRACTAL_Z";
        case 12: return "NC1HWC0_C04";
        case 16: return "HWCN";
        case 27: return "NDHWC";
        case 29: return "FRACTAL_NZ";
        case 30: return "NCDHW";
        case 32: return "NDC1HWC0";
        case 33: return "FRACTAL_Z_3D";
        case 35: return "NC";
        case 47: return "NCL";
        default: return nullptr;
    }
}

bool is_private(int format) { return format == 3 || format == 4 || format == 12 || format == 29 || format == 32 || format == 33; }

}  // namespace aclnn
