/* The boundary of two sublayers through the C interface, against the calls it stands for: the
 * forward bit for bit, the backward bit for bit where float32 makes no rounding between the two
 * halves and sums keep their order, near elsewhere. One and several threads, strided rows, absent
 * tensors. Exits 0 and prints "N passed, 0 failed", or says what was wrong. */
#include "common.h"

enum {
    X_NEXT,
    H_IN,
    H_POST,
    H_RES,
    INV_RMS,
    H_MIX,
    H_PRE,
    GRAD_X,
    GRAD_H_RES,
    GRAD_H_OUT,
    GRAD_H_POST,
    GRAD_OUT_BIAS,
    GRAD_PHI,
    GRAD_ALPHA,
    GRAD_BIAS,
    GRAD_GAMMA,
    RESULTS
};
static const char *const names[RESULTS] = {
    "x_next",   "h_in",       "h_post",     "h_res",      "inv_rms",     "h_mix",
    "h_pre",    "grad_x",     "grad_h_res", "grad_h_out", "grad_h_post", "grad_out_bias",
    "grad_phi", "grad_alpha", "grad_bias",  "grad_gamma"};

typedef struct {
    mhc_pre_sizes s;
    mhc_dtype dtype;
    mhc_pre_numbers numbers;
    mhc_post_forward_in post;
    mhc_pre_forward_in pre;
    mhc_rows grad_h_in, grad_x_next;
    const float *grad_h_post, *grad_h_res;
    int64_t bytes[RESULTS];
} Case;

static mhc_rows rows(mhc_dtype dtype, const mhc_pre_sizes *s, int64_t streams, int64_t pad) {
    const int64_t row = s->dim + pad;
    mhc_rows r = {draw(dtype, s->outer * s->inner * streams * row), s->inner * streams * row,
                  streams * row, row};
    return r;
}

static mhc_rows dense(const void *data, const mhc_pre_sizes *s) {
    mhc_rows r = {data, s->inner * s->streams * s->dim, s->streams * s->dim, s->dim};
    return r;
}

static mhc_pre_backward_in pre_backward_in(const Case *c, void **to) {
    mhc_pre_backward_in in = {dense(to[X_NEXT], &c->s),
                              c->grad_h_in,
                              c->grad_x_next,
                              c->pre.phi,
                              c->pre.alpha,
                              c->pre.gamma,
                              c->grad_h_post,
                              c->grad_h_res,
                              to[INV_RMS],
                              to[H_MIX],
                              to[H_PRE],
                              to[H_POST]};
    return in;
}

static int fused(const Case *c, void **to, int threads) {
    const mhc_pre_forward_out fout = {to[H_IN],    to[H_POST], to[H_RES],
                                      to[INV_RMS], to[H_MIX],  to[H_PRE]};
    const int status = mhc_post_pre_forward(&c->s, c->dtype, &c->numbers, &c->post, &c->pre,
                                            to[X_NEXT], &fout, threads);
    if (status) return status;
    const mhc_pre_backward_in in = pre_backward_in(c, to);
    const mhc_post_backward_in post = {{0},           c->post.x,      c->post.h_out,
                                       c->post.h_res, c->post.h_post, c->post.bias};
    const mhc_post_backward_out post_out = {to[GRAD_X],      to[GRAD_H_RES],    to[GRAD_H_OUT],
                                            to[GRAD_H_POST], to[GRAD_OUT_BIAS], 0};
    const mhc_pre_backward_out pre_out = {NULL,          to[GRAD_PHI],   to[GRAD_ALPHA],
                                          to[GRAD_BIAS], to[GRAD_GAMMA], 0};
    return mhc_post_pre_backward(&c->s, c->dtype, &c->numbers, &post, &in, &post_out, &pre_out,
                                 threads);
}

