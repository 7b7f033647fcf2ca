/* MhcPre and MhcPreBackward through the C interface: odd shapes against plain double loops, one and
 * several threads bit for bit, strided rows, accumulation, a call from several threads at once, a
 * forked child. Exits 0 and prints "N passed, 0 failed", or says what was wrong. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static uint16_t to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static double element(const void *data, mhc_dtype dtype, int64_t i) {
    if (dtype == MHC_FLOAT32) return ((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    if (dtype == MHC_BFLOAT16) {
        const uint32_t u = (uint32_t)h << 16;
        float f;
        memcpy(&f, &u, 4);
        return f;
    }
    const double sign = h & 0x8000 ? -1 : 1;
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

/* A random array of the dtype; fp16 patterns are drawn as bits with small exponents. */
static void *draw(mhc_dtype dtype, int64_t count) {
    const size_t size = dtype == MHC_FLOAT32 ? 4 : 2;
    char *data = malloc((size_t)(count ? count : 1) * size);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == MHC_FLOAT32)
            ((float *)data)[i] = (float)uniform();
        else if (dtype == MHC_BFLOAT16)
            ((uint16_t *)data)[i] = to_bf16((float)uniform());
        else
            ((uint16_t *)data)[i] =
                (uint16_t)((uniform() < 0 ? 0x8000 : 0) | (int)(8191 * (uniform() + 1)));
    }
    return data;
}

static float *floats(int64_t count, float scale, float shift) {
    float *data = malloc((size_t)(count ? count : 1) * sizeof(float));
    for (int64_t i = 0; i < count; i++) data[i] = (float)uniform() * scale + shift;
    return data;
}

static float *unwritten(int64_t count) {
    float *data = malloc((size_t)(count ? count : 1) * sizeof(float));
    for (int64_t i = 0; i < count; i++) data[i] = NAN;
    return data;
}

typedef struct {
    mhc_pre_sizes sizes;
    mhc_dtype dtype;
    mhc_pre_numbers numbers;
    int64_t T, N, D, F, R, pad; /* pad: elements between rows of x and grad_h_in */
    mhc_pre_forward_in fin;
    mhc_pre_backward_in bin;
} Case;

typedef struct {
    char *h_in, *grad_x;
    float *h_post, *h_res, *inv_rms, *h_mix, *h_pre, *grad_phi, *grad_alpha, *grad_bias,
        *grad_gamma;
} Results;

static Case make_case(int64_t outer, int64_t inner, int64_t N, int64_t D, int64_t R,
                      mhc_dtype dtype, int gamma, int post, int64_t pad) {
    Case c;
    memset(&c, 0, sizeof c);
    c.sizes = (mhc_pre_sizes){outer, inner, N, D, 2 * N + R};
    c.dtype = dtype;
    c.numbers = (mhc_pre_numbers){1e-6, 1e-6, 2.0, 0.0, 0, 0};
    c.T = outer * inner, c.N = N, c.D = D, c.R = R, c.F = 2 * N + R, c.pad = pad;
    const int64_t row = D + pad;
    c.fin.x = (mhc_rows){draw(dtype, c.T * N * row), inner * N * row, N * row, row};
    c.fin.phi = floats(c.F * N * D, (float)(1 / sqrt((double)(N * D))), 0);
    c.fin.alpha = floats(3, 0.2f, 1);
    c.fin.bias = floats(c.F, 0.5f, 0);
    c.fin.gamma = gamma ? floats(N * D, 0.2f, 1) : NULL;
    c.bin.x = c.fin.x, c.bin.phi = c.fin.phi, c.bin.alpha = c.fin.alpha, c.bin.gamma = c.fin.gamma;
    c.bin.grad_h_in = (mhc_rows){draw(dtype, c.T * row), inner * row, row, 0};
    if (post) c.bin.grad_x_post = (mhc_rows){draw(dtype, c.T * N * D), inner * N * D, N * D, D};
    c.bin.grad_h_post = floats(c.T * N, 1, 0);
    c.bin.grad_h_res = R ? floats(c.T * R, 1, 0) : NULL;
    return c;
}

static void free_case(Case *c) {
    const void *owned[] = {c->fin.x.data,
                           c->fin.phi,
                           c->fin.alpha,
                           c->fin.bias,
                           c->fin.gamma,
                           c->bin.grad_h_in.data,
                           c->bin.grad_x_post.data,
                           c->bin.grad_h_post,
                           c->bin.grad_h_res};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free((void *)owned[i]);
}

