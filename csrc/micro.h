// The microkernels.
//
//   outer_sum    G[f, d] += sum_t g[t, f] x[t, d]         at most 32 tokens, from zero first
//   mix_rows     y[t, d]  = base[t, d] + sum_f g[t, f] P[f, d], rounded one group later
//   dot_rows     S[t, f]  = sum_k x[t, k] P[f, k]         at most 1024 columns, 6 rows
//   dot_streams  s[n]     = sum_d g[d] x[n, d]            the rows of one token
//
// A tile is TILE = 32 columns wide. Each kernel keeps a block of accumulators in registers (24 of
// 32 for outer_sum and dot_rows, 16 for mix_rows; 12 and 8 where there are 16 registers) and reads
// its other operands from L1, so that loads stay well below one for an FMA. The order of every sum
// is fixed here.
#pragma once

#include "simd.h"

namespace mhc {
namespace MHC_ISA {

constexpr int TILE = 32;
constexpr int BLOCK = 32;    // tokens that outer_sum adds from zero: part of the order of summation
constexpr int STRIP = 1024;  // columns that dot_rows adds from zero: part of the order of summation
constexpr int STRIP_LD = STRIP + 16;  // rows a multiple of 4 KiB apart would share one set of L1
constexpr int PASSES = TILE / PAIR;

constexpr int OUTER_ROWS = MANY_REGISTERS ? 12 : 6;  // rows of f
constexpr int MIX_TOKENS = MANY_REGISTERS ? 8 : 4;
constexpr int DOT_ROWS = 6;  // rows of f
constexpr int DOT_TOKENS = MANY_REGISTERS ? 4 : 2;

// The lines of one row of a tile, one more where it is not aligned.
template <class E>
MHC_INLINE void prefetch_row(const char *p) {
    for (int i = 0; i < TILE * E::SIZE; i += 64) prefetch(p + i);
    prefetch(p + TILE * E::SIZE - 1);
}

// The same into L1, for a float32 row that is about to be written.
MHC_INLINE void prefetch_for_writing(const char *p) {
    __builtin_prefetch(p, 1, 3);
    __builtin_prefetch(p + TILE * 4 - 1, 1, 3);
}

// One float32 row of a tile, zero beyond `columns`.
template <class E>
MHC_INLINE void load_row(float *to, const char *from, int columns) {
    char padded[TILE * 4];
    if (columns < TILE) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, from, (size_t)columns * E::SIZE);
        from = padded;
    }
    for (int p = 0; p < PASSES; p++) {
        const Pair v = widen<E>(from + p * PAIR * E::SIZE);
        store(to + p * PAIR, v.a);
        store(to + p * PAIR + LANES, v.b);
    }
}

template <int ROWS>
MHC_INLINE void outer_block(int tokens, const float *x, const float *g, int64_t ldg, float *G) {
    for (int p = 0; p < PASSES; p++) {
        vf sum[ROWS][2] = {};
        for (int t = 0; t < tokens; t++) {
            const Pair v = load2(x + t * TILE + p * PAIR);
            for (int r = 0; r < ROWS; r++) {
                const vf s = splat(g[t * ldg + r]);
                sum[r][0] = fma(s, v.a, sum[r][0]);
                sum[r][1] = fma(s, v.b, sum[r][1]);
            }
        }
        for (int r = 0; r < ROWS; r++) {
            float *to = G + r * TILE + p * PAIR;
            store(to, load(to) + sum[r][0]);
            store(to + LANES, load(to + LANES) + sum[r][1]);
        }
    }
}

template <int ROWS>
inline void outer_rest(int rows, int tokens, const float *x, const float *g, int64_t ldg,
                       float *G) {
    if (rows == ROWS)
        outer_block<ROWS>(tokens, x, g, ldg, G);
    else if constexpr (ROWS > 1)
        outer_rest<ROWS - 1>(rows, tokens, x, g, ldg, G);
}

// x [tokens][TILE], g [tokens][ldg], G [rows][TILE].
inline void outer_sum(int rows, int tokens, const float *x, const float *g, int64_t ldg, float *G) {
    int f = 0;
    for (; rows - f >= OUTER_ROWS; f += OUTER_ROWS)
        outer_block<OUTER_ROWS>(tokens, x, g + f, ldg, G + f * TILE);
    if (rows > f) outer_rest<OUTER_ROWS - 1>(rows - f, tokens, x, g + f, ldg, G + f * TILE);
}

