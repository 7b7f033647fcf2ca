/* The C interface of the CPU kernels of mhc-ops.
 *
 * Plain C, no Python and no PyTorch. Axes: T tokens, N streams, D channels a stream, F rows of phi
 * (2N + R; R = 0 without a residual part). Sums run in float32 in an order that depends on nothing
 * but the sizes, so results are bitwise equal for every thread count, and what a token yields does
 * not depend on its neighbours. Every function may be called from several threads at once.
 */
#ifndef MHC_OPS_H
#define MHC_OPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MHC_OPS_ABI 3

#if defined(__GNUC__)
#define MHC_API __attribute__((visibility("default")))
#else
#define MHC_API
#endif

typedef enum { MHC_FLOAT32 = 0, MHC_FLOAT16 = 1, MHC_BFLOAT16 = 2 } mhc_dtype;

typedef enum {
    MHC_OK = 0,
    MHC_BAD_ARGUMENT = 1, /* a size below 1 (T: below 0), a missing tensor, an unknown dtype */
    MHC_NO_MEMORY = 2,    /* the workspace could not be allocated; outputs are untouched */
    MHC_NO_SUCH_ISA = 3   /* MHC_OPS_ISA names a level unknown or absent from this processor */
} mhc_status;

/* Token t of T = outer * inner is the pair (t / inner, t % inner). */
typedef struct {
    int64_t outer, inner, streams, dim, rows;
} mhc_pre_sizes;

/* A tensor of x's dtype whose last dimension is contiguous; strides count elements. [outer, inner,
 * N, D], or [outer, inner, D] where `stream` is not used. */
typedef struct {
    const void *data;
    int64_t outer, inner, stream;
} mhc_rows;

/* inv_rms = (mean x^2 + norm_eps)^-1/2, or 1 / (sqrt(mean x^2) + norm_eps) when norm_eps_outside;
 * h_pre = sigmoid + hc_eps; h_post = post_scale * sigmoid + post_eps;
 * hf32 rounds the operands of the matrix products to 10 fraction bits, ties away from zero. */
typedef struct {
    double norm_eps, hc_eps, post_scale, post_eps;
    int32_t norm_eps_outside, hf32;
} mhc_pre_numbers;

/* phi [F, N*D]; alpha [3], or [2] when rows == 2 * streams; bias [F]; gamma [N, D] or NULL. */
typedef struct {
    mhc_rows x;
    const float *phi, *alpha, *bias, *gamma;
} mhc_pre_forward_in;

/* Contiguous; a NULL output is not written. h_in [T, D] of x's dtype, the others float32:
 * h_post, h_pre [T, N], h_res [T, R], inv_rms [T], h_mix [T, F] (not yet scaled by inv_rms). */
typedef struct {
    void *h_in;
    float *h_post, *h_res, *inv_rms, *h_mix, *h_pre;
} mhc_pre_forward_out;

/* grad_h_res is NULL exactly when rows == 2 * streams; gamma may be NULL; grad_x_post.data may be
 * NULL. */
typedef struct {
    mhc_rows x, grad_h_in, grad_x_post;
    const float *phi, *alpha, *gamma;
    const float *grad_h_post, *grad_h_res, *inv_rms, *h_mix, *h_pre, *h_post;
} mhc_pre_backward_in;

/* Contiguous; a NULL output is neither computed nor written. grad_x [T, N, D] of x's dtype, the
 * others float32: grad_phi [F, N*D], grad_alpha as alpha, grad_bias [F], grad_gamma [N, D] (needs
 * gamma).
 *
 * Sums over tokens start from zero in each superblock of 256 tokens, and superblocks are added in
 * ascending order: to zero, or with `accumulate` to what the parameters' gradients hold already. So
 * chunks of tokens, each but the last a multiple of 256 long, that accumulate one after the other
 * give the bits of a single call. */
typedef struct {
    void *grad_x;
    float *grad_phi, *grad_alpha, *grad_bias, *grad_gamma;
    int32_t accumulate;
} mhc_pre_backward_out;

/* threads: at most so many are used; small work runs on the calling thread. */
MHC_API int mhc_pre_forward(const mhc_pre_sizes *sizes, mhc_dtype dtype,
                            const mhc_pre_numbers *numbers, const mhc_pre_forward_in *in,
                            const mhc_pre_forward_out *out, int threads);
MHC_API int mhc_pre_backward(const mhc_pre_sizes *sizes, mhc_dtype dtype,
                             const mhc_pre_numbers *numbers, const mhc_pre_backward_in *in,
                             const mhc_pre_backward_out *out, int threads);

/* MhcPost: out[to] = sum over from of h_res[from, to] * x[from] + h_post[to] * (h_out + bias).
 * Token t of T = outer * inner is the pair (t / inner, t % inner). */
typedef struct {
    int64_t outer, inner, streams, dim;
} mhc_post_sizes;

/* h_res [T, N, N] or NULL for the identity; h_post [T, N]; bias [D] or NULL. h_out has no `stream`.
 */
typedef struct {
    mhc_rows x, h_out;
    const float *h_res, *h_post, *bias;
} mhc_post_forward_in;

typedef struct {
    mhc_rows grad_out, x, h_out;
    const float *h_res, *h_post, *bias;
} mhc_post_backward_in;

