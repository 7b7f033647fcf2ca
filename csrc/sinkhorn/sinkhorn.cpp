// Sinkhorn and its backward.
//
// A group of 2 * LANES tokens is turned so that its tokens lie in lanes: entry (i, j) of every
// token is one Pair, and no sum crosses lanes. rows_last is turned on the way in and out. All of a
// group's numbers stay in L1 or L2; nothing goes through memory but logits, gradients and results.
//
// "add", with an eps that float32 can square (fast): the iterate is h[i,j] = a[i] q[i,j] b[j] with
// q = softmax + eps, and a column step replaces b alone. Its sum is b[j] dot[j] + eps with dot[j] =
// sum_i a[i] q[i,j], so the new b[j] = 1 / d[j], d[j] = dot[j] + eps d_old[j]: the old vector
// enters through eps alone, no rounding is carried along, and a step takes N divisions. The
// backward keeps each step's vector (N numbers, not N * N) and follows v, the gradient of q:
//     s[j] = sum_i q[i,j] v[i,j];  v[i,j] -= a[i] (b[j] s[j])        and likewise for rows.
// Otherwise (plain): iterates are formed and kept, divided as the equations say, and the backward
// follows y, the gradient of log h: y -= h (sum of y). Scaling vectors could leave float32 there.
#include <math.h>

#include "../lanes.h"
#include "../rows.h"

namespace mhc {
namespace MHC_ISA {

int sinkhorn_forward(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers &numbers,
                     const float *logits, float *h_res, float *row_defect, float *column_defect,
                     int threads);
int sinkhorn_backward(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers &numbers,
                      const float *logits, const float *grad_h_res, float *grad_logits,
                      int threads);

namespace {

constexpr double FAST_EPS = 1e-15;  // d >= eps^2 must be a normal number
constexpr int MOST_UNROLLED = 8;

struct Call {
    int64_t tokens, streams;
    const mhc_sinkhorn_numbers &numbers;
    const float *logits, *grad_h_res;
    float *h_res, *row_defect, *column_defect, *grad_logits;
    int64_t groups, scratch;  // scratch: Pairs of one thread
    Pair *data;               // [threads][scratch]
    int64_t *next;
};

// A group's scratch: p, q and v [n][n], vectors of rows and columns, the history.
struct Scratch {
    Pair *p, *q, *v, *a, *b, *da, *db, *history;