// base = h_pre * grad_h_in - c * x.
MHC_INLINE Pair base_of(float h_pre, float c, const float *grad_h_in, const float *x) {
    const Pair g = load2(grad_h_in), v = load2(x);
    const vf h = splat(h_pre), minus = splat(-c);
    return {fma(h, g.a, minus * v.a), fma(h, g.b, minus * v.b)};
}

// MIX_TOKENS rows of a tile in float32, before grad_x_post is added, and where they go.
struct Pending {
    alignas(64) float y[MIX_TOKENS * TILE];
    const char *post[MIX_TOKENS];
    char *out[MIX_TOKENS];
};

// Rows leave rounded to E, or NEAR: as float32 for a reader that finds them in cache.
template <class E, bool NEAR>
struct OutputOf {
    using Type = E;
};
template <class E>
struct OutputOf<E, true> {
    using Type = F32;
};
template <class E, bool NEAR>
using Output = typename OutputOf<E, NEAR>::Type;

template <class E, bool POST, bool STREAM, bool NEAR>
MHC_INLINE void finish_row(const Pending &from, int t) {
    using O = Output<E, NEAR>;
    for (int column = 0; column < TILE; column += PAIR) {
        Pair y = load2(from.y + t * TILE + column);
        if (POST) {
            const Pair w = widen<E>(from.post[t] + column * E::SIZE);
            y = {y.a + w.a, y.b + w.b};
        }
        narrow<O, STREAM>(y, from.out[t] + column * O::SIZE);
    }
}

// One group of MIX_TOKENS rows of one tile. g [MIX_TOKENS][ldg], P [rows][TILE], x and grad_h_in
// [MIX_TOKENS][TILE], h_pre [MIX_TOKENS] with stride ldh.
struct MixGroup {
    int rows;
    int64_t ldg, ldh;
    const float *g, *P, *x, *grad_h_in, *h_pre, *c;
};

// MIX_TOKENS rows that later tiles need: of x, to widen (at byte `next` of each, unless `to` is
// NULL) and to fetch into L2; of grad_x_post, and of the output unless it goes past the caches or
// is near, to fetch (all three unless `fetch` is false); and others to fetch (unless NULL).
struct Ahead {
    float *to;
    bool fetch;
    const char *const *x, *const *post, *const *out;
    int64_t next, fetch_x, fetch_post, fetch_out;
    const char *const *other;
    int64_t fetch_other;
};

// Fills `to`. The FMAs keep two of four vector pipes busy; the instructions and the loads that
// finish the group before (NULL: none) and prepare a later tile run beside them, a row at a time:
// in a burst they would stop the FMAs, for more than the reordering of instructions can hide.
template <class E, bool POST, bool STREAM, bool NEAR>
__attribute__((noinline)) void mix_rows(const MixGroup &m, Pending &to, const Pending *before,
                                        const Ahead &ahead) {
    const int share = m.rows / MIX_TOKENS, rest = m.rows % MIX_TOKENS;
    for (int column = 0; column < TILE; column += PAIR) {
        Pair y[MIX_TOKENS];
        for (int t = 0; t < MIX_TOKENS; t++)
            y[t] = base_of(m.h_pre[t * m.ldh], m.c[t], m.grad_h_in + t * TILE + column,
                           m.x + t * TILE + column);
        const float *g = m.g, *row = m.P + column;
        for (int part = 0; part < MIX_TOKENS; part++) {
            if (column == 0) {
                if (before) finish_row<E, POST, STREAM, NEAR>(*before, part);
                if (ahead.fetch) {
                    prefetch_row<E>(ahead.x[part] + ahead.fetch_x);
                    if (POST) prefetch_row<E>(ahead.post[part] + ahead.fetch_post);
                    if (!STREAM && !NEAR) prefetch_row<E>(ahead.out[part] + ahead.fetch_out);
                }
                if (NEAR) prefetch_for_writing(to.out[part]);
                if (ahead.other) prefetch_row<E>(ahead.other[part] + ahead.fetch_other);
                if (ahead.to) load_row<E>(ahead.to + part * TILE, ahead.x[part] + ahead.next, TILE);
            }
            for (const float *end = g + share + (part < rest); g < end; row += TILE, g++) {
                const Pair v = load2(row);
                for (int t = 0; t < MIX_TOKENS; t++) {
                    const vf s = splat(g[t * m.ldg]);
                    y[t].a = fma(s, v.a, y[t].a);
                    y[t].b = fma(s, v.b, y[t].b);
                }
            }
        }
        for (int t = 0; t < MIX_TOKENS; t++) {
            store(to.y + t * TILE + column, y[t].a);
            store(to.y + t * TILE + column + LANES, y[t].b);
        }
    }
}

