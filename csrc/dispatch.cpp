// The C interface: checks, the choice of an instruction set, the probes' door.
//
// The kernels are compiled once for each level that the compiler's target has (MHC_LEVELS), in
// namespaces of their own; the best one that the processor (and the system's register saving, which
// the compiler's builtin asks too) supports is chosen once, or the one that MHC_OPS_ISA names.
#include <stdlib.h>
#include <string.h>

#include "../include/mhc_ops/mhc_ops.h"
#include "team.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mhc {

struct Kernels {
    const char *name;
    bool (*supported)();
    int (*sinkhorn_forward)(int64_t, int64_t, const mhc_sinkhorn_numbers &, const float *, float *,
                            float *, float *, int);
    int (*sinkhorn_backward)(int64_t, int64_t, const mhc_sinkhorn_numbers &, const float *,
                             const float *, float *, int);
    int (*pre_forward)(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,
                       const mhc_pre_forward_in &, const mhc_pre_forward_out &, int);
    int (*pre_backward)(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,
                        const mhc_pre_backward_in &, const mhc_pre_backward_out &, int);
    int (*post_forward)(const mhc_post_sizes &, mhc_dtype, const mhc_post_forward_in &, void *,
                        int);
    int (*post_backward)(const mhc_post_sizes &, mhc_dtype, const mhc_post_backward_in &,
                         const mhc_post_backward_out &, int);
    int (*lite_forward)(int64_t, int64_t, const float *, float *, int);
    int (*lite_backward)(int64_t, int64_t, const float *, const float *, float *, int);
    int (*post_pre_forward)(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,
                            const mhc_post_forward_in &, const mhc_pre_forward_in &, void *,
                            const mhc_pre_forward_out &, int);
    int (*post_pre_backward)(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,
                             const mhc_post_backward_in &, const mhc_pre_backward_in &,
                             const mhc_post_backward_out &, const mhc_pre_backward_out &, int);
    double (*probe_fma)(int);
    double (*probe_read)(int64_t, int);
};

#define MHC_DECLARE(level)                                                                         \
    namespace level {                                                                              \
    int sinkhorn_forward(int64_t, int64_t, const mhc_sinkhorn_numbers &, const float *, float *,   \
                         float *, float *, int);                                                   \
    int sinkhorn_backward(int64_t, int64_t, const mhc_sinkhorn_numbers &, const float *,           \
                          const float *, float *, int);                                            \
    int pre_forward(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,                     \
                    const mhc_pre_forward_in &, const mhc_pre_forward_out &, int);                 \
    int pre_backward(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,                    \
                     const mhc_pre_backward_in &, const mhc_pre_backward_out &, int);              \
    int post_forward(const mhc_post_sizes &, mhc_dtype, const mhc_post_forward_in &, void *, int); \
    int post_backward(const mhc_post_sizes &, mhc_dtype, const mhc_post_backward_in &,             \
                      const mhc_post_backward_out &, int);                                         \
    int lite_forward(int64_t, int64_t, const float *, float *, int);                               \
    int lite_backward(int64_t, int64_t, const float *, const float *, float *, int);               \
    int post_pre_forward(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,                \
                         const mhc_post_forward_in &, const mhc_pre_forward_in &, void *,          \
                         const mhc_pre_forward_out &, int);                                        \
    int post_pre_backward(const mhc_pre_sizes &, mhc_dtype, const mhc_pre_numbers &,               \
                          const mhc_post_backward_in &, const mhc_pre_backward_in &,               \
                          const mhc_post_backward_out &, const mhc_pre_backward_out &, int);       \
    double probe_fma(int);                                                                         \
    double probe_read(int64_t, int);                                                               \
    }
#define MHC_KERNELS(level, supported) \
    {#level,                          \
     supported,                       \
     level::sinkhorn_forward,         \
     level::sinkhorn_backward,        \
     level::pre_forward,              \
     level::pre_backward,             \
     level::post_forward,             \
     level::post_backward,            \
     level::lite_forward,             \
     level::lite_backward,            \
     level::post_pre_forward,         \
     level::post_pre_backward,        \
     level::probe_fma,                \
     level::probe_read}

MHC_DECLARE(baseline)
#if defined(MHC_X86_LEVELS)
MHC_DECLARE(avx2)
MHC_DECLARE(avx512)
#endif

