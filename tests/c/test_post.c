/* MhcPost and MhcPostBackward through the C interface: odd shapes against plain double loops, one
 * and several threads bit for bit, strided rows, absent tensors. Exits 0 and prints "N passed, 0
 * failed", or says what was wrong. */
#include "common.h"

/* Every result of one case; sizes in bytes. */
enum { OUT, GRAD_X, GRAD_H_OUT, GRAD_H_RES, GRAD_H_POST, GRAD_BIAS, RESULTS };

typedef struct {
    mhc_post_sizes s;
    mhc_dtype dtype;
    mhc_post_forward_in fin;
    mhc_post_backward_in bin;
    int64_t bytes[RESULTS];
} Case;

static mhc_rows rows(mhc_dtype dtype, const mhc_post_sizes *s, int64_t streams, int64_t pad) {
    const int64_t row = s->dim + pad;
    mhc_rows r = {draw(dtype, s->outer * s->inner * streams * row), s->inner * streams * row,
                  streams * row, row};
    return r;
}

static int compute(const Case *c, void **to, int threads) {
    const mhc_post_backward_out out = {to[GRAD_X],      to[GRAD_H_RES], to[GRAD_H_OUT],
                                       to[GRAD_H_POST], to[GRAD_BIAS],  0};
    const int status = mhc_post_forward(&c->s, c->dtype, &c->fin, to[OUT], threads);
    return status ? status : mhc_post_backward(&c->s, c->dtype, &c->bin, &out, threads);
}

static double at(mhc_rows r, const Case *c, int64_t t, int64_t n, int64_t d) {
    const int64_t o = t / c->s.inner, i = t % c->s.inner;
    return element(r.data, c->dtype, o * r.outer + i * r.inner + n * r.stream + d);
}

static void compare(const Case *c, void **r, const char *name) {
    const int64_t N = c->s.streams, D = c->s.dim, T = c->s.outer * c->s.inner;
    const int half = c->dtype != MHC_FLOAT32;
    int good[RESULTS] = {1, 1, 1, 1, 1, 1};
    double *bias = calloc((size_t)D, sizeof(double)), size = 2.0 * (double)N + 3;
    for (int64_t t = 0; t < T; t++) {
        const float *res = c->fin.h_res ? c->fin.h_res + t * N * N : NULL;
        const float *post = c->fin.h_post + t * N;
        for (int64_t d = 0; d < D; d++) {
            const double y = at(c->fin.h_out, c, t, 0, d) + (c->fin.bias ? c->fin.bias[d] : 0);
            double grad_y = 0;
            for (int64_t j = 0; j < N; j++) {
                double out = post[j] * y, grad_x = 0;
                for (int64_t i = 0; i < N; i++) {
                    out += (res ? res[i * N + j] : i == j) * at(c->fin.x, c, t, i, d);
                    grad_x += (res ? res[j * N + i] : i == j) * at(c->bin.grad_out, c, t, i, d);
                }
                const int64_t k = (t * N + j) * D + d;
                good[OUT] &= near(element(r[OUT], c->dtype, k), out, size, half, N);
                good[GRAD_X] &= near(element(r[GRAD_X], c->dtype, k), grad_x, size, half, N);
                grad_y += post[j] * at(c->bin.grad_out, c, t, j, d);
            }
            bias[d] += grad_y;
            good[GRAD_H_OUT] &=
                near(element(r[GRAD_H_OUT], c->dtype, t * D + d), grad_y, size, half, N);
        }
        for (int64_t j = 0; j < N; j++) {
            double of_post = 0;
            for (int64_t d = 0; d < D; d++)
                of_post += at(c->bin.grad_out, c, t, j, d) *
                           (at(c->fin.h_out, c, t, 0, d) + (c->fin.bias ? c->fin.bias[d] : 0));
            good[GRAD_H_POST] &=
                near(((float *)r[GRAD_H_POST])[t * N + j], of_post, 2 * (double)D, 0, D);
            for (int64_t i = 0; i < N; i++) {
                double of_res = 0;
                for (int64_t d = 0; d < D; d++)
                    of_res += at(c->bin.grad_out, c, t, j, d) * at(c->fin.x, c, t, i, d);
                good[GRAD_H_RES] &=
                    near(((float *)r[GRAD_H_RES])[(t * N + i) * N + j], of_res, (double)D, 0, D);
            }
        }
    }
    for (int64_t d = 0; d < D; d++)
        good[GRAD_BIAS] &= near(((float *)r[GRAD_BIAS])[d], bias[d], size * (double)(T + 1), 0, T);
    const char *names[] = {"out", "grad_x", "grad_h_out", "grad_h_res", "grad_h_post", "grad_bias"};
    for (int k = 0; k < RESULTS; k++) check(good[k], names[k], name);
    free(bias);
}