static int chain(const Case *c, void **to, int threads) {
    const mhc_post_sizes s = {c->s.outer, c->s.inner, c->s.streams, c->s.dim};
    const mhc_pre_forward_out fout = {to[H_IN],    to[H_POST], to[H_RES],
                                      to[INV_RMS], to[H_MIX],  to[H_PRE]};
    mhc_pre_forward_in pre = c->pre;
    pre.x = dense(to[X_NEXT], &c->s);
    void *middle = memory(c->bytes[GRAD_X]);
    const mhc_pre_backward_out pre_out = {middle,        to[GRAD_PHI],   to[GRAD_ALPHA],
                                          to[GRAD_BIAS], to[GRAD_GAMMA], 0};
    const mhc_post_backward_in post = {dense(middle, &c->s), c->post.x,      c->post.h_out,
                                       c->post.h_res,        c->post.h_post, c->post.bias};
    const mhc_post_backward_out post_out = {to[GRAD_X],      to[GRAD_H_RES],    to[GRAD_H_OUT],
                                            to[GRAD_H_POST], to[GRAD_OUT_BIAS], 0};
    int status = mhc_post_forward(&s, c->dtype, &c->post, to[X_NEXT], threads);
    status = status ? status : mhc_pre_forward(&c->s, c->dtype, &c->numbers, &pre, &fout, threads);
    const mhc_pre_backward_in in = pre_backward_in(c, to);
    status =
        status ? status : mhc_pre_backward(&c->s, c->dtype, &c->numbers, &in, &pre_out, threads);
    status = status ? status : mhc_post_backward(&s, c->dtype, &post, &post_out, threads);
    free(middle);
    return status;
}

/* Results that must have the chain's bits: all but sums over D or T in another order, and in 16
 * bits what the rounding of the middle reaches. */
static int exact(const Case *c, int k) {
    if (k < GRAD_X || k > GRAD_OUT_BIAS) return 1;
    return c->dtype == MHC_FLOAT32 && (k == GRAD_X || k == GRAD_H_OUT);
}

static int close_to(const Case *c, int k, const void *got, const void *want) {
    const mhc_dtype dtype = k == GRAD_X || k == GRAD_H_OUT ? c->dtype : MHC_FLOAT32;
    const int64_t count = c->bytes[k] / (dtype == MHC_FLOAT32 ? 4 : 2);
    const int64_t terms = c->s.dim + c->s.outer * c->s.inner;
    double size = 1e-3;
    for (int64_t i = 0; i < count; i++) size = fmax(size, fabs(element(want, dtype, i)));
    /* 16 bits: each of the terms of a sum may be one rounding off. */
    if (c->dtype != MHC_FLOAT32) size *= ldexp(1, 16);
    for (int64_t i = 0; i < count; i++)
        if (!near(element(got, dtype, i), element(want, dtype, i), size, dtype != MHC_FLOAT32,
                  terms))
            return 0;
    return 1;
}