static const Kernels levels[] = {
#if defined(MHC_X86_LEVELS)
    MHC_KERNELS(avx512,
                [] {
                    return __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
                }),
    MHC_KERNELS(avx2,
                [] {
                    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("f16c");
                }),
#endif
    MHC_KERNELS(baseline, [] { return true; }),
};

static const Kernels *choose() {
    const char *wanted = getenv("MHC_OPS_ISA");
    for (const Kernels &k : levels)
        if ((!wanted || !*wanted || strcmp(wanted, k.name) == 0) && k.supported()) return &k;
    return nullptr;
}

static const Kernels *kernels() {
    static const Kernels *const chosen = choose();
    return chosen;
}

static bool fits(const mhc_pre_sizes *s, mhc_dtype dtype) {
    return s && s->outer >= 0 && s->inner >= 0 && s->streams >= 1 && s->dim >= 1 &&
           s->rows >= 2 * s->streams &&
           (dtype == MHC_FLOAT32 || dtype == MHC_FLOAT16 || dtype == MHC_BFLOAT16);
}

static bool fits(const mhc_post_sizes *s, mhc_dtype dtype) {
    return s && s->outer >= 0 && s->inner >= 0 && s->streams >= 1 && s->dim >= 1 &&
           (dtype == MHC_FLOAT32 || dtype == MHC_FLOAT16 || dtype == MHC_BFLOAT16);
}

static bool fits(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers *n) {
    return tokens >= 0 && streams >= 1 && n && n->num_iters >= 0 && n->temperature > 0 &&
           n->eps_mode >= MHC_EPS_NONE && n->eps_mode <= MHC_EPS_CLAMP;
}

static bool permutes(int64_t tokens, int64_t streams) {
    return tokens >= 0 && streams >= 1 && streams <= 6;
}

// What MhcPreBackward cannot do without.
static bool present(const mhc_pre_sizes *s, const mhc_pre_backward_in *in,
                    const mhc_pre_backward_out *out) {
    if (!in || !out || !in->phi || !in->alpha || (out->grad_gamma && !in->gamma)) return false;
    if (s->outer * s->inner == 0) return true;
    const bool residual = s->rows > 2 * s->streams;
    return in->x.data && in->grad_h_in.data && in->grad_h_post && in->inv_rms && in->h_mix &&
           in->h_pre && in->h_post && (!residual || in->grad_h_res);
}

}  // namespace mhc

using namespace mhc;

