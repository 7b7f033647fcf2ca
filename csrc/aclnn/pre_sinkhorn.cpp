// MhcPreSinkhorn and its backward, by way of the kernels of their two parts.
#include <algorithm>

#include "compute.h"

namespace aclnn {

namespace {

namespace forward {
enum { kX, kPhi, kAlpha, kBias, kHIn, kHPost, kHRes, kHPre, kHMix, kInvRms, kSum, kNorm };
enum { kHcMult, kIters, kHcEps, kNormEps, kSaving };

void refuse(const std::vector<View> &, const std::vector<Value> &attrs) {
    check_norm_eps(attrs[kNormEps].number);
    check_sinkhorn_eps(attrs[kHcEps].number);
}

void run(Operands &t, const std::vector<Value> &attrs) {
    const View &x = t[kX];
    const int64_t n = x.dim(-2), dim = x.dim(-1), tokens = x.count / (n * dim);
    const int64_t iters = attrs[kIters].integer;
    const double eps = attrs[kHcEps].number;
    const bool saving = attrs[kSaving].integer;
    const bool mixed =
        x.dtype() != t[kHIn].dtype();  // not compared: round to hin's once, at the end
    const mhc_pre_sizes sizes = {1, tokens, n, dim, t[kPhi].dim(0)};
    const mhc_pre_numbers numbers = {attrs[kNormEps].number, eps, 2.0, 0.0, 0, 0};
    const void *streams = mixed ? t.input_as_float(kX) : t.input(kX);
    const mhc_pre_forward_in in = {dense_rows(streams, n, dim), t.input<float>(kPhi),
                                   t.input<float>(kAlpha), t.input<float>(kBias), nullptr};
    float *logits = t.scratch(tokens * n * n);
    const mhc_pre_forward_out out = {mixed ? t.output_from_float(kHIn) : t.output(kHIn),
                                     t.output<float>(kHPost),
                                     logits,
                                     saving ? t.output<float>(kInvRms) : nullptr,
                                     saving ? t.output<float>(kHMix) : nullptr,
                                     saving ? t.output<float>(kHPre) : nullptr};
    check_kernel(mhc_pre_forward(&sizes, mixed ? MHC_FLOAT32 : kernel_dtype(x.dtype()), &numbers,
                                 &in, &out, threads()));
    const auto balancing = sinkhorn_numbers(eps, iters);
    float *h_res = t.output<float>(kHRes);
    check_kernel(
        mhc_sinkhorn_forward(tokens, n, &balancing, logits, h_res, nullptr, nullptr, threads()));
    if (!saving) return;
    float *norm_out = t.output<float>(kNorm), *sum_out = t.output<float>(kSum);
    const int64_t steps = 2 * iters, size = n * n;
    std::vector<float> norm(steps * size), sum(steps * n);
    for (int64_t token = 0; token < tokens; ++token) {
        sinkhorn_iterates(logits + token * size, n, iters, float(eps), norm.data(), sum.data());
        for (int64_t k = 0; k < size; ++k) norm[k] += float(eps);  // unlike MhcSinkhorn's
        for (int64_t k = 0; k < n; ++k) sum[k] += float(eps);
        // The last iterate is the output, to the bit.
        std::copy_n(h_res + token * size, size, norm.end() - size);
        for (int64_t step = 0; step < steps; ++step) {
            std::copy_n(&norm[step * size], size, norm_out + (step * tokens + token) * size);
            std::copy_n(&sum[step * n], n, sum_out + (step * tokens + token) * n);
        }
    }
}
}  // namespace forward

namespace back {
enum {
    kGradHIn,
    kGradHPost,
    kGradHRes,
    kX,
    kPhi,
    kAlpha,
    kBias,
    kHPre,
    kHMix,
    kInvRms,
    kSum,
    kNorm,
    kGradX,
    kGradPhi,
    kGradAlpha,
    kGradBias
};
enum { kEps };

void refuse(const std::vector<View> &views, const std::vector<Value> &attrs) {
    check_sinkhorn_eps(attrs[kEps].number);
    const int64_t n = views[kX].dim(-2), steps = views[kSum].dim(0);
    refuse_if(steps < 2 || steps % 2 || steps > 2000,
              "sumOut must have 2*numIters rows, numIters 1..1000");
    refuse_if(views[kHMix].dim(-1) != n * n + 2 * n, "hcBeforeNorm must have n*n+2n columns");
    refuse_if(views[kGradHIn].dim(-1) != views[kX].dim(-1), "gradHin must have x's last dimension");
}

// The iterates are computed again from hcBeforeNorm; of sumOut the number of rows is all that is
// used, and of normOut nothing, as in the newest published composition.
void run(Operands &t, const std::vector<Value> &attrs) {
    const View &x = t[kX];
    const int64_t n = x.dim(-2), dim = x.dim(-1), tokens = x.count / (n * dim);
    const int64_t rows = t[kPhi].dim(0), size = n * n;
    const double eps = attrs[kEps].number;
    const float *mix = t.input<float>(kHMix), *inv_rms = t.input<float>(kInvRms);
    const float *alpha = t.input<float>(kAlpha), *bias = t.input<float>(kBias);
    float *h_post = t.scratch(tokens * n), *logits = t.scratch(tokens * size);
    for (int64_t token = 0; token < tokens; ++token) {
        const float *row = mix + token * rows;
        for (int64_t k = n; k < rows; ++k) {
            const float z = row[k] * inv_rms[token] * alpha[k < 2 * n ? 1 : 2] + bias[k];
            if (k < 2 * n)
                h_post[token * n + k - n] = 2 / (1 + std::exp(-z));
            else
                logits[token * size + k - 2 * n] = z;
        }
    }
    float *grad_logits = t.scratch(tokens * size);
    const auto balancing = sinkhorn_numbers(eps, t[kSum].dim(0) / 2);
    check_kernel(mhc_sinkhorn_backward(tokens, n, &balancing, logits, t.input<float>(kGradHRes),
                                       grad_logits, threads()));
    const bool mixed = x.dtype() != t[kGradHIn].dtype();  // not compared: round once, at the end
    const void *streams = mixed ? t.input_as_float(kX) : t.input(kX);
    const void *grad_h_in = mixed ? t.input_as_float(kGradHIn) : t.input(kGradHIn);
    const mhc_pre_sizes sizes = {1, tokens, n, dim, rows};
    const mhc_pre_numbers numbers = {0.0, eps, 2.0, 0.0, 0, 0};
    const mhc_pre_backward_in in = {dense_rows(streams, n, dim),
                                    dense_rows(grad_h_in, 1, dim),
                                    {nullptr, 0, 0, 0},
                                    t.input<float>(kPhi),
                                    alpha,
                                    nullptr,
                                    t.input<float>(kGradHPost),
                                    grad_logits,
                                    inv_rms,
                                    mix,
                                    t.input<float>(kHPre),
                                    h_post};
    const mhc_pre_backward_out out = {mixed ? t.output_from_float(kGradX) : t.output(kGradX),
                                      t.output<float>(kGradPhi),
                                      t.output<float>(kGradAlpha),
                                      t.output<float>(kGradBias),
                                      nullptr,
                                      0};
    check_kernel(mhc_pre_backward(&sizes, mixed ? MHC_FLOAT32 : kernel_dtype(x.dtype()), &numbers,
                                  &in, &out, threads()));
}
}  // namespace back

}  // namespace

const Compute kMhcPreSinkhorn = {forward::refuse, forward::run};
const Compute kMhcPreSinkhornBackward = {back::refuse, back::run};

}  // namespace aclnn