static void one_shape(int64_t outer, int64_t inner, int64_t N, int64_t D, int64_t R,
                      mhc_dtype dtype, int extras, int64_t pad) {
    const int64_t T = outer * inner, size = dtype == MHC_FLOAT32 ? 4 : 2, F = 2 * N + R;
    char name[80];
    snprintf(name, sizeof name, "T %d N %d D %d R %d dtype %d", (int)T, (int)N, (int)D, (int)R,
             dtype);
    Case c;
    memset(&c, 0, sizeof c);
    c.s = (mhc_pre_sizes){outer, inner, N, D, F};
    c.dtype = dtype;
    c.numbers = (mhc_pre_numbers){1e-6, 1e-6, 2.0, 0.0, 0, 0};
    c.post.x = rows(dtype, &c.s, N, pad);
    c.post.h_out = rows(dtype, &c.s, 1, pad);
    c.post.h_res = extras ? draw(MHC_FLOAT32, T * N * N) : NULL;
    c.post.h_post = draw(MHC_FLOAT32, T * N);
    c.post.bias = extras ? draw(MHC_FLOAT32, D) : NULL;
    c.pre.phi = draw(MHC_FLOAT32, F * N * D);
    c.pre.alpha = draw(MHC_FLOAT32, 3);
    c.pre.bias = draw(MHC_FLOAT32, F);
    c.pre.gamma = extras ? draw(MHC_FLOAT32, N * D) : NULL;
    c.grad_h_in = rows(dtype, &c.s, 1, pad);
    if (extras) c.grad_x_next = rows(dtype, &c.s, N, pad);
    c.grad_h_post = draw(MHC_FLOAT32, T * N);
    c.grad_h_res = R ? draw(MHC_FLOAT32, T * R) : NULL;
    const int64_t bytes[RESULTS] = {
        T * N * D * size, T * D * size,     T * N * 4,     T * R * 4,    T * 4,     T * F * 4,
        T * N * 4,        T * N * D * size, T * N * N * 4, T * D * size, T * N * 4, D * 4,
        F * N * D * 4,    (R ? 3 : 2) * 4,  F * 4,         N * D * 4};
    memcpy(c.bytes, bytes, sizeof bytes);

    void *one[RESULTS], *many[RESULTS], *want[RESULTS];
    for (int k = 0; k < RESULTS; k++) {
        const int absent =
            (k == H_RES && !R) || (!extras && (k == GRAD_OUT_BIAS || k == GRAD_GAMMA));
        void **all[] = {one, many, want};
        for (int i = 0; i < 3; i++) {
            all[i][k] = absent ? NULL : memory(bytes[k]);
            if (!absent) memset(all[i][k], 0xFF, (size_t)bytes[k]);
        }
        if (absent) c.bytes[k] = 0;
    }
    check(fused(&c, one, 1) == MHC_OK && fused(&c, many, 3) == MHC_OK, "status", name);
    check(chain(&c, want, 2) == MHC_OK, "status of the chain", name);
    for (int k = 0; k < RESULTS; k++) {
        if (!one[k]) continue;
        const size_t all = (size_t)c.bytes[k];
        check(memcmp(one[k], many[k], all) == 0, "threads change the bits", names[k]);
        if (exact(&c, k))
            check(memcmp(one[k], want[k], all) == 0, name, names[k]);
        else
            check(close_to(&c, k, one[k], want[k]), name, names[k]);
    }
    for (int k = 0; k < RESULTS; k++) free(one[k]), free(many[k]), free(want[k]);
    const void *owned[] = {c.post.x.data, c.post.h_out.data, c.post.h_res,       c.post.h_post,
                           c.post.bias,   c.pre.phi,         c.pre.alpha,        c.pre.bias,
                           c.pre.gamma,   c.grad_h_in.data,  c.grad_x_next.data, c.grad_h_post,
                           c.grad_h_res};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free((void *)owned[i]);
}

static void refusals(void) {
    mhc_pre_sizes s = {1, 1, 1, 4, 3};
    const mhc_pre_numbers numbers = {1e-6, 1e-6, 2.0, 0.0, 0, 0};
    mhc_post_forward_in post;
    mhc_pre_forward_in pre;
    mhc_pre_forward_out out;
    memset(&post, 0, sizeof post), memset(&pre, 0, sizeof pre), memset(&out, 0, sizeof out);
    check(mhc_post_pre_forward(&s, MHC_FLOAT32, &numbers, &post, &pre, NULL, &out, 1) ==
              MHC_BAD_ARGUMENT,
          "no x", "refusals");
    s.inner = 0;
    check(mhc_post_pre_forward(&s, MHC_FLOAT32, &numbers, &post, &pre, NULL, &out, 1) == MHC_OK,
          "T = 0", "refusals");
    check(mhc_post_pre_backward(&s, MHC_FLOAT32, &numbers, NULL, NULL, NULL, NULL, 1) ==
              MHC_BAD_ARGUMENT,
          "no structures", "refusals");
}

int main(void) {
    if (!mhc_ops_isa()) {
        printf("MHC_OPS_ISA names an instruction set that this processor lacks\n");
        return 2;
    }
    printf("%s, %s\n", mhc_ops_isa(), mhc_ops_threading());
    for (int half = 0; half < 2; half++) {
        const mhc_dtype dtype = half ? MHC_BFLOAT16 : MHC_FLOAT32;
        one_shape(1, 1, 1, 1, 1, dtype, 1, 0);
        one_shape(3, 11, 3, 65, 9, dtype, 1, 3);
        one_shape(1, 700, 4, 96, 16, dtype, 1, 0);
        one_shape(1, 300, 4, 2048, 16, dtype, 1, 0); /* past the caches */
        one_shape(2, 20, 4, 161, 0, dtype, 0, 1);
        one_shape(1, 37, 8, 40, 64, dtype, 1, 0);
        one_shape(1, 37, 9, 100, 81, dtype, 0, 5);
        one_shape(1, 0, 4, 32, 16, dtype, 1, 0);
    }
    refusals();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
