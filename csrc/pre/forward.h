// MhcPre.
//
// Tokens go in chunks of at most 64 (fewer where the workspace would outgrow phi); columns (all
// streams, one after the other, each padded to tiles of 32) in strips of 1024.
//   project, of one chunk and one strip:
//     the squares of x are summed; dot_rows multiplies x by the strip of phi (6 rows of 1024,
//     24 KiB, stay in L1 while the tokens pass) and fetches the next strip's x. A strip gives one
//     number for token and row; strips are added in ascending order. A token whose streams follow
//     one another is widened at every use; else x becomes float32 [64][1024] in L2 first.
//   finish, of a few tokens:
//     inv_rms, the gates, and h_in = sum_n h_pre x, for which x is read again, from L3.
// Large work: a thread takes a chunk, walks its strips and finishes it. With fewer chunks than
// threads they take (chunk, strip) pairs, so that one token uses every core; after a barrier they
// finish tokens. The sums are the same, hence the bits.
//
// A Source makes x on the way, or says that it is there (InMemory). One that makes it writes a
// chunk to memory, past the caches, and into a copy that stays in L2.
//
// phi * gamma is packed once as [strip][F][1024]; where threads take strips, each packs the 6 rows
// at hand, so that none waits for them. For few tokens that would double the work, so dot_rows
// multiplies on the fly and rounds the product the same way. hf32 rounds gamma * x and phi instead.
#pragma once

#include <math.h>

#include "pre.h"

namespace mhc {
namespace MHC_ISA {
namespace forward_of_pre {

constexpr int CHUNK = 64;  // the order of no sum depends on it
constexpr int STRIP_TILES = STRIP / TILE;
constexpr int FEW_TOKENS = 16;  // up to here phi is not packed

enum Phi { AS_IT_IS, PACKED_ONCE, PACKED_BY_STRIP };

struct Call {
    const mhc_pre_sizes &s;
    const mhc_pre_numbers &numbers;
    const mhc_pre_forward_in &in;
    const mhc_pre_forward_out &out;
    TokenRows x;
    int64_t T, tiles, strips, chunk, chunks;  // tiles: of one stream; chunk: tokens
    bool hf32, by_strip, stream;
    bool in_place;  // x is multiplied where it lies
    Phi phi;
    char *copies;  // [threads][chunk][copy_step] of x, where a Source makes it
    int64_t copy_step;
    float *P;        // [strips][F][STRIP_LD] when packed once
    float *floats;   // [threads][floats_of_thread()]
    float *partial;  // by_strip: [strips][T][F + 1]; else [threads][strips][chunk][F + 1]; row F
                     // sums squares
    int64_t *next;   // counters: chunks, tokens to finish, tokens to make