    Scratch(Pair *at, int64_t n) {
        p = at, q = p + n * n, v = q + n * n, a = v + n * n;
        b = a + n, da = b + n, db = da + n, history = db + n;
    }
    static int64_t fixed(int64_t n) { return 3 * n * n + 4 * n; }
};

// Tokens from `first` of [tokens][n][n], turned: to[k] holds entry k (transposed if rows_last).
template <int N>
void turn_in(const Call &c, const float *from, int64_t first, Pair *to) {
    const int n = N ? N : (int)c.streams, entries = n * n;
    const int count = (int)least(TOKENS, c.tokens - first);
    const float *row = from + first * entries;
    float *lanes = (float *)to;
    if (count < TOKENS) memset(to, 0, (size_t)entries * sizeof(Pair));
    for (int t = 0; t < count; t++, row += entries)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                const int k = c.numbers.rows_last ? j * n + i : i * n + j;
                lanes[k * TOKENS + t] = row[i * n + j];
            }
}

template <int N>
void turn_out(const Call &c, const Pair *from, int64_t first, float *to) {
    const int n = N ? N : (int)c.streams, entries = n * n;
    const int count = (int)least(TOKENS, c.tokens - first);
    const float *lanes = (const float *)from;
    float *row = to + first * entries;
    for (int t = 0; t < count; t++, row += entries)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                const int k = c.numbers.rows_last ? j * n + i : i * n + j;
                row[i * n + j] = lanes[k * TOKENS + t];
            }
}

// p = softmax over j of p / temperature; q = p + eps ("add").
template <int N>
void softmax(const Call &c, const Scratch &s) {
    const int n = N ? N : (int)c.streams;
    const Pair temperature = both((float)c.numbers.temperature);
    const Pair eps = both(c.numbers.eps_mode == MHC_EPS_ADD ? (float)c.numbers.eps : 0.0f);
    for (int i = 0; i < n; i++) {
        Pair *row = s.p + i * n, top = row[0], total = {};
        for (int j = 1; j < n; j++) top = larger(row[j], top);
        for (int j = 0; j < n; j++) {
            row[j] = exp_negative((row[j] - top) / temperature);
            total = j ? total + row[j] : row[j];
        }
        const Pair scale = both(1) / total;
        for (int j = 0; j < n; j++) {
            row[j] = row[j] * scale;
            s.q[i * n + j] = row[j] + eps;
        }
    }
}

// Fast: a and b of the last iterate; with KEEP, history[2k] = b and history[2k - 1] = a of step k.
template <int N, bool KEEP>
void scale(const Call &c, const Scratch &s) {
    const int n = N ? N : (int)c.streams;
    const Pair eps = both((float)c.numbers.eps), one = both(1);
    for (int i = 0; i < n; i++) s.a[i] = s.b[i] = s.da[i] = s.db[i] = one;
    Pair *kept = s.history;
    for (int k = 0; k < c.numbers.num_iters; k++) {
        if (k) {
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) {
                Pair dot = s.q[i * n] * s.b[0];
#pragma GCC unroll 8
                for (int j = 1; j < n; j++) dot = fma(s.q[i * n + j], s.b[j], dot);
                const Pair d = fma(eps, s.da[i], dot);
                s.da[i] = d;
                s.a[i] = inverse(d);
                if (KEEP) kept[i] = s.a[i];
            }
            if (KEEP) kept += n;
        }
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) {
            Pair dot = s.q[j] * s.a[0];
#pragma GCC unroll 8
            for (int i = 1; i < n; i++) dot = fma(s.q[i * n + j], s.a[i], dot);
            const Pair d = fma(eps, s.db[j], dot);
            s.db[j] = d;
            s.b[j] = inverse(d);
            if (KEEP) kept[j] = s.b[j];
        }
        if (KEEP) kept += n;
    }
}

// v = the gradient of q, from v = that of h.
template <int N>
void unscale(const Call &c, const Scratch &s) {
    const int n = N ? N : (int)c.streams, last = c.numbers.num_iters - 1;
    const Pair one = both(1);
    if (last < 0) return;
    for (int i = 0; i < n; i++) s.da[i] = one;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) s.v[i * n + j] = s.v[i * n + j] * (s.a[i] * s.b[j]);
    for (int k = last; k >= 0; k--) {
        const Pair *b = s.history + 2 * k * n, *a = k ? b - n : s.da;
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) {
            Pair total = s.q[j] * s.v[j];
#pragma GCC unroll 8
            for (int i = 1; i < n; i++) total = fma(s.q[i * n + j], s.v[i * n + j], total);
            total = b[j] * total;
#pragma GCC unroll 8
            for (int i = 0; i < n; i++) s.v[i * n + j] = fnma(a[i], total, s.v[i * n + j]);
        }
        if (!k) return;
        b -= 2 * n;
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) {
            Pair total = s.q[i * n] * s.v[i * n];
#pragma GCC unroll 8
            for (int j = 1; j < n; j++) total = fma(s.q[i * n + j], s.v[i * n + j], total);
            total = a[i] * total;
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) s.v[i * n + j] = fnma(total, b[j], s.v[i * n + j]);
        }
    }
}