static void one_shape(int64_t outer, int64_t inner, int64_t N, int64_t D, mhc_dtype dtype, int res,
                      int bias, int64_t pad) {
    const int64_t T = outer * inner, size = dtype == MHC_FLOAT32 ? 4 : 2;
    Case c;
    memset(&c, 0, sizeof c);
    c.s = (mhc_post_sizes){outer, inner, N, D};
    c.dtype = dtype;
    c.fin.x = rows(dtype, &c.s, N, pad);
    c.fin.h_out = rows(dtype, &c.s, 1, pad);
    if (res) c.fin.h_res = draw(MHC_FLOAT32, T * N * N);
    c.fin.h_post = draw(MHC_FLOAT32, T * N);
    if (bias) c.fin.bias = draw(MHC_FLOAT32, D);
    c.bin = (mhc_post_backward_in){
        rows(dtype, &c.s, N, 0), c.fin.x, c.fin.h_out, c.fin.h_res, c.fin.h_post, c.fin.bias};
    const int64_t bytes[RESULTS] = {T * N * D * size, T * N * D * size, T * D * size,
                                    T * N * N * 4,    T * N * 4,        D * 4};
    char name[80];
    snprintf(name, sizeof name, "T %d N %d D %d dtype %d res %d", (int)T, (int)N, (int)D, dtype,
             res);
    void *first[RESULTS], *other[RESULTS];
    for (int k = 0; k < RESULTS; k++) {
        memset(first[k] = memory(bytes[k]), 0xFF, (size_t)bytes[k]);
        memset(other[k] = memory(bytes[k]), 0xFF, (size_t)bytes[k]);
    }
    check(compute(&c, first, 1) == MHC_OK && compute(&c, other, 5) == MHC_OK, "status", name);
    int same = 1;
    for (int k = 0; k < RESULTS; k++) same &= memcmp(first[k], other[k], (size_t)bytes[k]) == 0;
    check(same, "threads change the bits", name);
    compare(&c, first, name);
    for (int k = 0; k < RESULTS; k++) free(first[k]), free(other[k]);
    free((void *)c.fin.x.data), free((void *)c.fin.h_out.data), free((void *)c.bin.grad_out.data);
    free((void *)c.fin.h_res), free((void *)c.fin.h_post), free((void *)c.fin.bias);
}

static void refusals(void) {
    mhc_post_sizes s = {1, 1, 0, 4};
    mhc_post_forward_in in;
    memset(&in, 0, sizeof in);
    float out[4];
    check(mhc_post_forward(&s, MHC_FLOAT32, &in, out, 1) == MHC_BAD_ARGUMENT, "N = 0", "refusals");
    s.streams = 1;
    check(mhc_post_forward(&s, MHC_FLOAT32, &in, out, 1) == MHC_BAD_ARGUMENT, "no x", "refusals");
    s.inner = 0;
    check(mhc_post_forward(&s, MHC_FLOAT32, &in, NULL, 1) == MHC_OK, "T = 0", "refusals");
    check(mhc_post_forward(&s, (mhc_dtype)7, &in, out, 1) == MHC_BAD_ARGUMENT, "dtype", "refusals");
}

int main(void) {
    if (!mhc_ops_isa()) {
        printf("MHC_OPS_ISA names an instruction set that this processor lacks\n");
        return 2;
    }
    printf("%s, %s\n", mhc_ops_isa(), mhc_ops_threading());
    for (int half = 0; half < 2; half++) {
        const mhc_dtype dtype = half ? MHC_BFLOAT16 : MHC_FLOAT32;
        one_shape(1, 1, 1, 1, dtype, 1, 1, 0);
        one_shape(3, 11, 3, 65, dtype, 1, 1, 3);
        one_shape(1, 700, 4, 96, dtype, 1, 1, 0);
        one_shape(1, 300, 4, 2048, dtype, 1, 0, 0); /* past the caches */
        one_shape(2, 20, 4, 33, dtype, 0, 1, 1);
        one_shape(1, 37, 8, 40, dtype, 1, 0, 0);
        one_shape(1, 37, 11, 100, dtype, 1, 1, 5);
        one_shape(1, 0, 4, 32, dtype, 1, 1, 0);
    }
    refusals();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
