/* mHC-lite and its backward through the C interface: every N against plain double loops, one and
 * several threads bit for bit, NaN and infinities, refused arguments. Exits 0 and prints "N passed,
 * 0 failed", or says what was wrong. */
#include "check.h"

enum { MOST = 6, MOST_LOGITS = 720 };

/* The next permutation in lexicographic order. */
static void advance(int n, int *s) {
    int i = n - 2, j = n - 1;
    while (i >= 0 && s[i] > s[i + 1]) i--;
    if (i < 0) return;
    while (s[j] < s[i]) j--;
    int kept = s[i];
    s[i] = s[j], s[j] = kept;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) kept = s[a], s[a] = s[b], s[b] = kept;
}

static void token(int n, int count, const float *z, const float *g, double *h, double *grad) {
    double top = -INFINITY, total = 0, mean = 0, w[MOST_LOGITS], dw[MOST_LOGITS];
    int s[MOST];
    for (int k = 0; k < count; k++) top = fmax(top, z[k]);
    for (int k = 0; k < count; k++) total += w[k] = exp(z[k] - top);
    for (int i = 0; i < n; i++) s[i] = i;
    memset(h, 0, (size_t)(n * n) * sizeof(double));
    for (int k = 0; k < count; k++, advance(n, s)) {
        w[k] /= total;
        dw[k] = 0;
        for (int i = 0; i < n; i++) {
            h[i * n + s[i]] += w[k];
            dw[k] += g[i * n + s[i]];
        }
        mean += w[k] * dw[k];
    }
    for (int k = 0; k < count; k++) grad[k] = w[k] * (dw[k] - mean);
}

static float *memory(int64_t count) { return malloc((size_t)(count ? count : 1) * sizeof(float)); }

static void run(int64_t T, int n, float scale) {
    char where[60];
    snprintf(where, sizeof where, "T %d n %d", (int)T, n);
    int count = 1;
    for (int i = 2; i <= n; i++) count *= i;
    const int64_t logits = T * count, entries = T * n * n;
    float *z = memory(logits), *g = memory(entries), *h[2], *grad[2];
    for (int64_t i = 0; i < logits; i++) z[i] = scale * uniform();
    for (int64_t i = 0; i < entries; i++) g[i] = uniform();
    for (int r = 0; r < 2; r++) {
        h[r] = memory(entries), grad[r] = memory(logits);
        check(mhc_lite_forward(T, n, z, h[r], 1 + 3 * r) == MHC_OK, "status", where);
        check(mhc_lite_backward(T, n, z, g, grad[r], 1 + 3 * r) == MHC_OK, "status", where);
    }
    check(!memcmp(h[0], h[1], (size_t)entries * 4), "threads, h_res", where);
    check(!memcmp(grad[0], grad[1], (size_t)logits * 4), "threads, grad_logits", where);
    double want_h[MOST * MOST], want[MOST_LOGITS], worst[2] = {0};
    for (int64_t t = 0; t < T; t++) {
        token(n, count, z + t * count, g + t * n * n, want_h, want);
        for (int k = 0; k < n * n; k++)
            worst[0] = fmax(worst[0], fabs(h[0][t * n * n + k] - want_h[k]));
        for (int k = 0; k < count; k++)
            worst[1] = fmax(worst[1], fabs(grad[0][t * count + k] - want[k]));
    }
    check(worst[0] < 2e-6, "h_res", where);
    check(worst[1] < 4e-6, "grad_logits", where);
    if (T > 2) { /* what is not finite stays in its token, whose neighbours keep their bits */
        z[count] = NAN, z[2 * count] = INFINITY;
        check(mhc_lite_forward(T, n, z, h[1], 1) == MHC_OK, "status", where);
        for (int k = 0; k < n * n; k++)
            check(isnan(h[1][n * n + k]) && isnan(h[1][2 * n * n + k]), "NaN", where);
        memcpy(h[1] + n * n, h[0] + n * n, (size_t)(2 * n * n) * 4);
        check(!memcmp(h[0], h[1], (size_t)entries * 4), "beside NaN", where);
    }
    for (int r = 0; r < 2; r++) free(h[r]), free(grad[r]);
    free(z);
    free(g);
}

int main(void) {
    if (!mhc_ops_isa()) return 2;
    for (int n = 1; n <= MOST; n++) {
        run(37, n, 4);
        run(1, n, 20);
        run(0, n, 1);
    }
    run(5000, 4, 3); /* several threads */
    float one[1] = {0};
    check(mhc_lite_forward(1, 0, one, one, 1) == MHC_BAD_ARGUMENT, "n 0", "");
    check(mhc_lite_forward(1, 7, one, one, 1) == MHC_BAD_ARGUMENT, "n 7", "");
    check(mhc_lite_forward(-1, 1, one, one, 1) == MHC_BAD_ARGUMENT, "T", "");
    check(mhc_lite_forward(1, 1, NULL, one, 1) == MHC_BAD_ARGUMENT, "logits", "");
    check(mhc_lite_backward(1, 1, one, NULL, one, 1) == MHC_BAD_ARGUMENT, "grad_h_res", "");
    printf("%s: %d passed, %d failed\n", mhc_ops_isa(), passed, failed);
    return failed != 0;
}
