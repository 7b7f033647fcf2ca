// MhcPre and MhcPreBackward on the CPU kernels.
#include "compute.h"

namespace aclnn {

namespace {

namespace pre {
enum { kX, kPhi, kAlpha, kBias, kGamma, kHIn, kHPost, kHRes, kInvRms, kHMix, kHPre };
enum { kNormEps, kHcEps, kMode };

void refuse(const std::vector<View> &views, const std::vector<Value> &attrs) {
    check_norm_eps(attrs[kNormEps].number);
    check_hc_eps(attrs[kHcEps].number);
    const View &h_res = views[kHRes];
    const int64_t residual = views[kPhi].dim(0) - 2 * views[kX].dim(-2);
    refuse_if(views[kAlpha].count == 3 &&
                  h_res.elements_after(int(views[kX].shape().size()) - 2) != residual,
              "hRes does not fit the rows of phi");
}

void run(Operands &t, const std::vector<Value> &attrs) {
    const View &x = t[kX];
    const int64_t n = x.dim(-2), dim = x.dim(-1);
    const bool residual = t[kAlpha].count == 3;
    const mhc_pre_sizes sizes = {1, x.count / (n * dim), n, dim, t[kPhi].dim(0)};
    const double hc_eps = attrs[kHcEps].number;
    const mhc_pre_numbers numbers = {
        attrs[kNormEps].number,  hc_eps, 2.0,
        residual ? 0.0 : hc_eps, 0,      int32_t(attrs[kMode].integer == 1)};
    const mhc_pre_forward_in in = {dense_rows(t.input(kX), n, dim), t.input<float>(kPhi),
                                   t.input<float>(kAlpha), t.input<float>(kBias),
                                   t.input<float>(kGamma)};
    const mhc_pre_forward_out out = {t.output(kHIn),
                                     t.output<float>(kHPost),
                                     residual ? t.output<float>(kHRes) : nullptr,
                                     t.output<float>(kInvRms),
                                     t.output<float>(kHMix),
                                     t.output<float>(kHPre)};
    check_kernel(mhc_pre_forward(&sizes, kernel_dtype(x.dtype()), &numbers, &in, &out, threads()));
}
}  // namespace pre

namespace back {
enum {
    kX,
    kPhi,
    kAlpha,
    kGradHIn,
    kGradHPost,
    kGradHRes,
    kInvRms,
    kHMix,
    kHPre,
    kHPost,
    kGamma,
    kGradXPost,
    kGradX,
    kGradPhi,
    kGradAlpha,
    kGradBias,
    kGradGamma
};
enum { kHcEps, kMode };

void refuse(const std::vector<View> &views, const std::vector<Value> &attrs) {
    check_hc_eps(attrs[kHcEps].number);
    const int64_t residual = views[kPhi].dim(0) - 2 * views[kX].dim(-2);
    refuse_if(views[kGradHRes].elements_after(int(views[kX].shape().size()) - 2) != residual,
              "gradHRes does not fit the rows of phi");
}

void run(Operands &t, const std::vector<Value> &attrs) {
    const View &x = t[kX];
    const int64_t n = x.dim(-2), dim = x.dim(-1);
    const mhc_pre_sizes sizes = {1, x.count / (n * dim), n, dim, t[kPhi].dim(0)};
    const mhc_pre_numbers numbers = {
        0.0, attrs[kHcEps].number, 2.0, 0.0, 0, int32_t(attrs[kMode].integer == 1)};
    const mhc_pre_backward_in in = {dense_rows(t.input(kX), n, dim),
                                    dense_rows(t.input(kGradHIn), 1, dim),
                                    dense_rows(t.input(kGradXPost), n, dim),
                                    t.input<float>(kPhi),
                                    t.input<float>(kAlpha),
                                    t.input<float>(kGamma),
                                    t.input<float>(kGradHPost),
                                    t.input<float>(kGradHRes),
                                    t.input<float>(kInvRms),
                                    t.input<float>(kHMix),
                                    t.input<float>(kHPre),
                                    t.input<float>(kHPost)};
    mhc_pre_backward_out out = {t.output(kGradX),
                                t.output<float>(kGradPhi),
                                t.output<float>(kGradAlpha),
                                t.output<float>(kGradBias),
                                nullptr,
                                0};
    if (t[kGamma])
        out.grad_gamma = t.output<float>(kGradGamma);
    else
        t.zero(kGradGamma);
    check_kernel(mhc_pre_backward(&sizes, kernel_dtype(x.dtype()), &numbers, &in, &out, threads()));
}
}  // namespace back

}  // namespace

const Compute kMhcPre = {pre::refuse, pre::run};
const Compute kMhcPreBackward = {back::refuse, back::run};

}  // namespace aclnn