static Results make_results(const Case *c) {
    const size_t size = c->dtype == MHC_FLOAT32 ? 4 : 2;
    Results r;
    r.h_in = malloc((size_t)(c->T * c->D) * size + 1);
    r.grad_x = malloc((size_t)(c->T * c->N * c->D) * size + 1);
    r.h_post = unwritten(c->T * c->N), r.h_res = unwritten(c->T * c->R);
    r.inv_rms = unwritten(c->T), r.h_mix = unwritten(c->T * c->F), r.h_pre = unwritten(c->T * c->N);
    r.grad_phi = unwritten(c->F * c->N * c->D), r.grad_alpha = unwritten(3);
    r.grad_bias = unwritten(c->F), r.grad_gamma = unwritten(c->N * c->D);
    return r;
}

static void free_results(Results *r) {
    void *owned[] = {r->h_in,  r->grad_x,   r->h_post,     r->h_res,     r->inv_rms,   r->h_mix,
                     r->h_pre, r->grad_phi, r->grad_alpha, r->grad_bias, r->grad_gamma};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static int compute(Case *c, Results *r, int threads) {
    const mhc_pre_forward_out fout = {r->h_in,    r->h_post, c->R ? r->h_res : NULL,
                                      r->inv_rms, r->h_mix,  r->h_pre};
    const mhc_pre_backward_out bout = {
        r->grad_x, r->grad_phi, r->grad_alpha, r->grad_bias, c->fin.gamma ? r->grad_gamma : NULL,
        0};
    int status = mhc_pre_forward(&c->sizes, c->dtype, &c->numbers, &c->fin, &fout, threads);
    mhc_pre_backward_in in = c->bin;
    in.inv_rms = r->inv_rms, in.h_mix = r->h_mix, in.h_pre = r->h_pre, in.h_post = r->h_post;
    return status ? status
                  : mhc_pre_backward(&c->sizes, c->dtype, &c->numbers, &in, &bout, threads);
}

static int same(const Case *c, const Results *a, const Results *b) {
    const size_t size = c->dtype == MHC_FLOAT32 ? 4 : 2, f = sizeof(float);
    return !memcmp(a->h_in, b->h_in, (size_t)(c->T * c->D) * size) &&
           !memcmp(a->grad_x, b->grad_x, (size_t)(c->T * c->N * c->D) * size) &&
           !memcmp(a->h_mix, b->h_mix, (size_t)(c->T * c->F) * f) &&
           !memcmp(a->inv_rms, b->inv_rms, (size_t)c->T * f) &&
           !memcmp(a->grad_phi, b->grad_phi, (size_t)(c->F * c->N * c->D) * f) &&
           !memcmp(a->grad_alpha, b->grad_alpha, (c->R ? 3 : 2) * f) &&
           !memcmp(a->grad_bias, b->grad_bias, (size_t)c->F * f) &&
           (!c->fin.gamma || !memcmp(a->grad_gamma, b->grad_gamma, (size_t)(c->N * c->D) * f));
}

/* Largest error of every result against double, relative to the result's largest magnitude (16-bit
 * results may also be off by their own rounding). */
static void against_double(const Case *c, const Results *r, const char *where) {
    const int64_t T = c->T, N = c->N, D = c->D, F = c->F, row = D + c->pad;
    const double unit = c->dtype == MHC_FLOAT32 ? 0 : c->dtype == MHC_FLOAT16 ? 0x1p-11 : 0x1p-8;
    double *grad_phi = calloc((size_t)(F * N * D), sizeof(double)), worst_in = 0, worst_mix = 0,
           worst_x = 0, worst_phi = 0, top_phi = 1e-30, alpha[3] = {0, 0, 0};
    for (int64_t t = 0; t < T; t++) {
        double squares = 0, rms = 0, g[256], a[256];
        for (int64_t n = 0; n < N; n++)
            for (int64_t d = 0; d < D; d++)
                squares += pow(element(c->fin.x.data, c->dtype, (t * N + n) * row + d), 2);
        check(fabs(r->inv_rms[t] * sqrt(squares / (double)(N * D) + 1e-6) - 1) < 1e-6, "inv_rms",
              where);
        for (int64_t f = 0; f < F; f++) {
            double mix = 0;
            for (int64_t k = 0; k < N * D; k++)
                mix += element(c->fin.x.data, c->dtype, (t * N + k / D) * row + k % D) *
                       c->fin.phi[f * N * D + k] * (c->fin.gamma ? c->fin.gamma[k] : 1);
            worst_mix = fmax(worst_mix, fabs(mix - r->h_mix[t * F + f]));
        }
        for (int64_t f = 0; f < F; f++) {
            const int part = f < N ? 0 : f < 2 * N ? 1 : 2;
            if (part == 0) {
                double dot = 0;
                const double s = r->h_pre[t * N + f] - 1e-6;
                for (int64_t d = 0; d < D; d++)
                    dot += element(c->bin.grad_h_in.data, c->dtype, t * row + d) *
                           element(c->fin.x.data, c->dtype, (t * N + f) * row + d);
                a[f] = dot * s * (1 - s);
            } else if (part == 1) {
                const double p = r->h_post[t * N + f - N];
                a[f] = c->bin.grad_h_post[t * N + f - N] * p * (1 - p / 2);
            } else {
                a[f] = c->bin.grad_h_res[t * c->R + f - 2 * N];
            }
            const double w = (double)r->h_mix[t * F + f] * r->inv_rms[t];
            alpha[part] += a[f] * w;
            rms += c->fin.alpha[part] * a[f] * w;
            g[f] = c->fin.alpha[part] * a[f] * r->inv_rms[t];
        }
        for (int64_t k = 0; k < N * D; k++) {
            const double x = element(c->fin.x.data, c->dtype, (t * N + k / D) * row + k % D);
            const double gamma = c->fin.gamma ? c->fin.gamma[k] : 1;
            double u = 0;
            for (int64_t f = 0; f < F; f++) {
                u += g[f] * c->fin.phi[f * N * D + k];
                grad_phi[f * N * D + k] += g[f] * gamma * x;
            }
            double want = element(c->bin.grad_h_in.data, c->dtype, t * row + k % D) *
                              r->h_pre[t * N + k / D] +
                          gamma * u - rms * r->inv_rms[t] * r->inv_rms[t] / (double)(N * D) * x;
            if (c->bin.grad_x_post.data)
                want += element(c->bin.grad_x_post.data, c->dtype, t * N * D + k);
            const double got = element(r->grad_x, c->dtype, t * N * D + k);
            worst_x = fmax(worst_x, fabs(got - want) - unit * fabs(want));
        }
        for (int64_t d = 0; d < D; d++) {
            double want = 0;
            for (int64_t n = 0; n < N; n++)
                want += (double)r->h_pre[t * N + n] *
                        element(c->fin.x.data, c->dtype, (t * N + n) * row + d);
            worst_in = fmax(worst_in,
                            fabs(element(r->h_in, c->dtype, t * D + d) - want) - unit * fabs(want));
        }
    }
    for (int64_t i = 0; i < F * N * D; i++) {
        top_phi = fmax(top_phi, fabs(grad_phi[i]));
        worst_phi = fmax(worst_phi, fabs(grad_phi[i] - r->grad_phi[i]));
    }
    check(worst_mix < 1e-5, "h_mix", where);
    check(worst_in < 1e-5, "h_in", where);
    check(worst_x < 1e-4, "grad_x", where);
    check(worst_phi < 1e-5 * top_phi, "grad_phi", where);
    for (int i = 0; i < (c->R ? 3 : 2); i++)
        check(fabs(alpha[i] - r->grad_alpha[i]) < 1e-4 * (1 + (double)T), "grad_alpha", where);
    free(grad_phi);
}

static void one_shape(int64_t outer, int64_t inner, int64_t N, int64_t D, int64_t R,
                      mhc_dtype dtype, int extras, int64_t pad) {
    char where[96];
    snprintf(where, sizeof where, "T %lldx%lld N %lld D %lld R %lld dtype %d pad %lld",
             (long long)outer, (long long)inner, (long long)N, (long long)D, (long long)R, dtype,
             (long long)pad);
    Case c = make_case(outer, inner, N, D, R, dtype, extras, extras, pad);
    Results one = make_results(&c), many = make_results(&c);
    check(compute(&c, &one, 1) == MHC_OK, "status", where);
    check(compute(&c, &many, 3) == MHC_OK, "status", where);
    check(same(&c, &one, &many), "one thread and three differ", where);
    against_double(&c, &one, where);
    c.numbers.hf32 = 1;
    c.numbers.norm_eps_outside = 1;
    check(compute(&c, &one, 1) == MHC_OK && compute(&c, &many, 3) == MHC_OK, "status in hf32",
          where);
    check(same(&c, &one, &many), "one thread and three differ in hf32", where);
    free_results(&one), free_results(&many), free_case(&c);
}

/* 600 tokens at once, and as 256 + 344 that accumulate. */
static void chunks(void) {
    Case c = make_case(1, 600, 3, 37, 9, MHC_BFLOAT16, 1, 1, 0);
    Results whole = make_results(&c), parts = make_results(&c);
    check(compute(&c, &whole, 2) == MHC_OK, "status", "chunks");
    for (int64_t first = 0; first < 600; first += first ? 344 : 256) {
        mhc_pre_sizes sizes = c.sizes;
        sizes.inner = first ? 344 : 256;
        mhc_pre_backward_in in = c.bin;
        in.x.data = (const uint16_t *)in.x.data + first * 3 * 37;
        in.grad_x_post.data = (const uint16_t *)in.grad_x_post.data + first * 3 * 37;
        in.grad_h_in.data = (const uint16_t *)in.grad_h_in.data + first * 37;
        in.grad_h_post += first * 3, in.grad_h_res += first * 9;
        in.inv_rms = whole.inv_rms + first, in.h_mix = whole.h_mix + first * 15;
        in.h_pre = whole.h_pre + first * 3, in.h_post = whole.h_post + first * 3;
        const mhc_pre_backward_out out = {parts.grad_x + first * 3 * 37 * 2,
                                          parts.grad_phi,
                                          parts.grad_alpha,
                                          parts.grad_bias,
                                          parts.grad_gamma,
                                          first > 0};
        check(mhc_pre_backward(&sizes, c.dtype, &c.numbers, &in, &out, 2) == MHC_OK, "status",
              "chunks");
    }
    memcpy(parts.h_in, whole.h_in, 600 * 37 * 2), memcpy(parts.h_mix, whole.h_mix, 600 * 15 * 4);
    memcpy(parts.inv_rms, whole.inv_rms, 600 * 4);
    check(same(&c, &whole, &parts), "two chunks and the whole differ", "chunks");
    free_results(&whole), free_results(&parts), free_case(&c);
}

static void *caller(void *argument) {
    Case *c = argument;
    Results one = make_results(c), other = make_results(c);
    int good = compute(c, &one, 2) == MHC_OK;
    for (int i = 0; i < 3; i++)
        good = good && compute(c, &other, 2) == MHC_OK && same(c, &one, &other);
    free_results(&one), free_results(&other);
    return good ? argument : NULL;
}

static void several_callers(void) {
    Case c = make_case(1, 200, 4, 96, 16, MHC_BFLOAT16, 1, 1, 0);
    pthread_t callers[3];
    for (int i = 0; i < 3; i++) pthread_create(&callers[i], NULL, caller, &c);
    for (int i = 0; i < 3; i++) {
        void *good;
        pthread_join(callers[i], &good);
        check(good != NULL, "wrong or unequal results", "several callers");
    }
    free_case(&c);
}

#if defined(__SANITIZE_ADDRESS__)
static const int can_fork =
    0; /* its allocator may be locked by another thread at the fork, for ever */
#else
static const int can_fork = 1;
#endif

static void forked_child(void) {
    Case c = make_case(1, 200, 4, 96, 16, MHC_BFLOAT16, 1, 1, 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(caller(&c) && mhc_ops_max_threads(8) == 1 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child hung or failed", "fork");
    free_case(&c);
}

static void refusals(void) {
    Case c = make_case(1, 3, 2, 5, 4, MHC_FLOAT32, 0, 0, 0);
    Results r = make_results(&c);
    c.sizes.rows = 3;
    check(compute(&c, &r, 1) == MHC_BAD_ARGUMENT, "too few rows of phi", "refusals");
    c.sizes.rows = 8, c.dtype = (mhc_dtype)7;
    check(compute(&c, &r, 1) == MHC_BAD_ARGUMENT, "unknown dtype", "refusals");
    c.dtype = MHC_FLOAT32, c.fin.phi = NULL;
    const float *phi = c.bin.phi;
    check(compute(&c, &r, 1) == MHC_BAD_ARGUMENT, "no phi", "refusals");
    c.fin.phi = phi;
    free_results(&r), free_case(&c);
}

int main(void) {
    if (!mhc_ops_isa()) {
        printf("MHC_OPS_ISA names an instruction set that this processor lacks\n");
        return 2;
    }
    printf("%s, %s\n", mhc_ops_isa(), mhc_ops_threading());
    for (mhc_dtype dtype = MHC_FLOAT32; dtype <= MHC_BFLOAT16; dtype++) {
        one_shape(1, 1, 1, 1, 1, dtype, 1, 0);
        one_shape(1, 33, 2, 7, 2, dtype, 0, 0);
        one_shape(3, 11, 3, 65, 9, dtype, 1, 3);
        one_shape(1, 70, 4, 96, 16, dtype, 1, 0);
        one_shape(2, 20, 4, 64, 0, dtype, 1, 1);
        one_shape(1, 9, 4, 1025, 24, dtype, 1, 0);
        one_shape(1, 300, 5, 40, 25, dtype, 0, 8);
        one_shape(1, 17, 8, 32, 64, dtype, 1, 0);
        one_shape(1, 0, 4, 32, 16, dtype, 1, 0);
    }
    chunks();
    several_callers();
    if (can_fork && strcmp(mhc_ops_threading(), "openmp") == 0) forked_child();
    refusals();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