// S[t * lds + f] = sum over columns of x[t][k] P[f][k]. x: rows of E, from byte `at` on; columns is
// a multiple of PAIR; rows of P lie ldp apart. With gamma the factor is gamma[k] * P[f][k], rounded
// once, as in a packed copy. ahead: lines to fetch into L2 meanwhile, one for 32 columns.
template <class E, int TOKENS, int ROWS, bool GAMMA>
MHC_INLINE void dot_block(int columns, const char *const *x, int64_t at, const float *P,
                          int64_t ldp, const float *gamma, float *S, int64_t lds,
                          const char *ahead) {
    vf sums[TOKENS][ROWS] = {};
    const char *rows[TOKENS];
    for (int t = 0; t < TOKENS; t++) rows[t] = x[t] + at;
    for (int k = 0; k < columns; k += PAIR) {
        if (ahead && k % TILE == 0) prefetch(ahead + k / TILE * 64);
        for (int half = 0; half < PAIR; half += LANES) {
            vf v[TOKENS];
            for (int t = 0; t < TOKENS; t++) {
                const Pair both = widen<E>(rows[t] + k * E::SIZE);
                v[t] = half ? both.b : both.a;
            }
            for (int f = 0; f < ROWS; f++) {
                vf w = load(P + f * ldp + k + half);
                if (GAMMA) w = w * load(gamma + k + half);
                for (int t = 0; t < TOKENS; t++) sums[t][f] = fma(v[t], w, sums[t][f]);
            }
        }
    }
    for (int t = 0; t < TOKENS; t++)
        for (int f = 0; f < ROWS; f++) S[t * lds + f] = sum(sums[t][f]);
}

// At most ROWS rows of P. x [tokens] rows, S [tokens][lds]; ahead: NULL, or for every DOT_TOKENS
// tokens the lines to fetch meanwhile (or NULL).
template <class E, bool GAMMA, int ROWS = DOT_ROWS>
inline void dot_rows(int rows, int tokens, int columns, const char *const *x, int64_t at,
                     const float *P, int64_t ldp, const float *gamma, float *S, int64_t lds,
                     const char *const *ahead) {
    if constexpr (ROWS > 1)
        if (rows < ROWS)
            return dot_rows<E, GAMMA, ROWS - 1>(rows, tokens, columns, x, at, P, ldp, gamma, S, lds,
                                                ahead);
    int t = 0;
    for (; tokens - t >= DOT_TOKENS; t += DOT_TOKENS)
        dot_block<E, DOT_TOKENS, ROWS, GAMMA>(columns, x + t, at, P, ldp, gamma, S + t * lds, lds,
                                              ahead ? ahead[t / DOT_TOKENS] : nullptr);
    for (; t < tokens; t++)
        dot_block<E, 1, ROWS, GAMMA>(columns, x + t, at, P, ldp, gamma, S + t * lds, lds, nullptr);
}

// sums[n] = <g, x_n> for up to 4 streams, so that g is widened once; next: the same streams of the
// next token.
template <class E, int STREAMS>
inline void dot_streams(int64_t D, const char *g, const char *x, const char *next,
                        int64_t stream_step, float *sums) {
    Pair acc[STREAMS] = {};
    const auto add = [&](const char *g_at, auto &&x_at) __attribute__((always_inline)) {
        for (int p = 0; p < PASSES; p++) {
            const Pair u = widen<E>(g_at + p * PAIR * E::SIZE);
            for (int n = 0; n < STREAMS; n++) {
                const Pair v = widen<E>(x_at(n) + p * PAIR * E::SIZE);
                acc[n].a = fma(u.a, v.a, acc[n].a);
                acc[n].b = fma(u.b, v.b, acc[n].b);
            }
        }
    };
    int64_t d = 0;
    for (; d + TILE <= D; d += TILE) {
        for (int n = 0; n < STREAMS; n++) prefetch(next + n * stream_step + d * E::SIZE);
        add(g + d * E::SIZE, [&](int n) { return x + n * stream_step + d * E::SIZE; });
    }
    if (d < D) {
        char tail[STREAMS + 1][TILE * E::SIZE] = {};
        memcpy(tail[STREAMS], g + d * E::SIZE, (size_t)(D - d) * E::SIZE);
        for (int n = 0; n < STREAMS; n++)
            memcpy(tail[n], x + n * stream_step + d * E::SIZE, (size_t)(D - d) * E::SIZE);
        add(tail[STREAMS], [&](int n) { return tail[n]; });
    }
    for (int n = 0; n < STREAMS; n++) sums[n] = sum(acc[n].a + acc[n].b);
}

}  // namespace MHC_ISA
}  // namespace mhc