// Plain: q becomes the last iterate. With KEEP, each step keeps its n * n iterate and n flags, 1
// where a sum was not clamped.
template <int N, bool KEEP>
void iterate(const Call &c, const Scratch &s) {
    const int n = N ? N : (int)c.streams;
    const Pair eps = both((float)c.numbers.eps);
    const bool add = c.numbers.eps_mode == MHC_EPS_ADD, clamp = c.numbers.eps_mode == MHC_EPS_CLAMP;
    Pair *kept = s.history;
    for (int k = 1; k < 2 * c.numbers.num_iters; k++) {
        const int across = k % 2 ? 1 : n, along = k % 2 ? n : 1;  // columns at odd steps
        for (int o = 0; o < n; o++) {
            Pair *line = s.q + o * across, total = line[0];
            for (int e = 1; e < n; e++) total = total + line[e * along];
            if (add) total = total + eps;
            Pair free = both(1);
            if (clamp) {
                free = {total.a < eps.a ? splat(0) : free.a, total.b < eps.b ? splat(0) : free.b};
                total = {total.a < eps.a ? eps.a : total.a, total.b < eps.b ? eps.b : total.b};
            }
            for (int e = 0; e < n; e++) line[e * along] = line[e * along] / total;
            if (KEEP) kept[n * n + o] = free;
        }
        if (KEEP) {
            memcpy(kept, s.q, (size_t)(n * n) * sizeof(Pair));
            kept += n * n + n;
        }
    }
}

// v = the gradient of log of the first iterate, from v = that of log of the last.
template <int N>
void uniterate(const Call &c, const Scratch &s) {
    const int n = N ? N : (int)c.streams;
    for (int k = 2 * c.numbers.num_iters - 1; k > 0; k--) {
        const int across = k % 2 ? 1 : n, along = k % 2 ? n : 1;
        const Pair *kept = s.history + (int64_t)(k - 1) * (n * n + n);
        for (int o = 0; o < n; o++) {
            Pair *line = s.v + o * across, total = line[0];
            for (int e = 1; e < n; e++) total = total + line[e * along];
            const Pair free = kept[n * n + o];
            total = {free.a != 0 ? total.a : splat(0), free.b != 0 ? total.b : splat(0)};
            const Pair *h = kept + o * across;
            for (int e = 0; e < n; e++) line[e * along] = line[e * along] - h[e * along] * total;
        }
    }
}

// The largest |sum - 1| of n lines; lines lie `across` apart, entries of one `along`.
Pair defect(const Pair *h, int n, int across, int along) {
    Pair most = {};
    for (int o = 0; o < n; o++) {
        Pair total = h[o * across];
        for (int e = 1; e < n; e++) total = total + h[o * across + e * along];
        total = total - both(1);
        most = larger(Pair{magnitude(total.a), magnitude(total.b)}, most);
    }
    return most;
}

template <int N, bool FAST>
void forward_group(const Call &c, const Scratch &s, int64_t first) {
    const int n = N ? N : (int)c.streams;
    turn_in<N>(c, c.logits, first, s.p);
    softmax<N>(c, s);
    if (FAST) {
        scale<N, false>(c, s);
        if (c.numbers.num_iters)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) s.q[i * n + j] = s.q[i * n + j] * s.b[j] * s.a[i];
    } else {
        iterate<N, false>(c, s);
    }
    turn_out<N>(c, s.q, first, c.h_res);
    const size_t bytes = (size_t)least(TOKENS, c.tokens - first) * sizeof(float);
    const int rows_across = c.numbers.rows_last ? 1 : n, rows_along = c.numbers.rows_last ? n : 1;
    if (c.row_defect) {
        const Pair found = defect(s.q, n, rows_across, rows_along);
        memcpy(c.row_defect + first, &found, bytes);
    }
    if (c.column_defect) {
        const Pair found = defect(s.q, n, rows_along, rows_across);
        memcpy(c.column_defect + first, &found, bytes);
    }
}

