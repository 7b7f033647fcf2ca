// MhcPost and MhcPostBackward on the CPU kernels.
#include "compute.h"

namespace aclnn {

namespace {

namespace post {
enum { kX, kHRes, kHOut, kHPost, kY };

void refuse(const std::vector<View> &, const std::vector<Value> &) {}

void run(Operands &t, const std::vector<Value> &) {
    const View &x = t[kX];
    const int64_t n = x.dim(-2), dim = x.dim(-1);
    const mhc_post_sizes sizes = {1, x.count / (n * dim), n, dim};
    const mhc_post_forward_in in = {dense_rows(t.input(kX), n, dim),
                                    dense_rows(t.input(kHOut), 1, dim), t.input<float>(kHRes),
                                    t.input<float>(kHPost), nullptr};
    check_kernel(mhc_post_forward(&sizes, kernel_dtype(x.dtype()), &in, t.output(kY), threads()));
}
}  // namespace post

namespace back {
enum { kGradY, kX, kHRes, kHOut, kHPost, kGradX, kGradHRes, kGradHOut, kGradHPost };

void refuse(const std::vector<View> &views, const std::vector<Value> &) {
    const int dtype = views[kX].dtype();
    refuse_if(views[kGradY].dtype() != dtype || views[kHOut].dtype() != dtype,
              "gradOutput, x and hOut must have one dtype");
}

void run(Operands &t, const std::vector<Value> &) {
    const View &x = t[kX];
    const int64_t n = x.dim(-2), dim = x.dim(-1);
    const mhc_post_sizes sizes = {1, x.count / (n * dim), n, dim};
    const mhc_post_backward_in in = {dense_rows(t.input(kGradY), n, dim),
                                     dense_rows(t.input(kX), n, dim),
                                     dense_rows(t.input(kHOut), 1, dim),
                                     t.input<float>(kHRes),
                                     t.input<float>(kHPost),
                                     nullptr};
    const mhc_post_backward_out out = {t.output(kGradX),
                                       t.output<float>(kGradHRes),
                                       t.output(kGradHOut),
                                       t.output<float>(kGradHPost),
                                       nullptr,
                                       0};
    check_kernel(mhc_post_backward(&sizes, kernel_dtype(x.dtype()), &in, &out, threads()));
}
}  // namespace back

}  // namespace

const Compute kMhcPost = {post::refuse, post::run};
const Compute kMhcPostBackward = {back::refuse, back::run};

}  // namespace aclnn
