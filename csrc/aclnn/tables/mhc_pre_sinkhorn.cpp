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

}  // namespace

Operator mhc_pre_sinkhorn_table() {
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

}  // namespace aclnn