template <int N, bool FAST>
void backward_group(const Call &c, const Scratch &s, int64_t first) {
    const int n = N ? N : (int)c.streams;
    turn_in<N>(c, c.logits, first, s.p);
    softmax<N>(c, s);
    turn_in<N>(c, c.grad_h_res, first, s.v);
    if (FAST) {
        scale<N, true>(c, s);
        unscale<N>(c, s);
        for (int k = 0; k < n * n; k++) s.v[k] = s.v[k] * s.p[k];
    } else {
        const Pair eps = both((float)c.numbers.eps);
        const bool add = c.numbers.eps_mode == MHC_EPS_ADD;
        iterate<N, true>(c, s);
        for (int k = 0; k < n * n; k++) s.v[k] = s.v[k] * s.q[k];
        uniterate<N>(c, s);
        for (int k = 0; add && k < n * n; k++) s.v[k] = s.v[k] * (s.p[k] / (s.p[k] + eps));
    }
    const Pair temperature = both((float)c.numbers.temperature);
    for (int i = 0; i < n; i++) {
        Pair *row = s.v + i * n, total = row[0];
        for (int j = 1; j < n; j++) total = total + row[j];
        for (int j = 0; j < n; j++) row[j] = fnma(s.p[i * n + j], total, row[j]) / temperature;
    }
    turn_out<N>(c, s.v, first, c.grad_logits);
}

template <int N, bool FAST>
void run(const Team &team, void *argument) {
    const Call &c = *(const Call *)argument;
    const Scratch s(c.data + team.rank * c.scratch, c.streams);
    for (int64_t g; (g = take(c.next)) < c.groups;) {
        if (c.h_res)
            forward_group<N, FAST>(c, s, g * TOKENS);
        else
            backward_group<N, FAST>(c, s, g * TOKENS);
    }
}

template <int N>
void start(const Call &c, int threads, bool fast) {
    if (c.streams == N)
        run_team(threads, fast ? run<N, true> : run<N, false>, (void *)&c);
    else if constexpr (N > 1)
        start<N - 1>(c, threads, fast);
    else
        run_team(threads, fast ? run<0, true> : run<0, false>, (void *)&c);
}

int call(Call &c, int threads) {
    const mhc_sinkhorn_numbers &numbers = c.numbers;
    const int64_t n = c.streams, steps = 2 * (int64_t)numbers.num_iters;
    const bool fast = numbers.eps_mode == MHC_EPS_ADD && numbers.eps >= FAST_EPS;
    if (c.tokens == 0) return MHC_OK;
    c.groups = ceil_div(c.tokens, TOKENS);
    const int64_t history = c.h_res ? 0 : steps * (fast ? n : n * n + n);
    c.scratch = Scratch::fixed(n) + history;
    const double work = (double)c.tokens * (double)(n * n) * (double)(steps + 8);
    threads = (int)least(threads_for(work, max_threads(threads)), c.groups);
    Workspace w;
    const size_t data = w.reserve<Pair>(threads * c.scratch), next = w.reserve<int64_t>(1);
    if (!w.allocate()) return MHC_NO_MEMORY;
    c.data = w.at<Pair>(data);
    c.next = w.at<int64_t>(next);
    *c.next = 0;
    start<MOST_UNROLLED>(c, threads, fast);
    return MHC_OK;
}

}  // namespace

int sinkhorn_forward(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers &numbers,
                     const float *logits, float *h_res, float *row_defect, float *column_defect,
                     int threads) {
    Call c = {tokens, streams, numbers, logits, nullptr, h_res, row_defect, column_defect, nullptr};
    return call(c, threads);
}

int sinkhorn_backward(int64_t tokens, int64_t streams, const mhc_sinkhorn_numbers &numbers,
                      const float *logits, const float *grad_h_res, float *grad_logits,
                      int threads) {
    Call c = {tokens, streams, numbers, logits, grad_h_res, nullptr, nullptr, nullptr, grad_logits};
    return call(c, threads);
}

}  // namespace MHC_ISA
}  // namespace mhc
