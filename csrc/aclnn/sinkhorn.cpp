// MhcSinkhorn on the CPU kernel; what it saves, and MhcSinkhornBackward from that, in plain loops.
#include <algorithm>
#include <limits>

#include "compute.h"

namespace aclnn {

void sinkhorn_iterates(const float *logits, int64_t n, int64_t num_iters, float eps, float *norm,
                       float *sum) {
    const int64_t size = n * n;
    std::vector<float> h(size);
    for (int64_t i = 0; i < n; ++i) {
        const float *row = logits + i * n;
        float top = row[0];
        for (int64_t j = 1; j < n; ++j) top = row[j] > top || row[j] != row[j] ? row[j] : top;
        float total = 0;
        for (int64_t j = 0; j < n; ++j) total += norm[i * n + j] = std::exp(row[j] - top);
        for (int64_t j = 0; j < n; ++j) h[i * n + j] = (norm[i * n + j] /= total) + eps;
        sum[i] = total;
    }
    for (int64_t step = 1; step < 2 * num_iters; ++step) {
        // Odd steps divide columns: entries of a line are `along` apart, lines `across`.
        const int64_t along = step % 2 ? n : 1, across = step % 2 ? 1 : n;
        for (int64_t line = 0; line < n; ++line) {
            float total = 0;
            for (int64_t k = 0; k < n; ++k) total += h[line * across + k * along];
            total += eps;
            for (int64_t k = 0; k < n; ++k) h[line * across + k * along] /= total;
            sum[step * n + line] = total;
        }
        std::copy(h.begin(), h.end(), norm + step * size);
    }
}

namespace {

constexpr int64_t kLanes = 8;

// One tile holds all tokens: normOut [2K][n][T][8], from before to, and sumOut [2K][T][8].
struct Saved {
    int64_t n, tokens;
    int64_t norm(int64_t step, int64_t token, int64_t from, int64_t to) const {
        return ((step * n + from) * tokens + token) * kLanes + to;
    }
    int64_t sum(int64_t step, int64_t token, int64_t line) const {
        return (step * tokens + token) * kLanes + line;
    }
};

namespace forward {
enum { kX, kY, kNorm, kSum };
enum { kEps, kIters };

void refuse(const std::vector<View> &, const std::vector<Value> &attrs) {
    check_sinkhorn_eps(attrs[kEps].number);
}

void run(Operands &t, const std::vector<Value> &attrs) {
    const int64_t n = t[kX].dim(-1), tokens = t[kX].count / (n * n), iters = attrs[kIters].integer;
    // Here either infinity gives NaN; the kernel takes -inf for a weight of 0.
    float *logits = t.scratch(t[kX].count);
    const float *given = t.input<float>(kX);
    for (int64_t k = 0; k < t[kX].count; ++k)
        logits[k] = std::isinf(given[k]) ? std::numeric_limits<float>::quiet_NaN() : given[k];
    const auto numbers = sinkhorn_numbers(attrs[kEps].number, iters);
    float *y = t.output<float>(kY);
    check_kernel(mhc_sinkhorn_forward(tokens, n, &numbers, logits, y, nullptr, nullptr, threads()));
    if (!t[kNorm] || t[kNorm].count == 1) return;
    const Saved at = {n, tokens};
    float *norm_out = t.output<float>(kNorm), *sum_out = t.output<float>(kSum, true);
    std::vector<float> norm(2 * iters * n * n), sum(2 * iters * n);
    for (int64_t token = 0; token < tokens; ++token) {
        sinkhorn_iterates(logits + token * n * n, n, iters, float(attrs[kEps].number), norm.data(),
                          sum.data());
        // The last iterate is the output, to the bit.
        std::copy_n(y + token * n * n, n * n, norm.end() - n * n);
        for (int64_t step = 0; step < 2 * iters; ++step) {
            for (int64_t i = 0; i < n; ++i)
                for (int64_t j = 0; j < kLanes; ++j)
                    norm_out[at.norm(step, token, i, j)] =
                        j < n ? norm[(step * n + i) * n + j] : 0.0f;
            for (int64_t j = 0; j < kLanes && step; ++j)
                sum_out[at.sum(step, token, j)] = j < n ? sum[step * n + j] : 0.0f;
        }
    }
}
}  // namespace forward

namespace back {
enum { kGradY, kNorm, kSum, kGradInput };

void refuse(const std::vector<View> &views, const std::vector<Value> &) {
    const int64_t n = views[kGradY].dim(-1), tokens = views[kGradY].count / (n * n);
    const int64_t steps = views[kNorm].count / (tokens * n * kLanes);
    const bool flat = views[kNorm].shape().size() == 1 && views[kSum].shape().size() == 1;
    refuse_if(steps < 2 || steps % 2 || !flat ||
                  views[kNorm].count != steps * tokens * n * kLanes ||
                  views[kSum].count != steps * tokens * kLanes,
              "normOut and sumOut must be [2*numIters*T*n*8] and [2*numIters*T*8]");
}

void run(Operands &t, const std::vector<Value> &) {
    const int64_t n = t[kGradY].dim(-1), tokens = t[kGradY].count / (n * n);
    const int64_t steps = t[kNorm].count / (tokens * n * kLanes);
    const float *norm = t.input<float>(kNorm), *sum = t.input<float>(kSum);
    const float *grad_y = t.input<float>(kGradY);
    float *grad = t.output<float>(kGradInput);
    const Saved at = {n, tokens};
    std::copy_n(grad_y, t[kGradY].count, grad);
    for (int64_t token = 0; token < tokens; ++token) {
        float *g = grad + token * n * n;
        for (int64_t step = steps - 1; step >= 1; --step) {
            const bool columns = step % 2;
            for (int64_t line = 0; line < n; ++line) {
                float total = 0;
                for (int64_t k = 0; k < n; ++k) {
                    const int64_t i = columns ? k : line, j = columns ? line : k;
                    total += g[i * n + j] * norm[at.norm(step, token, i, j)];
                }
                for (int64_t k = 0; k < n; ++k) {
                    const int64_t i = columns ? k : line, j = columns ? line : k;
                    g[i * n + j] = (g[i * n + j] - total) / sum[at.sum(step, token, line)];
                }
            }
        }
        for (int64_t i = 0; i < n; ++i) {
            float total = 0;
            for (int64_t j = 0; j < n; ++j) total += g[i * n + j] * norm[at.norm(0, token, i, j)];
            for (int64_t j = 0; j < n; ++j)
                g[i * n + j] = (g[i * n + j] - total) * norm[at.norm(0, token, i, j)];
        }
    }
}
}  // namespace back

}  // namespace

const Compute kMhcSinkhorn = {forward::refuse, forward::run};
const Compute kMhcSinkhornBackward = {back::refuse, back::run};

}  // namespace aclnn