    int64_t tiles_of(int64_t strip) const {
        return least(STRIP_TILES, s.streams * tiles - strip * STRIP_TILES);
    }
    // A chunk's strip, packed rows of phi, mix [F] and gates [N].
    int64_t floats_of_thread() const {
        return (in_place ? 0 : chunk * STRIP_LD) +
               (phi == PACKED_BY_STRIP ? DOT_ROWS * STRIP_LD : 0) + s.rows + s.streams;
    }
};

template <class Body>  // body(i, n, d): tile i of the strip is tile d of stream n
MHC_INLINE void each_tile(const Call &c, int64_t strip, Body body) {
    int64_t n = strip * STRIP_TILES / c.tiles, d = strip * STRIP_TILES % c.tiles;
    for (int64_t i = 0; i < c.tiles_of(strip); i++) {
        body(i, n, d);
        if (++d == c.tiles) d = 0, n++;
    }
}

MHC_INLINE void add_squares(Pair v, Pair &total) {
    total = {fma(v.a, v.a, total.a), fma(v.b, v.b, total.b)};
}

// squares[t * lds] = the sum of x^2 of one strip.
template <class E>
void square_strip(const Call &c, int64_t strip, const char *const *rows, int count, float *squares,
                  int64_t lds) {
    const int64_t bytes = c.tiles_of(strip) * TILE * E::SIZE;
    for (int t = 0; t < count; t++) {
        Pair total = {};
        const char *x = rows[t] + strip * STRIP * E::SIZE;
        for (const char *end = x + bytes; x < end; x += PAIR * E::SIZE)
            add_squares(widen<E>(x), total);
        squares[t * lds] = sum(total.a + total.b);
    }
}

// The same, and to[t][STRIP_LD] = x as float32 (hf32: gamma * x, rounded).
template <class E>
void load_strip(const Call &c, int64_t strip, const char *const *rows, int count, float *to,
                float *squares, int64_t lds) {
    for (int t = 0; t < count; t++) {
        Pair total = {};
        each_tile(c, strip, [&](int64_t i, int64_t n, int64_t d) {
            float *tile = to + t * STRIP_LD + i * TILE;
            const int columns = tile_columns(c.s.dim, d);
            load_row<E>(tile, rows[t] + n * c.x.stream_step + d * TILE * E::SIZE, columns);
            for (int p = 0; p < TILE; p += PAIR) add_squares(load2(tile + p), total);
            if (!c.hf32) return;
            float gamma[TILE] = {};
            if (c.in.gamma)
                load_row<F32>(gamma, (const char *)(c.in.gamma + n * c.s.dim + d * TILE), columns);
            for (int j = 0; j < TILE; j += LANES) {
                const vf v = load(tile + j);
                store(tile + j, hf32(c.in.gamma ? v * load(gamma + j) : v));
            }
        });
        squares[t * lds] = sum(total.a + total.b);
    }
}

// to[r][STRIP_LD] = row f + r of phi in one strip, times gamma or in hf32; DOT_ROWS rows at most.
inline void pack_strip(const Call &c, int64_t strip, int64_t f, float *to) {
    const int64_t rows = least(DOT_ROWS, c.s.rows - f), K = c.s.streams * c.s.dim;
    each_tile(c, strip, [&](int64_t i, int64_t n, int64_t d) {
        const int64_t at = n * c.s.dim + d * TILE;
        const float *gamma = c.in.gamma && !c.hf32 ? c.in.gamma + at : nullptr;
        for (int64_t r = 0; r < rows; r++)
            pack_row(to + r * STRIP_LD + i * TILE, c.in.phi + (f + r) * K + at, gamma,
                     tile_columns(c.s.dim, d), c.hf32);
    });
}

// The halves of a strip's rows of phi from row f on, which dot_rows fetches for pack_strip.
inline void halves_of(const Call &c, int64_t strip, int64_t f, const char **lines) {
    const float *phi = c.in.phi + f * c.s.streams * c.s.dim + strip * STRIP;
    const int64_t rows = least(DOT_ROWS, c.s.rows - f);
    for (int i = 0; i < 2 * DOT_ROWS; i++) {
        const float *half = phi + i / 2 * c.s.streams * c.s.dim + i % 2 * STRIP / 2;
        lines[i] = i / 2 < rows ? (const char *)half : nullptr;
    }
}

// partial[t][F] of one strip: x times phi. x: rows of X, from byte `at` on; next: the rows where
// the following strip's x begins, or NULL.
template <class X>
void multiply(const Call &c, int64_t strip, const char *const *x, int64_t at, int count,
              float *pack, float *partial, const char *const *next) {
    const int64_t F = c.s.rows, K = c.s.streams * c.s.dim;
    const int columns = (int)c.tiles_of(strip) * TILE;
    const char *halves[CHUNK / DOT_TOKENS] = {};
    static_assert(2 * DOT_ROWS <= CHUNK / DOT_TOKENS, "halves_of");
    for (int64_t f = 0; f < F; f += DOT_ROWS) {
        const int rows = (int)least(DOT_ROWS, F - f);
        const int64_t group = f / DOT_ROWS;  // the first DOT_TOKENS groups fetch a part of x each
        const char *const *ahead =
            next && group < DOT_TOKENS ? next + group * (count / DOT_TOKENS) : nullptr;
        const float *P = c.P + (strip * F + f) * STRIP_LD, *gamma = nullptr;
        int64_t ldp = STRIP_LD;
        if (c.phi == PACKED_BY_STRIP) {
            pack_strip(c, strip, f, pack);
            halves_of(c, strip, f + DOT_ROWS, halves);
            P = pack, ahead = halves;
        } else if (c.phi == AS_IT_IS) {
            P = c.in.phi + f * K + strip * STRIP, ldp = K;
            gamma = c.in.gamma ? c.in.gamma + strip * STRIP : nullptr;
        }
        const auto dot = gamma ? dot_rows<X, true> : dot_rows<X, false>;
        dot(rows, count, columns, x, at, P, ldp, gamma, partial + f, F + 1, ahead);
    }
}

template <class E>
void project(const Call &c, int64_t strip, const char *const *rows, int count, float *floats,
             float *partial, const char *const *next) {
    const int64_t F = c.s.rows;
    float *pack = floats + (c.in_place ? 0 : c.chunk * STRIP_LD);
    if (c.in_place) {
        square_strip<E>(c, strip, rows, count, partial + F, F + 1);
        multiply<E>(c, strip, rows, strip * STRIP * E::SIZE, count, pack, partial, next);
        return;
    }
    load_strip<E>(c, strip, rows, count, floats, partial + F, F + 1);
    const char *copies[CHUNK];
    for (int t = 0; t < count; t++) copies[t] = (const char *)(floats + t * STRIP_LD);
    multiply<F32>(c, strip, copies, 0, count, pack, partial, next);
}

// float32 squares of very large or very small x leave its range; then they are summed in double.
template <class E>
double sum_of_squares(const Call &c, const char *row, float fast) {
    const bool too_small = fast < 1e-30f && c.numbers.norm_eps < 1e-7;
    if (fast <= 1e38f && !too_small) return fast;
    double total = 0;
    float v[TILE];
    for (int64_t n = 0; n < c.s.streams; n++)
        for (int64_t d = 0; d < c.tiles; d++) {
            load_row<E>(v, row + n * c.x.stream_step + d * TILE * E::SIZE,
                        tile_columns(c.s.dim, d));
            for (int j = 0; j < TILE; j++) total += (double)v[j] * v[j];
        }
    return total;
}

inline float inverse_rms(const Call &c, double squares) {
    const double mean = squares / (double)(c.s.streams * c.s.dim), eps = c.numbers.norm_eps;
    return (float)(c.numbers.norm_eps_outside ? 1 / (sqrt(mean) + eps) : 1 / sqrt(mean + eps));
}

template <class E, bool STREAM>
void mix_streams(const Call &c, const char *row, const float *h_pre, char *h_in) {
    const int64_t N = c.s.streams, step = c.x.stream_step;
    int64_t d = 0;
    for (; d + TILE <= c.s.dim; d += TILE)
        for (int p = 0; p < TILE; p += PAIR) {
            const char *from = row + (d + p) * E::SIZE;
            Pair v = widen<E>(from);
            vf h = splat(h_pre[0]);
            Pair y = {h * v.a, h * v.b};
            for (int64_t n = 1; n < N; n++) {
                v = widen<E>(from + n * step);
                h = splat(h_pre[n]);
                y = {fma(h, v.a, y.a), fma(h, v.b, y.b)};
            }
            narrow<E, STREAM>(y, h_in + (d + p) * E::SIZE);
        }
    if (d < c.s.dim) {
        const int columns = (int)(c.s.dim - d);
        alignas(64) float x[TILE];
        Pair y[PASSES] = {};
        for (int64_t n = 0; n < N; n++) {
            load_row<E>(x, row + n * step + d * E::SIZE, columns);
            const vf h = splat(h_pre[n]);
            for (int p = 0; p < PASSES; p++) {
                const Pair v = load2(x + p * PAIR);
                y[p] = n ? Pair{fma(h, v.a, y[p].a), fma(h, v.b, y[p].b)} : Pair{h * v.a, h * v.b};
            }
        }
        char rounded[TILE * E::SIZE];
        for (int p = 0; p < PASSES; p++) narrow<E, false>(y[p], rounded + p * PAIR * E::SIZE);
        memcpy(h_in + d * E::SIZE, rounded, (size_t)columns * E::SIZE);
    }
}

inline float sigmoid(float z) { return 1 / (1 + expf(-z)); }

// Token t from its strips' sums: partial + strip * ld is [F + 1]; mix [F] and gates [N] are
// scratch.
template <class E>
void finish(const Call &c, int64_t t, const char *row, const float *partial, int64_t ld, float *mix,
            float *gates) {
    const int64_t N = c.s.streams, F = c.s.rows, R = F - 2 * N;
    const float *alpha = c.in.alpha, *bias = c.in.bias;
    memset(mix, 0, (size_t)F * sizeof(float));
    float squares = 0;
    for (int64_t strip = 0; strip < c.strips; strip++) {
        const float *from = partial + strip * ld;
        for (int64_t f = 0; f < F; f++) mix[f] += from[f];
        squares += from[F];
    }
    const float inv = inverse_rms(c, sum_of_squares<E>(c, row, squares));
    if (c.out.inv_rms) c.out.inv_rms[t] = inv;
    if (c.out.h_mix) memcpy(c.out.h_mix + t * F, mix, (size_t)F * sizeof(float));
    for (int64_t n = 0; n < N; n++)
        gates[n] = sigmoid(mix[n] * inv * alpha[0] + bias[n]) + (float)c.numbers.hc_eps;
    if (c.out.h_pre) memcpy(c.out.h_pre + t * N, gates, (size_t)N * sizeof(float));
    if (c.out.h_post)
        for (int64_t n = 0; n < N; n++)
            c.out.h_post[t * N + n] =
                (float)c.numbers.post_scale * sigmoid(mix[N + n] * inv * alpha[1] + bias[N + n]) +
                (float)c.numbers.post_eps;
    if (c.out.h_res)
        for (int64_t k = 0; k < R; k++)
            c.out.h_res[t * R + k] = mix[2 * N + k] * inv * alpha[2] + bias[2 * N + k];
    if (!c.out.h_in) return;
    for (int64_t n = 0; n < N; n++) gates[n] = canonical(gates[n]);
    char *h_in = (char *)c.out.h_in + t * c.s.dim * E::SIZE;
    if (c.stream)
        mix_streams<E, true>(c, row, gates, h_in);
    else
        mix_streams<E, false>(c, row, gates, h_in);
}

// x lies in memory. A Source that makes it takes chunks of TOKENS, and has these too: reserve and
// bind its part of the workspace; make tokens from `first` on, in memory and, where given, in a
// copy of rows `step` bytes apart.
struct InMemory {
    static constexpr bool MAKES = false;
    static constexpr int64_t TOKENS = CHUNK;
    void reserve(Workspace &, int) {}
    void bind(const Workspace &) {}
    template <class E>
    void make(int, int64_t, int, char *, int64_t) const {}
};

template <class Source>
struct Job {
    const Call &call;
    const Source &source;
};

template <class E, class Source>
void by_strip(const Team &team, const Call &c, const Source &source, float *floats, float *mix,
              float *gates) {
    const int64_t F = c.s.rows;
    const char *rows[CHUNK];
    if (Source::MAKES) {
        for (int64_t t; (t = take(c.next + 2)) < c.T;)
            source.template make<E>(team.rank, t, 1, nullptr, 0);
        fence_streams();  // other threads read it
        team.barrier();
    }
    for (int64_t i; (i = take(c.next)) < c.chunks * c.strips;) {
        const int64_t first = i / c.strips * c.chunk, strip = i % c.strips;
        const int count = (int)least(c.chunk, c.T - first);
        c.x.fill(rows, first, count);
        project<E>(c, strip, rows, count, floats, c.partial + (strip * c.T + first) * (F + 1),
                   nullptr);
    }
    team.barrier();
    for (int64_t t; (t = take(c.next + 1)) < c.T;) {
        c.x.fill(rows, t, 1);
        finish<E>(c, t, rows[0], c.partial + t * (F + 1), c.T * (F + 1), mix, gates);
    }
}

template <class E, class Source>
void by_chunk(const Team &team, const Call &c, const Source &source, float *floats, float *mix,
              float *gates) {
    const int64_t F = c.s.rows;
    float *partial = c.partial + team.rank * c.strips * c.chunk * (F + 1);
    char *copy = c.copies + team.rank * c.chunk * c.copy_step;
    const char *rows[CHUNK], *next_rows[CHUNK];
    for (int64_t i; (i = take(c.next)) < c.chunks;) {
        const int64_t first = i * c.chunk;
        const int count = (int)least(c.chunk, c.T - first);
        if (Source::MAKES) {
            source.template make<E>(team.rank, first, count, copy, c.copy_step);
            for (int t = 0; t < count; t++) rows[t] = copy + t * c.copy_step;
        } else {
            c.x.fill(rows, first, count);
        }
        for (int64_t strip = 0; strip < c.strips; strip++) {
            const int64_t tile = (strip + 1) * STRIP_TILES;
            const int64_t ahead =
                tile / c.tiles * c.x.stream_step + tile % c.tiles * TILE * E::SIZE;
            for (int t = 0; t < count; t++) next_rows[t] = rows[t] + ahead;
            const bool fetches = !Source::MAKES && strip + 1 < c.strips;
            project<E>(c, strip, rows, count, floats, partial + strip * c.chunk * (F + 1),
                       fetches ? next_rows : nullptr);
        }
        for (int t = 0; t < count; t++)
            finish<E>(c, first + t, rows[t], partial + t * (F + 1), c.chunk * (F + 1), mix, gates);
    }
}

template <class E, class Source>
void run(const Team &team, void *argument) {
    const Job<Source> &job = *(const Job<Source> *)argument;
    const Call &c = job.call;
    const int64_t N = c.s.streams, F = c.s.rows;
    float *floats = c.floats + team.rank * c.floats_of_thread();
    float *gates = floats + c.floats_of_thread() - N, *mix = gates - F;
    if (c.phi == PACKED_ONCE) {
        const int64_t groups = ceil_div(F, DOT_ROWS);
        for (int64_t i = team.rank; i < c.strips * groups; i += team.size) {
            const int64_t strip = i / groups, f = i % groups * DOT_ROWS;
            pack_strip(c, strip, f, c.P + (strip * F + f) * STRIP_LD);
        }
        team.barrier();
    }
    if (c.by_strip)
        by_strip<E>(team, c, job.source, floats, mix, gates);
    else
        by_chunk<E>(team, c, job.source, floats, mix, gates);
    if (c.stream || Source::MAKES) fence_streams();
}

template <class Source>
int compute(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
            const mhc_pre_forward_in &in, const mhc_pre_forward_out &out, int threads,
            Source source) {
    const int64_t N = s.streams, F = s.rows, T = s.outer * s.inner;
    const int size = dtype == MHC_FLOAT32 ? 4 : 2;
    if (T == 0) return MHC_OK;
    Call c = {s, numbers, in, out, TokenRows(in.x, s.inner, size)};
    threads = threads_for((double)T * (double)(N * s.dim) * (double)(F + 2), max_threads(threads));
    c.T = T;
    c.tiles = ceil_div(s.dim, TILE);
    c.strips = ceil_div(N * c.tiles, STRIP_TILES);
    c.by_strip = ceil_div(T, Source::TOKENS) < threads;
    const int64_t room = F * (N * s.dim + 8 * T) / (threads * STRIP_LD) / DOT_TOKENS * DOT_TOKENS;
    c.chunk = least(least(T, Source::TOKENS), room > DOT_TOKENS ? room : DOT_TOKENS);
    c.chunks = ceil_div(T, c.chunk);
    c.hf32 = numbers.hf32;
    const bool as_it_is = T <= FEW_TOKENS && !c.hf32 && s.dim % TILE == 0;
    c.phi = as_it_is ? AS_IT_IS : c.by_strip ? PACKED_BY_STRIP : PACKED_ONCE;
    c.in_place = !c.hf32 && s.dim % TILE == 0 && c.x.stream_step == s.dim * size;
    c.stream =
        (uintptr_t)out.h_in % 64 == 0 && s.dim * size % 64 == 0 && T * s.dim * size > CACHED_OUTPUT;

    Workspace w;
    const size_t P = w.reserve<float>(c.phi == PACKED_ONCE ? c.strips * F * STRIP_LD : 0);
    const size_t floats = w.reserve<float>(threads * c.floats_of_thread());
    const size_t partial =
        w.reserve<float>(c.strips * (F + 1) * (c.by_strip ? T : threads * c.chunk));
    const size_t next = w.reserve<int64_t>(3);
    // Rows a multiple of 4 KiB apart would share one set of L1.
    c.copy_step = (N * s.dim * size + 63) / 64 * 64 + 64;
    const size_t copies =
        w.reserve<char>(Source::MAKES && !c.by_strip ? threads * c.chunk * c.copy_step : 0);
    source.reserve(w, threads);
    if (!w.allocate()) return MHC_NO_MEMORY;
    c.P = w.at<float>(P);
    c.floats = w.at<float>(floats);
    c.partial = w.at<float>(partial);
    c.next = w.at<int64_t>(next);
    c.next[0] = c.next[1] = c.next[2] = 0;
    c.copies = w.at<char>(copies);
    source.bind(w);
    Job<Source> job = {c, source};
    run_team(threads,
             dtype == MHC_FLOAT32   ? run<F32, Source>
             : dtype == MHC_FLOAT16 ? run<F16, Source>
                                    : run<BF16, Source>,
             &job);
    return MHC_OK;
}

}  // namespace forward_of_pre
}  // namespace MHC_ISA
}  // namespace mhc
