// MhcPostBackward.
//
// Threads take groups of tokens. Of one token, a pair of vectors of every stream of grad_out and x
// is widened once, and serves
//   grad_x[i]       = sum_j h_res[i, j] grad_out[j]         out past the caches where it is large
//   grad_h_res[i,j] = <x[i], grad_out[j]>                   one vector of sums for each, in
//   registers grad_y          = sum_j h_post[j] grad_out[j]           grad_h_out, and a row of the
//   group for bias grad_h_post[j]  = <y, grad_out[j]>
// so that every large tensor passes once. N up to 4 is unrolled; beyond, the sums lie in L1 and
// grad_out is widened again for each stream.
//
// grad_bias: a group of 16 tokens sums from zero in its own row; groups are added in ascending
// order from zero in each superblock of 256, superblocks in ascending order.
#include "post.h"

namespace mhc {
namespace MHC_ISA {

namespace {

constexpr int64_t COLUMNS = 512;  // of grad_bias that a thread reduces at a time

struct Call {
    const mhc_post_sizes &s;
    const mhc_post_backward_in &in;
    const mhc_post_backward_out &out;
    TokenRows grad_out, x, h_out;
    int64_t T;
    bool stream_x, stream_h_out;
    float *gates;   // [threads][N * N + N]
    float *sums;    // [threads][N * N + N][LANES], where N is not unrolled
    float *groups;  // [T / GROUP][D], where grad_bias is wanted
    int64_t *next;  // two counters

