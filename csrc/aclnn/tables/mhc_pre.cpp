// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a check a line
#include "../check.h"

namespace aclnn {
namespace {

#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }

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

}  // namespace

Operator mhc_pre_table() {
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

}  // namespace aclnn
