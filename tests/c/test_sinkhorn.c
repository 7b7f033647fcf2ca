/* Sinkhorn and its backward through the C interface: every form against plain double loops, one and
 * several threads bit for bit, refused arguments. Exits 0 and prints "N passed, 0 failed", or says
 * what was wrong. */
#include "check.h"

enum { MOST = 9, MOST_STEPS = 16 };

/* One token; i runs over the dimension that the softmax leaves alone: rows, or columns if
 * rows_last. */
static void token(int n, const mhc_sinkhorn_numbers *o, const float *z, const float *g, double *h,
                  double *grad, double *defects) {
    static double p[MOST * MOST], q[MOST * MOST], y[MOST * MOST], steps[MOST_STEPS][MOST * MOST];
    static int free_sum[MOST_STEPS][MOST];
#define AT(i, j) (o->rows_last ? (j) * n + (i) : (i) * n + (j))
    for (int i = 0; i < n; i++) {
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < n; j++) top = fmax(top, z[AT(i, j)]);
        for (int j = 0; j < n; j++) sum += p[i * n + j] = exp((z[AT(i, j)] - top) / o->temperature);
        for (int j = 0; j < n; j++) {
            p[i * n + j] /= sum;
            q[i * n + j] = p[i * n + j] + (o->eps_mode == MHC_EPS_ADD ? o->eps : 0);
        }
    }
    for (int k = 1; k < 2 * o->num_iters; k++) {
        const int across = k % 2 ? 1 : n, along = k % 2 ? n : 1;
        for (int a = 0; a < n; a++) {
            double sum = 0;
            for (int e = 0; e < n; e++) sum += q[a * across + e * along];
            free_sum[k][a] = o->eps_mode != MHC_EPS_CLAMP || sum >= o->eps;
            if (o->eps_mode == MHC_EPS_ADD) sum += o->eps;
            if (!free_sum[k][a]) sum = o->eps;
            for (int e = 0; e < n; e++) q[a * across + e * along] /= sum;
        }
        memcpy(steps[k], q, sizeof q);
    }
    for (int k = 0; k < n * n; k++) y[k] = q[k] * g[AT(k / n, k % n)];
    for (int k = 2 * o->num_iters - 1; k > 0; k--) {
        const int across = k % 2 ? 1 : n, along = k % 2 ? n : 1;
        for (int a = 0; a < n; a++) {
            double sum = 0;
            for (int e = 0; e < n; e++) sum += y[a * across + e * along];
            for (int e = 0; e < n && free_sum[k][a]; e++)
                y[a * across + e * along] -= steps[k][a * across + e * along] * sum;
        }
    }
    defects[0] = defects[1] = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0, row = -1, column = -1;
        for (int j = 0; j < n; j++) {
            if (o->eps_mode == MHC_EPS_ADD) y[i * n + j] *= p[i * n + j] / (p[i * n + j] + o->eps);
            sum += y[i * n + j];
            h[AT(i, j)] = q[i * n + j];
            row += q[i * n + j];
            column += q[j * n + i];
        }
        for (int j = 0; j < n; j++)
            grad[AT(i, j)] = (y[i * n + j] - p[i * n + j] * sum) / o->temperature;
        defects[o->rows_last] = fmax(defects[o->rows_last], fabs(row));
        defects[!o->rows_last] = fmax(defects[!o->rows_last], fabs(column));
    }
#undef AT
}

static float *memory(int64_t count) { return malloc((size_t)(count ? count : 1) * sizeof(float)); }

static void run(int64_t T, int n, mhc_sinkhorn_numbers o) {
    char where[120];
    snprintf(where, sizeof where, "T %d n %d mode %d rows_last %d iters %d", (int)T, n, o.eps_mode,
             o.rows_last, o.num_iters);
    const int64_t count = T * n * n;
    float *z = memory(count), *g = memory(count), *results[2][4];
    for (int64_t i = 0; i < count; i++) z[i] = 3 * uniform(), g[i] = uniform();
    for (int r = 0; r < 2; r++) {
        float **to = results[r];
        for (int k = 0; k < 4; k++) to[k] = memory(k < 2 ? count : T);
        check(mhc_sinkhorn_forward(T, n, &o, z, to[0], to[2], to[3], 1 + 3 * r) == MHC_OK, "status",
              where);
        check(mhc_sinkhorn_backward(T, n, &o, z, g, to[1], 1 + 3 * r) == MHC_OK, "status", where);
    }
    for (int k = 0; k < 4; k++)
        check(!memcmp(results[0][k], results[1][k], (size_t)(k < 2 ? count : T) * 4), "threads",
              where);
    double h[MOST * MOST], grad[MOST * MOST], defects[2], worst[3] = {0};
    for (int64_t t = 0; t < T; t++) {
        token(n, &o, z + t * n * n, g + t * n * n, h, grad, defects);
        for (int k = 0; k < n * n; k++) {
            worst[0] = fmax(worst[0], fabs(results[0][0][t * n * n + k] - h[k]));
            worst[1] = fmax(worst[1], fabs(results[0][1][t * n * n + k] - grad[k]));
        }
        for (int k = 0; k < 2; k++)
            worst[2] = fmax(worst[2], fabs(results[0][2 + k][t] - defects[k]));
    }
    check(worst[0] < 1e-5, "h_res", where);
    check(worst[1] < 1e-5, "grad_logits", where);
    check(worst[2] < 1e-5, "defects", where);
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 4; k++) free(results[r][k]);
    free(z);
    free(g);
}

int main(void) {
    if (!mhc_ops_isa()) return 2;
    for (int n = 1; n <= MOST; n++)
        for (int mode = MHC_EPS_NONE; mode <= MHC_EPS_CLAMP; mode++)
            for (int last = 0; last < 2; last++) {
                run(37, n, (mhc_sinkhorn_numbers){mode ? 0.05 : 0, 1.5, 8, mode, last});
                run(1, n, (mhc_sinkhorn_numbers){mode ? 0.3 : 0, 1, n % 3, mode, last});
            }
    run(0, 4, (mhc_sinkhorn_numbers){1e-6, 1, 8, MHC_EPS_ADD, 0});
    run(20000, 4, (mhc_sinkhorn_numbers){1e-6, 1, 8, MHC_EPS_ADD, 0}); /* several threads */
    const mhc_sinkhorn_numbers good = {1e-6, 1, 8, MHC_EPS_ADD, 0};
    float one[1] = {0};
    check(mhc_sinkhorn_forward(1, 0, &good, one, one, NULL, NULL, 1) == MHC_BAD_ARGUMENT, "n", "");
    check(mhc_sinkhorn_forward(1, 1, &good, NULL, one, NULL, NULL, 1) == MHC_BAD_ARGUMENT, "z", "");
    check(mhc_sinkhorn_backward(1, 1, NULL, one, one, one, 1) == MHC_BAD_ARGUMENT, "numbers", "");
    printf("%s: %d passed, %d failed\n", mhc_ops_isa(), passed, failed);
    return failed != 0;
}