    int64_t sums_of_thread() const { return (s.streams + 1) * s.streams * LANES; }
};

struct Token {
    const char *grad_out, *x, *h_out;
    const char *next_grad_out, *next_x, *next_h_out;  // or NULL
    char *grad_x, *grad_h_out;
    float *grad_h_res, *grad_h_post;
    float *bias_row;              // of the token's group
    bool first;                   // in its group
    const float *h_res, *h_post;  // canonical
    float *sums;
};

MHC_INLINE vf add_product(Pair a, Pair b, vf to) { return fma(a.b, b.b, fma(a.a, b.a, to)); }

template <class E, bool WHOLE>
MHC_INLINE void put_pair(Pair v, char *to, int count, bool stream) {
    if (WHOLE && stream)
        set<E, WHOLE, WHOLE>(v, to, count);
    else
        set<E, WHOLE, false>(v, to, count);
}

// The columns [d, d + PAIR), or `count` of them. N is 0 where the number of streams is not
// unrolled; sums: [N * N] of grad_h_res, then [N] of grad_h_post.
template <class E, int N, bool WHOLE>
MHC_INLINE void columns(const Call &c, const Token &t, int64_t d, int count, vf *sums) {
    const int64_t n = N ? N : c.s.streams;
    const char *from = t.grad_out + d * E::SIZE;
    if (t.next_x) {
        fetch_rows(t.next_grad_out, n, c.grad_out.stream_step, d * E::SIZE);
        if (t.grad_h_res) fetch_rows(t.next_x, n, c.x.stream_step, d * E::SIZE);
        if (t.grad_h_post) prefetch(t.next_h_out + d * E::SIZE);
    }
    Pair g[N ? N : 1];
    for (int64_t j = 0; j < N; j++) g[j] = get<E, WHOLE>(from + j * c.grad_out.stream_step, count);
    const auto grad = [&](int64_t j) {
        return N ? g[j] : get<E, WHOLE>(from + j * c.grad_out.stream_step, count);
    };
    if (t.grad_h_res)
        for (int64_t i = 0; i < n; i++) {
            const Pair v = get<E, WHOLE>(t.x + i * c.x.stream_step + d * E::SIZE, count);
            for (int64_t j = 0; j < n; j++)
                sums[i * n + j] = add_product(v, grad(j), sums[i * n + j]);
        }
    if (t.grad_h_post) {
        const Pair y = sublayer_output<E, WHOLE>(t.h_out, c.in.bias, d, count);
        for (int64_t j = 0; j < n; j++) sums[n * n + j] = add_product(y, grad(j), sums[n * n + j]);
    }
    if (t.grad_x)
        for (int64_t i = 0; i < n; i++) {
            Pair total;
            if (c.in.h_res) {
                total = scale(t.h_res[i * n], grad(0));
                for (int64_t j = 1; j < n; j++)
                    total = add_scaled(t.h_res[i * n + j], grad(j), total);
            } else {
                total = grad(i);
            }
            put_pair<E, WHOLE>(total, t.grad_x + (i * c.s.dim + d) * E::SIZE, count, c.stream_x);
        }
    if (t.grad_h_out || t.bias_row) {
        Pair total = scale(t.h_post[0], grad(0));
        for (int64_t j = 1; j < n; j++) total = add_scaled(t.h_post[j], grad(j), total);
        if (t.grad_h_out)
            put_pair<E, WHOLE>(total, t.grad_h_out + d * E::SIZE, count, c.stream_h_out);
        if (t.bias_row) {
            char *row = (char *)(t.bias_row + d);
            if (!t.first) {
                const Pair before = get<F32, WHOLE>(row, count);
                total = {before.a + total.a, before.b + total.b};
            }
            set<F32, WHOLE, false>(total, row, count);
        }
    }
}

template <class E, int N>
void one_token(const Call &c, const Token &t) {
    const int64_t n = N ? N : c.s.streams, D = c.s.dim;
    vf registers[N ? N * N + N : 1];
    vf *sums = N ? registers : (vf *)t.sums;
    for (int64_t k = 0; k < n * n + n; k++) sums[k] = vf{};
    int64_t d = 0;
    for (; d + PAIR <= D; d += PAIR) columns<E, N, true>(c, t, d, PAIR, sums);
    if (d < D) columns<E, N, false>(c, t, d, (int)(D - d), sums);
    if (t.grad_h_res)
        for (int64_t k = 0; k < n * n; k++) t.grad_h_res[k] = sum(sums[k]);
    if (t.grad_h_post)
        for (int64_t j = 0; j < n; j++) t.grad_h_post[j] = sum(sums[n * n + j]);
}

template <class E>
void (*kernel(int64_t streams))(const Call &, const Token &) {
    switch (streams) {
        case 1:
            return one_token<E, 1>;
        case 2:
            return one_token<E, 2>;
        case 3:
            return one_token<E, 3>;
        case 4:
            return one_token<E, 4>;
        default:
            return one_token<E, 0>;
    }
}

// Columns [begin, end) of grad_bias from the groups' rows.
void reduce_bias(const Call &c, int64_t begin, int64_t end) {
    const int64_t D = c.s.dim, groups = ceil_div(c.T, GROUP), width = end - begin;
    float part[COLUMNS];
    float *to = c.out.grad_bias + begin;
    bool first = !c.out.accumulate;
    for (int64_t group = 0; group < groups;) {
        const int64_t stop = least(group + SUPERBLOCK / GROUP, groups);
        memcpy(part, c.groups + group * D + begin, (size_t)width * sizeof(float));
        for (group++; group < stop; group++)
            for (int64_t j = 0; j < width; j++) part[j] += c.groups[group * D + begin + j];
        for (int64_t j = 0; j < width; j++) to[j] = first ? part[j] : to[j] + part[j];
        first = false;
    }
}

template <class E>
void run(const Team &team, void *argument) {
    const Call &c = *(const Call *)argument;
    const int64_t N = c.s.streams, D = c.s.dim;
    const auto work = kernel<E>(N);
    float *h_res = c.gates + team.rank * (N * N + N), *h_post = h_res + N * N;
    const char *grad_out[GROUP], *x[GROUP], *h_out[GROUP];
    for (int64_t item; (item = take(c.next)) < ceil_div(c.T, GROUP);) {
        const int64_t first = item * GROUP;
        const int count = (int)least(GROUP, c.T - first);
        c.grad_out.fill(grad_out, first, count);
        c.x.fill(x, first, count);
        c.h_out.fill(h_out, first, count);
        for (int i = 0; i < count; i++) {
            const int64_t t = first + i;
            if (c.in.h_res) copy_canonical(h_res, c.in.h_res + t * N * N, N * N);
            copy_canonical(h_post, c.in.h_post + t * N, N);
            const mhc_post_backward_out &o = c.out;
            const bool more = i + 1 < count;
            work(c, {grad_out[i], x[i], h_out[i], more ? grad_out[i + 1] : nullptr,
                     more ? x[i + 1] : nullptr, more ? h_out[i + 1] : nullptr,
                     o.grad_x ? (char *)o.grad_x + t * N * D * E::SIZE : nullptr,
                     o.grad_h_out ? (char *)o.grad_h_out + t * D * E::SIZE : nullptr,
                     o.grad_h_res ? o.grad_h_res + t * N * N : nullptr,
                     o.grad_h_post ? o.grad_h_post + t * N : nullptr,
                     o.grad_bias ? c.groups + t / GROUP * D : nullptr, t % GROUP == 0, h_res,
                     h_post, c.sums + team.rank * c.sums_of_thread()});
        }
    }
    if (c.stream_x || c.stream_h_out) fence_streams();
    if (!c.out.grad_bias) return;
    team.barrier();
    for (int64_t item; (item = take(c.next + 1)) < ceil_div(D, COLUMNS);)
        reduce_bias(c, item * COLUMNS, least(D, (item + 1) * COLUMNS));
}

}  // namespace

int post_backward(const mhc_post_sizes &s, mhc_dtype dtype, const mhc_post_backward_in &in,
                  const mhc_post_backward_out &out, int threads) {
    const int64_t N = s.streams, D = s.dim, T = s.outer * s.inner;
    const int size = dtype == MHC_FLOAT32 ? 4 : 2;
    if (T == 0) {
        if (out.grad_bias && !out.accumulate) memset(out.grad_bias, 0, (size_t)D * sizeof(float));
        return MHC_OK;
    }
    Call c = {s,
              in,
              out,
              TokenRows(in.grad_out, s.inner, size),
              TokenRows(in.x, s.inner, size),
              TokenRows(in.h_out, s.inner, size)};
    threads =
        threads_for(2.0 * (double)T * (double)(N * D) * (double)(N + 1), max_threads(threads));
    c.T = T;
    const auto past_caches = [&](const void *p, int64_t elements) {
        return (uintptr_t)p % 64 == 0 && D * size % 64 == 0 && elements * size > CACHED_OUTPUT;
    };
    c.stream_x = past_caches(out.grad_x, T * N * D);
    c.stream_h_out = past_caches(out.grad_h_out, T * D);

    Workspace w;
    const size_t gates = w.reserve<float>(threads * (N * N + N));
    const size_t sums = w.reserve<float>(threads * c.sums_of_thread());
    const size_t groups = w.reserve<float>(out.grad_bias ? ceil_div(T, GROUP) * D : 0);
    const size_t next = w.reserve<int64_t>(2);
    if (!w.allocate()) return MHC_NO_MEMORY;
    c.gates = w.at<float>(gates);
    c.sums = w.at<float>(sums);
    c.groups = w.at<float>(groups);
    c.next = w.at<int64_t>(next);
    c.next[0] = c.next[1] = 0;
    run_team(threads,
             dtype == MHC_FLOAT32   ? run<F32>
             : dtype == MHC_FLOAT16 ? run<F16>
                                    : run<BF16>,
             &c);
    return MHC_OK;
}

}  // namespace MHC_ISA
}  // namespace mhc