extern "C" {

int mhc_pre_forward(const mhc_pre_sizes *sizes, mhc_dtype dtype, const mhc_pre_numbers *numbers,
                    const mhc_pre_forward_in *in, const mhc_pre_forward_out *out, int threads) {
    if (!fits(sizes, dtype) || !numbers || !in || !out) return MHC_BAD_ARGUMENT;
    const bool empty = sizes->outer * sizes->inner == 0;
    if (!empty && (!in->x.data || !in->phi || !in->alpha || !in->bias)) return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->pre_forward(*sizes, dtype, *numbers, *in, *out, threads);
}

int mhc_pre_backward(const mhc_pre_sizes *sizes, mhc_dtype dtype, const mhc_pre_numbers *numbers,
                     const mhc_pre_backward_in *in, const mhc_pre_backward_out *out, int threads) {
    if (!fits(sizes, dtype) || !numbers || !present(sizes, in, out)) return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->pre_backward(*sizes, dtype, *numbers, *in, *out, threads);
}

int mhc_post_forward(const mhc_post_sizes *sizes, mhc_dtype dtype, const mhc_post_forward_in *in,
                     void *out, int threads) {
    if (!fits(sizes, dtype) || !in) return MHC_BAD_ARGUMENT;
    const bool empty = sizes->outer * sizes->inner == 0;
    if (!empty && (!in->x.data || !in->h_out.data || !in->h_post || !out)) return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->post_forward(*sizes, dtype, *in, out, threads);
}

int mhc_post_backward(const mhc_post_sizes *sizes, mhc_dtype dtype, const mhc_post_backward_in *in,
                      const mhc_post_backward_out *out, int threads) {
    if (!fits(sizes, dtype) || !in || !out) return MHC_BAD_ARGUMENT;
    const bool empty = sizes->outer * sizes->inner == 0;
    if (!empty && (!in->grad_out.data || !in->x.data || !in->h_out.data || !in->h_post))
        return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->post_backward(*sizes, dtype, *in, *out, threads);
}

int mhc_post_pre_forward(const mhc_pre_sizes *sizes, mhc_dtype dtype,
                         const mhc_pre_numbers *numbers, const mhc_post_forward_in *post,
                         const mhc_pre_forward_in *pre, void *x_next,
                         const mhc_pre_forward_out *out, int threads) {
    if (!fits(sizes, dtype) || !numbers || !post || !pre || !out) return MHC_BAD_ARGUMENT;
    const bool empty = sizes->outer * sizes->inner == 0;
    if (!empty && (!post->x.data || !post->h_out.data || !post->h_post || !pre->phi ||
                   !pre->alpha || !pre->bias || !x_next))
        return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->post_pre_forward(*sizes, dtype, *numbers, *post, *pre, x_next, *out, threads);
}

int mhc_post_pre_backward(const mhc_pre_sizes *sizes, mhc_dtype dtype,
                          const mhc_pre_numbers *numbers, const mhc_post_backward_in *post,
                          const mhc_pre_backward_in *pre, const mhc_post_backward_out *post_out,
                          const mhc_pre_backward_out *pre_out, int threads) {
    if (!fits(sizes, dtype) || !numbers || !post || !post_out || !present(sizes, pre, pre_out))
        return MHC_BAD_ARGUMENT;
    const bool empty = sizes->outer * sizes->inner == 0;
    if (!empty && (!post->x.data || !post->h_out.data || !post->h_post)) return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->post_pre_backward(*sizes, dtype, *numbers, *post, *pre, *post_out, *pre_out,
                                        threads);
}

int mhc_sinkhorn_forward(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers *numbers,
                         const float *logits, float *h_res, float *row_defect, float *column_defect,
                         int threads) {
    if (!fits(tokens, streams, numbers) || (tokens && (!logits || !h_res))) return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->sinkhorn_forward(tokens, streams, *numbers, logits, h_res, row_defect,
                                       column_defect, threads);
}

int mhc_sinkhorn_backward(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers *numbers,
                          const float *logits, const float *grad_h_res, float *grad_logits,
                          int threads) {
    if (!fits(tokens, streams, numbers) || (tokens && (!logits || !grad_h_res || !grad_logits)))
        return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->sinkhorn_backward(tokens, streams, *numbers, logits, grad_h_res, grad_logits,
                                        threads);
}

int mhc_lite_forward(int64_t tokens, int64_t streams, const float *logits, float *h_res,
                     int threads) {
    if (!permutes(tokens, streams) || (tokens && (!logits || !h_res))) return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->lite_forward(tokens, streams, logits, h_res, threads);
}

int mhc_lite_backward(int64_t tokens, int64_t streams, const float *logits, const float *grad_h_res,
                      float *grad_logits, int threads) {
    if (!permutes(tokens, streams) || (tokens && (!logits || !grad_h_res || !grad_logits)))
        return MHC_BAD_ARGUMENT;
    if (!kernels()) return MHC_NO_SUCH_ISA;
    return kernels()->lite_backward(tokens, streams, logits, grad_h_res, grad_logits, threads);
}

int mhc_ops_abi(void) { return MHC_OPS_ABI; }
const char *mhc_ops_isa(void) { return kernels() ? kernels()->name : nullptr; }
const char *mhc_ops_threading(void) { return threading_name(); }
int mhc_ops_max_threads(int threads) { return max_threads(threads); }

int64_t mhc_ops_workspace_bytes(void) { return (int64_t)kept_workspace(); }

void mhc_ops_advise_fresh(void *data, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t page = 4096, begin = ((uintptr_t)data + page - 1) & ~(page - 1),
                    end = ((uintptr_t)data + (uintptr_t)bytes) & ~(page - 1);
    if (end > begin && bytes >= (2 << 20)) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)data, (void)bytes;
#endif
}

double mhc_ops_probe_fma(int threads) {
    return kernels() ? kernels()->probe_fma(max_threads(threads)) : 0;
}
double mhc_ops_probe_read(int64_t bytes, int threads) {
    return kernels() ? kernels()->probe_read(bytes, max_threads(threads)) : 0;
}

}  // extern "C"