/* Contiguous; a NULL output is neither computed nor written. grad_x [T, N, D] and grad_h_out [T, D]
 * of x's dtype, the others float32: grad_h_res [T, N, N] (without h_res too), grad_h_post [T, N],
 * grad_bias [D], whose sum over tokens is ordered as those of mhc_pre_backward; `accumulate` adds
 * it to what grad_bias holds. */
typedef struct {
    void *grad_x;
    float *grad_h_res;
    void *grad_h_out;
    float *grad_h_post, *grad_bias;
    int32_t accumulate;
} mhc_post_backward_out;

/* out [T, N, D] of x's dtype, contiguous. */
MHC_API int mhc_post_forward(const mhc_post_sizes *sizes, mhc_dtype dtype,
                             const mhc_post_forward_in *in, void *out, int threads);
MHC_API int mhc_post_backward(const mhc_post_sizes *sizes, mhc_dtype dtype,
                              const mhc_post_backward_in *in, const mhc_post_backward_out *out,
                              int threads);

/* The boundary of two sublayers: MhcPost, then MhcPre on its output, with the bits of the two
 * calls. x_next [T, N, D] of x's dtype, contiguous, is MhcPost's output; pre->x is not read, x_next
 * takes its place. */
MHC_API int mhc_post_pre_forward(const mhc_pre_sizes *sizes, mhc_dtype dtype,
                                 const mhc_pre_numbers *numbers, const mhc_post_forward_in *post,
                                 const mhc_pre_forward_in *pre, void *x_next,
                                 const mhc_pre_forward_out *out, int threads);

/* Its backward. pre: x is x_next, grad_x_post what its other readers send; post: grad_out is not
 * read, the gradient of x_next takes its place, in float32. pre_out: grad_x is not written. Each
 * `accumulate` speaks of its own sums. */
MHC_API int mhc_post_pre_backward(const mhc_pre_sizes *sizes, mhc_dtype dtype,
                                  const mhc_pre_numbers *numbers, const mhc_post_backward_in *post,
                                  const mhc_pre_backward_in *pre,
                                  const mhc_post_backward_out *post_out,
                                  const mhc_pre_backward_out *pre_out, int threads);

/* Sinkhorn: the softmax over the last dimension of logits / temperature (plus eps with
 * MHC_EPS_ADD), then columns, then num_iters - 1 times rows and columns, divided by their sum + eps
 * (MHC_EPS_ADD), max(sum, eps) (MHC_EPS_CLAMP) or sum (MHC_EPS_NONE); with rows_last, rows and
 * columns exchanged, in the softmax too. num_iters >= 0; 0 stops after the softmax. */
typedef enum { MHC_EPS_NONE = 0, MHC_EPS_ADD = 1, MHC_EPS_CLAMP = 2 } mhc_eps_mode;

typedef struct {
    double eps, temperature;
    int32_t num_iters, eps_mode, rows_last;
} mhc_sinkhorn_numbers;

/* logits, h_res, grad_h_res, grad_logits [T, N, N] contiguous; row_defect and column_defect [T]:
 * the largest |sum - 1| of a token's rows and columns, or NULL. The backward recomputes the
 * iterates. */
MHC_API int mhc_sinkhorn_forward(int64_t tokens, int64_t streams,
                                 const mhc_sinkhorn_numbers *numbers, const float *logits,
                                 float *h_res, float *row_defect, float *column_defect,
                                 int threads);
MHC_API int mhc_sinkhorn_backward(int64_t tokens, int64_t streams,
                                  const mhc_sinkhorn_numbers *numbers, const float *logits,
                                  const float *grad_h_res, float *grad_logits, int threads);

/* mHC-lite, streams 1..6: h_res [T, N, N] = sum over k of softmax(logits)[k] * permutation k, which
 * takes stream i to s_k(i); logits [T, N!] in lexicographic order, the identity first. The backward
 * recomputes the weights. */
MHC_API int mhc_lite_forward(int64_t tokens, int64_t streams, const float *logits, float *h_res,
                             int threads);
MHC_API int mhc_lite_backward(int64_t tokens, int64_t streams, const float *logits,
                              const float *grad_h_res, float *grad_logits, int threads);

/* What runs here: MHC_OPS_ABI of the library; the instruction set in use ("avx512", "avx2",
 * "baseline"), NULL when MHC_OPS_ISA asks for one that this processor lacks; the threads ("openmp",
 * "std::thread"). */
MHC_API int mhc_ops_abi(void);
MHC_API const char *mhc_ops_isa(void);
MHC_API const char *mhc_ops_threading(void);
/* How many threads a call that asks for `threads` would get for large work: 1 in a forked child. */
MHC_API int mhc_ops_max_threads(int threads);

/* Bytes of the workspace that the calling thread keeps: the most that one of its calls has needed. It
 * is all the memory that the library takes; threads of a call share their caller's. */
MHC_API int64_t mhc_ops_workspace_bytes(void);

/* Advise huge pages for a fresh large output, before its first touch: page faults of a fresh 80 MB
 * tensor cost as much as the kernel. Does nothing where the system has no such advice. */
MHC_API void mhc_ops_advise_fresh(void *data, int64_t bytes);

/* The machine's limits, measured now: FMA throughput of the chosen instruction set in GFLOP/s;
 * reading `bytes` a thread again and again, in GB/s over all threads. */
MHC_API double mhc_ops_probe_fma(int threads);
MHC_API double mhc_ops_probe_read(int64_t bytes, int threads);

#ifdef __cplusplus
}
#endif
#endif
