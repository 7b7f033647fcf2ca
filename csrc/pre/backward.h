// MhcPreBackward.
//
// Tokens go in superblocks of 256. For each one:
//   phase A, parallel over groups of 8 tokens:
//     dh_pre = <grad_h_in, x>; from it g [t, F], the projection's gradient (inv_rms times alpha
//     times the gates' gradients), the RMS coefficient c [t], and the group's sums for bias and
//     alpha. They lie in one of two small buffers, so that one barrier a superblock is enough.
//   phase B, parallel over strips of D (all streams of a strip: grad_h_in is read once):
//     for 32 tokens and one tile of 32 columns, x becomes a float32 tile in L1 and serves both
//       G[f, d] += sum_t g[t, f] x[t, d]                                  outer_sum
//       grad_x   = h_pre grad_h_in - c x + post + sum_f g[t, f] P[f, d]   mix_rows
//     Rounding a group of 8 tokens waits for the next group's sums, which hide it, and so do the
//     widening of the next tile of x and the fetching of later rows into L2: they lie a token
//     apart, which no hardware prefetcher follows, and a multiple of 4 KiB apart they share one
//     set of L1.
// With P = phi * gamma, gamma costs nothing a token: a superblock adds gamma * G to grad_phi and
// sum_f phi * G to grad_gamma.
//
// P and a strip's G are [tile][stream][F][32] and stay in L2 for the strip; x is read from memory
// in phase A and from L3 in phase B. A strip owns its columns of G, so nothing is summed across
// threads. Strips and threads may be any number: the order of each sum is that of 32-token blocks
// from zero within 256-token superblocks.
//
// hf32 rounds g and phi for mix_rows, g and gamma * x for outer_sum. Then gamma is applied to
// u = g phi afterwards, and grad_gamma = sum_t x u is summed beside G, as row F of a tile.
//
// A Sink takes the gradient of x away before it reaches memory: 32 tokens and a segment of 128
// columns at a time, in float32, still in L2. Segments depend on nothing, so it may sum over D one
// by one; a superblock's are complete behind the next barrier. ToMemory is none.
#pragma once

#include <math.h>

#include "pre.h"

namespace mhc {
namespace MHC_ISA {

namespace backward_of_pre {

constexpr int GROUP = 8;  // tokens of phase A that one thread takes: part of the order of summation
constexpr int FETCH = 2;  // tiles between a row's fetch into L2 and its use
constexpr int64_t STRIP_BYTES = 512 << 10;  // of P and G in a strip: half of a 1 MiB L2
constexpr int64_t SEGMENT = 4;  // tiles that a Sink takes: part of its order of summation

// What phase B needs of a superblock's tokens.
struct Tokens {
    float *g;      // [rows][F]; rows: SUPERBLOCK, or T in whole blocks where that is less
    float *h_pre;  // [rows][N]
    float *c;      // [rows]
};

struct Call {
    const mhc_pre_sizes &s;
    const mhc_pre_numbers &numbers;
    const mhc_pre_backward_in &in;
    const mhc_pre_backward_out &out;
    TokenRows x, grad_h_in, post;
    int64_t T, superblocks, tiles, strip_tiles, strips;
    bool hf32, want_x, want_G, want_u, gamma_row;
    bool stream;  // grad_x is aligned and large

    float *P;  // [tiles][N][F][TILE]
    Tokens tokens[2];
    float *group_sums;                 // [groups of T][2][F]: bias, then a * h_mix * inv_rms
    float *strip_G;                    // [threads][strip_tiles][N][tile_rows][TILE]
    float *strip_gamma;                // [threads][strip_tiles][TILE]
    float *segment_x;                  // [threads][BLOCK][segment_step], for a Sink
    int64_t *next_group, *next_strip;  // [superblocks] each
    int64_t *next_taken;               // [superblocks], for a Sink

    int64_t tile_rows() const { return s.rows + gamma_row; }
    // A multiple of 4 KiB would put the tokens' rows into one set of L1.
    int64_t segment_step() const { return s.streams * SEGMENT * TILE + 16; }
    int tokens_of(int64_t superblock) const {
        return (int)least(SUPERBLOCK, T - superblock * SUPERBLOCK);
    }
};

template <class E>
void grad_h_pre(const Call &c, const char *g, const char *x, const char *next, float *sums) {
    const int64_t N = c.s.streams, D = c.s.dim, step = c.x.stream_step;
    int64_t n = 0;
    for (; n + 4 <= N; n += 4)
        dot_streams<E, 4>(D, g, x + n * step, next + n * step, step, sums + n);
    for (; n + 2 <= N; n += 2)
        dot_streams<E, 2>(D, g, x + n * step, next + n * step, step, sums + n);
    if (n < N) dot_streams<E, 1>(D, g, x + n * step, next + n * step, step, sums + n);
}

template <class E>
void phase_a(const Call &c, int64_t superblock, int group) {
    const int64_t N = c.s.streams, F = c.s.rows, R = F - 2 * N;
    const float hc_eps = (float)c.numbers.hc_eps, post_eps = (float)c.numbers.post_eps;
    const float post_scale = (float)c.numbers.post_scale, elements = (float)(N * c.s.dim);
    const Tokens &to = c.tokens[superblock % 2];
    const int first = group * GROUP, last = (int)least(first + GROUP, c.tokens_of(superblock));
    float *bias = c.group_sums + (superblock * (SUPERBLOCK / GROUP) + group) * 2 * F,
          *alpha = bias + F;
    memset(bias, 0, (size_t)(2 * F) * sizeof(float));
    for (int i = first; i < last; i++) {
        const int64_t t = superblock * SUPERBLOCK + i;
        const float *h_pre = c.in.h_pre + t * N, *h_post = c.in.h_post + t * N;
        const float *h_mix = c.in.h_mix + t * F, *grad_h_post = c.in.grad_h_post + t * N;
        const float inv = c.in.inv_rms[t];
        const char *x[2], *grad_h_in;  // this token and the next
        c.x.fill(x, t, 2);
        c.grad_h_in.fill(&grad_h_in, t, 1);

        float *g = to.g + i * F;  // first the gates' gradients a, then g
        grad_h_pre<E>(c, grad_h_in, x[0], x[1], g);
        for (int64_t n = 0; n < N; n++) {
            const float s = h_pre[n] - hc_eps, p = h_post[n] - post_eps;
            g[n] = g[n] * s * (1 - s);
            g[N + n] = grad_h_post[n] * p * (1 - p / post_scale);
            to.h_pre[i * N + n] = canonical(h_pre[n]);
        }
        if (R > 0) memcpy(g + 2 * N, c.in.grad_h_res + t * R, (size_t)R * sizeof(float));

        float rms = 0;  // inv_rms times its gradient
        const auto columns = [&](int64_t from, int64_t end, float scale) {
            for (int64_t f = from; f < end; f++) {
                const float m = scale * g[f], w = h_mix[f] * inv;
                bias[f] += g[f];
                alpha[f] += g[f] * w;
                rms += m * w;
                g[f] = canonical(c.hf32 ? hf32(m * inv) : m * inv);
            }
        };
        columns(0, N, c.in.alpha[0]);
        columns(N, 2 * N, c.in.alpha[1]);
        if (R > 0) columns(2 * N, F, c.in.alpha[2]);

        // In this order neither a large x nor the huge inv_rms of an all-zero row overflows on the
        // way.
        rms = rms * inv / elements;
        if (c.numbers.norm_eps_outside) {
            const float root = 1 / inv - (float)c.numbers.norm_eps;
            rms = root > 0 ? rms / root : 0;
        } else {
            rms *= inv;
        }
        to.c[i] = canonical(rms);
    }
}

// One block of 32 tokens in a strip: its rows, and the tiles they become.
struct Block {
    int count;
    const char *x[BLOCK], *grad_h_in[BLOCK], *post[BLOCK];
    char *grad_x[BLOCK];
    const float *g, *h_pre, *c;
    float *x_tile;  // one of x_tiles; the other is filled meanwhile
    bool x_loaded;
    alignas(64) float x_tiles[2][BLOCK * TILE], g_tile[BLOCK * TILE];
    alignas(64) float scaled[BLOCK * TILE], gamma_sum[TILE];  // hf32 only
    Pending groups[2];
    Pending *waiting;  // the one of them whose rows are not rounded yet, or NULL
    alignas(64) char post_tail[BLOCK * TILE * 4], out_tail[BLOCK * TILE * 4];
};

// No Sink: grad_x goes to memory.
struct ToMemory {
    static constexpr bool TAKES = false;
};

// What a Sink takes: the gradient of x of `count` tokens from `first` on, for the columns `begin`
// to `end` of a segment in a strip that begins at column `strip`. Tokens lie `token` elements
// apart, streams `stream`.
struct Taken {
    int thread;
    int64_t superblock, first;
    int count;
    int64_t strip, segment, begin, end;
    const float *grad;
    int64_t token, stream;
};

// Where a tile lies: element `at` of a parameter's row, byte offsets in rows of x, grad_x_post,
// grad_x.
struct Place {
    int64_t at, x, post, grad_x;
    int columns;
};

template <class E, bool NEAR>
Place place(const Call &c, int64_t tile, int64_t n) {
    const int64_t d = tile * TILE, at = n * c.s.dim + d;
    const int64_t taken = (n * SEGMENT + tile % SEGMENT) * TILE * F32::SIZE;
    return {at, n * c.x.stream_step + d * E::SIZE, n * c.post.stream_step + d * E::SIZE,
            NEAR ? taken : at * E::SIZE, tile_columns(c.s.dim, tile)};
}

template <class E>
void load_tile(float *to, const char *const *rows, int64_t offset, int count, int columns) {
    for (int t = 0; t < count; t++) load_row<E>(to + t * TILE, rows[t] + offset, columns);
}

// Rows that the next tile needs: they lie a token apart, which no hardware prefetcher follows.
template <class E>
void fetch(const char *const *rows, int count, int64_t offset) {
    for (int t = 0; t < count; t++) prefetch_row<E>(rows[t] + offset);
}

// hf32: the second operand of outer_sum is gamma * x, rounded.
inline void round_tile(const Call &c, Block &b, const Place &at) {
    float scale[TILE] = {};
    if (c.in.gamma) load_row<F32>(scale, (const char *)(c.in.gamma + at.at), at.columns);
    for (int i = 0; i < b.count * TILE; i += LANES) {
        const vf v = load(b.x_tile + i);
        store(b.scaled + i, hf32(c.in.gamma ? v * load(scale + i % TILE) : v));
    }
}

// hf32: the group holds u = g phi alone; grad_x = base + gamma * u, and the sum of x * u goes on.
template <class E, bool POST, bool NEAR>
void finish_hf32(const Call &c, Block &b, const Pending &group, int first, const Place &at) {
    using O = Output<E, NEAR>;
    float scale[TILE] = {};
    if (c.in.gamma) load_row<F32>(scale, (const char *)(c.in.gamma + at.at), at.columns);
    const int count = (int)least(MIX_TOKENS, b.count - first);
    for (int column = 0; column < TILE; column += PAIR) {
        Pair total = load2(b.gamma_sum + column);
        for (int t = 0; t < count; t++) {
            const int token = first + t, i = token * TILE + column;
            const Pair u = load2(group.y + t * TILE + column), x = load2(b.x_tile + i);
            total = {fma(x.a, u.a, total.a), fma(x.b, u.b, total.b)};
            if (!c.want_x) continue;
            Pair y = base_of(b.h_pre[token * c.s.streams], b.c[token], b.g_tile + i, b.x_tile + i);
            if (POST) {
                const Pair w = widen<E>(group.post[t] + column * E::SIZE);
                y = {y.a + w.a, y.b + w.b};
            }
            const Pair w = c.in.gamma ? load2(scale + column) : Pair{splat(1), splat(1)};
            y = {fma(w.a, u.a, y.a), fma(w.b, u.b, y.b)};
            narrow<O, false>(y, group.out[t] + column * O::SIZE);
        }
        store(b.gamma_sum + column, total.a);
        store(b.gamma_sum + column + LANES, total.b);
    }
}

template <class E, bool POST, bool STREAM, bool NEAR>
void finish_waiting(Block &b) {
    for (int t = 0; b.waiting && t < MIX_TOKENS; t++)
        finish_row<E, POST, STREAM, NEAR>(*b.waiting, t);
    b.waiting = nullptr;
}

// NEAR: the rows of grad_x are float32 and have room for whole tiles of BLOCK tokens.
template <class E, bool POST, bool STREAM, bool NEAR>
void mix_tile(const Call &c, Block &b, const float *P, const Place &at, Ahead ahead,
              float *gamma_row) {
    static const float zeros[MIX_TOKENS * TILE] = {};
    // A tile with fewer tokens or columns goes through buffers of the full size.
    const bool whole = at.columns == TILE && b.count == BLOCK;
    const size_t bytes = (size_t)at.columns * E::SIZE;
    if (POST && !whole)
        for (int t = 0; t < b.count; t++)
            memcpy(b.post_tail + t * TILE * E::SIZE, b.post[t] + at.post, bytes);
    if (c.hf32) memset(b.gamma_sum, 0, sizeof b.gamma_sum);
    for (int first = 0; first < b.count; first += MIX_TOKENS) {
        Pending &group = b.groups[b.waiting == b.groups];
        for (int t = 0; t < MIX_TOKENS; t++) {
            const int row = (first + t) * TILE * E::SIZE;
            if (POST) group.post[t] = whole ? b.post[first + t] + at.post : b.post_tail + row;
            group.out[t] = whole || NEAR ? b.grad_x[first + t] + at.grad_x : b.out_tail + row;
        }
        const int F = (int)c.s.rows, N = (int)c.s.streams, i = first * TILE;
        if (c.hf32) {
            mix_rows<E, POST, STREAM, NEAR>(
                {F, F, 0, b.g + first * F, P, zeros, zeros, zeros, zeros}, group, nullptr, ahead);
            finish_hf32<E, POST, NEAR>(c, b, group, first, at);
        } else {
            mix_rows<E, POST, STREAM, NEAR>({F, F, N, b.g + first * F, P, b.x_tile + i,
                                             b.g_tile + i, b.h_pre + first * N, b.c + first},
                                            group, b.waiting, ahead);
            b.waiting = &group;
        }
        ahead.x += MIX_TOKENS;
        ahead.post += MIX_TOKENS;
        ahead.out += MIX_TOKENS;
        if (ahead.other) ahead.other += MIX_TOKENS;
        if (ahead.to) ahead.to += MIX_TOKENS * TILE;
    }
    if (gamma_row)
        for (int j = 0; j < TILE; j++) gamma_row[j] += b.gamma_sum[j];
    if (whole) return;
    finish_waiting<E, POST, STREAM, NEAR>(b);  // before post_tail is filled again
    for (int t = 0; !NEAR && c.want_x && t < b.count; t++)
        memcpy(b.grad_x[t] + at.grad_x, b.out_tail + t * TILE * E::SIZE, bytes);
}

inline void add_row(float *to, const float *row, int columns, bool first) {
    if (first)
        memcpy(to, row, (size_t)columns * sizeof(float));
    else
        for (int j = 0; j < columns; j++) to[j] += row[j];
}

// Adds one stream of a superblock's strip to the parameters' gradients, a row of phi at a time: the
// rows of one tile lie far apart, and where N * D is a multiple of 1024 share a set of L1.
// grad_gamma: [strip_tiles * TILE].
inline void close_strip(const Call &c, const float *G, int64_t tile, int64_t n, int64_t columns,
                        float *grad_gamma, bool first) {
    const int64_t F = c.s.rows, width = c.s.streams * c.s.dim, at = n * c.s.dim + tile * TILE;
    const int64_t next_tile = c.s.streams * c.tile_rows() * TILE;
    const float *gamma = c.in.gamma && !c.hf32 ? c.in.gamma + at : nullptr;
    const bool of_G = c.out.grad_gamma && !c.hf32;
    G += n * c.tile_rows() * TILE;
    memset(grad_gamma, 0, (size_t)columns * sizeof(float));
    for (int64_t f = 0; c.want_G && f < F; f++) {
        const float *phi = c.in.phi + f * width + at;
        float *grad_phi = c.out.grad_phi ? c.out.grad_phi + f * width + at : nullptr;
        for (int64_t d = 0; d < columns; d += TILE) {
            const float *row = G + d / TILE * next_tile + f * TILE;
            const auto add = [&](int count) __attribute__((always_inline)) {
                if (of_G)
                    for (int j = 0; j < count; j++) grad_gamma[d + j] += phi[d + j] * row[j];
                if (!grad_phi) return;
                float own[TILE];
                for (int j = 0; j < count; j++) own[j] = gamma ? row[j] * gamma[d + j] : row[j];
                add_row(grad_phi + d, own, count, first);
            };
            if (columns - d < TILE)
                add((int)(columns - d));
            else
                add(TILE);
        }
    }
    if (!c.out.grad_gamma) return;
    for (int64_t d = 0; c.gamma_row && d < columns; d += TILE)
        memcpy(grad_gamma + d, G + F * TILE + d / TILE * next_tile,
               (size_t)least(TILE, columns - d) * sizeof(float));
    add_row(c.out.grad_gamma + at, grad_gamma, (int)columns, first);
}

template <class E, bool POST, bool STREAM, class Sink>
void phase_b(const Call &c, const Sink &sink, int thread, int64_t superblock, int64_t strip,
             float *sums, float *grad_gamma) {
    float *segment_x = c.segment_x + thread * BLOCK * c.segment_step();
    const int64_t N = c.s.streams, F = c.s.rows, rows = c.tile_rows();
    const int64_t begin = strip * c.strip_tiles, end = least(begin + c.strip_tiles, c.tiles);
    const int64_t columns = least(c.s.dim, end * TILE) - begin * TILE;
    const int tokens = c.tokens_of(superblock);
    const Tokens &from = c.tokens[superblock % 2];
    if constexpr (Sink::TAKES) sink.open(thread, columns);
    if (c.want_G || c.gamma_row)
        memset(sums, 0, (size_t)((end - begin) * N * rows * TILE) * sizeof(float));
    Block b = {};
    b.x_tile = b.x_tiles[0];
    for (int first = 0; first < tokens; first += BLOCK) {
        const int64_t t = superblock * SUPERBLOCK + first;
        b.count = (int)least(BLOCK, tokens - first);
        b.g = from.g + first * F;
        b.c = from.c + first;
        c.x.fill(b.x, t, b.count);
        c.grad_h_in.fill(b.grad_h_in, t, b.count);
        if (POST) c.post.fill(b.post, t, b.count);
        for (int i = 0; i < BLOCK; i++)
            b.grad_x[i] = Sink::TAKES ? (char *)(segment_x + i * c.segment_step())
                                      : (char *)c.out.grad_x + (t + i) * N * c.s.dim * E::SIZE;
        const char *others[BLOCK];  // what the Sink will read
        if constexpr (Sink::TAKES) sink.rows(others, t, b.count);
        for (int64_t tile = begin; tile < end; tile++) {
            if (c.want_x) {
                load_tile<E>(b.g_tile, b.grad_h_in, tile * TILE * E::SIZE, b.count,
                             tile_columns(c.s.dim, tile));
                if (tile + 1 < end) fetch<E>(b.grad_h_in, b.count, (tile + 1) * TILE * E::SIZE);
            }
            for (int64_t n = 0; n < N; n++) {
                const auto later = [&](int64_t steps) {
                    return place<E, Sink::TAKES>(c, tile + (n + steps) / N, (n + steps) % N);
                };
                const Place at = later(0), next = later(1), fetched = later(FETCH);
                const bool has_next = next.columns > 0 && tile + (n + 1) / N < end;
                const bool fetches = tile + (n + FETCH) / N < end;
                float *tile_sums = sums + ((tile - begin) * N + n) * rows * TILE;
                b.h_pre = from.h_pre + first * N + n;
                if (!b.x_loaded) load_tile<E>(b.x_tile, b.x, at.x, b.count, at.columns);
                b.x_loaded = false;
                if (c.hf32) round_tile(c, b, at);
                if (!c.want_u && fetches) fetch<E>(b.x, b.count, fetched.x);
                if (c.want_G)
                    outer_sum((int)F, b.count, c.hf32 ? b.scaled : b.x_tile, b.g, F, tile_sums);
                if (!c.want_u) continue;
                const bool whole = b.count == BLOCK;
                float *other = b.x_tiles[b.x_tile == b.x_tiles[0]];
                b.x_loaded = whole && has_next && next.columns == TILE;
                Ahead ahead = {b.x_loaded ? other : nullptr,
                               whole && fetches,
                               b.x,
                               b.post,
                               b.grad_x,
                               next.x,
                               fetched.x,
                               fetched.post,
                               fetched.grad_x,
                               nullptr,
                               0};
                if constexpr (Sink::TAKES)
                    if (whole && sink.reads_x())
                        ahead.other = others, ahead.fetch_other = sink.template offset<E>(tile, n);
                mix_tile<E, POST, STREAM, Sink::TAKES>(
                    c, b, c.P + (tile * N + n) * F * TILE, at, ahead,
                    c.gamma_row ? tile_sums + F * TILE : nullptr);
                if (b.x_loaded) b.x_tile = other;
            }
            if constexpr (Sink::TAKES)
                if ((tile + 1) % SEGMENT == 0 || tile + 1 == end) {
                    finish_waiting<E, POST, STREAM, Sink::TAKES>(b);
                    const int64_t segment = tile / SEGMENT, at = segment * SEGMENT * TILE;
                    sink.template take<E>({thread, superblock, t, b.count, begin * TILE, segment,
                                           at, least(c.s.dim, (tile + 1) * TILE), segment_x,
                                           c.segment_step(), SEGMENT * TILE});
                }
        }
    }
    finish_waiting<E, POST, STREAM, Sink::TAKES>(b);
    if (STREAM) fence_streams();
    if constexpr (Sink::TAKES) sink.close(thread, superblock, begin * TILE, columns);
    if (c.want_G || c.gamma_row)
        for (int64_t n = 0; n < N; n++)
            close_strip(c, sums, begin, n, columns, grad_gamma,
                        superblock == 0 && !c.out.accumulate);
}

// grad_bias and grad_alpha: groups within a superblock from zero, superblocks in ascending order.
// part: [2][F].
inline void reduce_groups(const Call &c, float *part) {
    const int64_t N = c.s.streams, F = c.s.rows, ends[3] = {N, 2 * N, F};
    for (int64_t superblock = 0; superblock < c.superblocks; superblock++) {
        const bool first = superblock == 0 && !c.out.accumulate;
        memset(part, 0, (size_t)(2 * F) * sizeof(float));
        for (int64_t group = 0; group < ceil_div(c.tokens_of(superblock), GROUP); group++) {
            const float *from = c.group_sums + (superblock * (SUPERBLOCK / GROUP) + group) * 2 * F;
            for (int64_t f = 0; f < 2 * F; f++) part[f] += from[f];
        }
        if (c.out.grad_bias) add_row(c.out.grad_bias, part, (int)F, first);
        float alpha[3] = {};
        for (int64_t i = 0, f = 0; i < 3; i++)
            for (; f < ends[i]; f++) alpha[i] += part[F + f];
        if (c.out.grad_alpha) add_row(c.out.grad_alpha, alpha, F > 2 * N ? 3 : 2, first);
    }
}

template <class Sink>
struct Job {
    const Call &call;
    const Sink &sink;
};

// Lets a Sink finish its sums of a superblock, whose strips are all taken.
template <class Sink>
void finish_taken(const Call &c, const Sink &sink, int64_t superblock) {
    const int64_t tokens = c.tokens_of(superblock), first = superblock * SUPERBLOCK;
    for (int64_t item; (item = take(c.next_taken + superblock)) < ceil_div(tokens, BLOCK);)
        sink.finish(superblock, first + item * BLOCK, (int)least(BLOCK, tokens - item * BLOCK));
}

template <class E, bool POST, bool STREAM, class Sink>
void run(const Team &team, void *argument) {
    const Job<Sink> &job = *(const Job<Sink> *)argument;
    const Call &c = job.call;
    const int64_t N = c.s.streams, F = c.s.rows;
    if (c.want_u)
        for (int64_t i = team.rank; i < c.tiles * N; i += team.size) {
            const int64_t at = i % N * c.s.dim + i / N * TILE;
            const float *gamma = c.in.gamma && !c.hf32 ? c.in.gamma + at : nullptr;
            for (int64_t f = 0; f < F; f++)
                pack_row(c.P + (i * F + f) * TILE, c.in.phi + f * N * c.s.dim + at, gamma,
                         tile_columns(c.s.dim, i / N), c.hf32);
        }
    float *sums = c.strip_G + team.rank * c.strip_tiles * N * c.tile_rows() * TILE;
    float *grad_gamma = c.strip_gamma + team.rank * c.strip_tiles * TILE;
    for (int64_t superblock = 0; superblock < c.superblocks; superblock++) {
        const int64_t groups = ceil_div(c.tokens_of(superblock), GROUP);
        for (int64_t group; (group = take(c.next_group + superblock)) < groups;)
            phase_a<E>(c, superblock, (int)group);
        team.barrier();
        if constexpr (Sink::TAKES)
            if (superblock > 0) finish_taken(c, job.sink, superblock - 1);
        if (c.want_G || c.want_u)
            for (int64_t strip; (strip = take(c.next_strip + superblock)) < c.strips;)
                phase_b<E, POST, STREAM>(c, job.sink, team.rank, superblock, strip, sums,
                                         grad_gamma);
    }
    if constexpr (Sink::TAKES) {
        team.barrier();
        finish_taken(c, job.sink, c.superblocks - 1);
    }
}

template <class E, class Sink>
void (*body_for(bool post, bool stream))(const Team &, void *) {
    if constexpr (!Sink::TAKES)
        if (stream) return post ? run<E, true, true, Sink> : run<E, false, true, Sink>;
    return post ? run<E, true, false, Sink> : run<E, false, false, Sink>;
}

template <class Sink>
int compute(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
            const mhc_pre_backward_in &in, const mhc_pre_backward_out &out, int threads,
            Sink sink) {
    const int64_t N = s.streams, F = s.rows, T = s.outer * s.inner, width = N * s.dim;
    const int size = dtype == MHC_FLOAT32 ? 4 : 2;
    Call c = {s,
              numbers,
              in,
              out,
              TokenRows(in.x, s.inner, size),
              TokenRows(in.grad_h_in, s.inner, size),
              TokenRows(in.grad_x_post, s.inner, size)};
    c.T = T;
    c.hf32 = numbers.hf32;
    c.gamma_row = c.hf32 && out.grad_gamma;
    c.want_G = out.grad_phi || (out.grad_gamma && !c.hf32);
    c.want_x = out.grad_x || Sink::TAKES;
    c.want_u = c.want_x || c.gamma_row;
    c.superblocks = T ? ceil_div(T, SUPERBLOCK) : 1;
    threads = threads_for(2.0 * (double)T * (double)width * (double)(F + 2), max_threads(threads));
    c.tiles = ceil_div(s.dim, TILE);
    int64_t widest = STRIP_BYTES / (2 * N * F * TILE * (int64_t)sizeof(float));
    if (widest < 1) widest = 1;
    c.strips = ceil_div(ceil_div(c.tiles, widest), threads) * threads;
    c.strip_tiles = ceil_div(c.tiles, c.strips);
    if (Sink::TAKES) c.strip_tiles = ceil_div(c.strip_tiles, SEGMENT) * SEGMENT;
    c.strips = ceil_div(c.tiles, c.strip_tiles);
    c.stream = (uintptr_t)out.grad_x % 64 == 0 && s.dim * size % 64 == 0 &&
               T * width * size > CACHED_OUTPUT;

    Workspace w;
    const size_t P = w.reserve<float>(c.want_u ? c.tiles * N * F * TILE : 0);
    const int64_t rows = least(SUPERBLOCK, ceil_div(T, BLOCK) * BLOCK);
    size_t g[2], h_pre[2], coefficient[2];
    for (int i = 0; i < 2; i++) {
        g[i] = w.reserve<float>(rows * F);
        h_pre[i] = w.reserve<float>(rows * N);
        coefficient[i] = w.reserve<float>(rows);
    }
    const size_t counters = w.reserve<int64_t>(3 * c.superblocks);
    const size_t zero_until = w.size;
    const size_t part = w.reserve<float>(2 * F);
    const size_t group_sums = w.reserve<float>(ceil_div(T, GROUP) * 2 * F);
    const size_t strip_G = w.reserve<float>(
        c.want_G || c.gamma_row ? threads * c.strip_tiles * N * c.tile_rows() * TILE : 0);
    const size_t strip_gamma = w.reserve<float>(threads * c.strip_tiles * TILE);
    const size_t segment_x = w.reserve<float>(Sink::TAKES ? threads * BLOCK * c.segment_step() : 0);
    if constexpr (Sink::TAKES)
        sink.reserve(w, threads, ceil_div(c.tiles, SEGMENT), c.strip_tiles * TILE);
    if (!w.allocate()) return MHC_NO_MEMORY;
    memset(w.data + g[0], 0, zero_until - g[0]);

    c.P = w.at<float>(P);
    for (int i = 0; i < 2; i++)
        c.tokens[i] = {w.at<float>(g[i]), w.at<float>(h_pre[i]), w.at<float>(coefficient[i])};
    c.group_sums = w.at<float>(group_sums);
    c.strip_gamma = w.at<float>(strip_gamma);
    c.strip_G = w.at<float>(strip_G);
    c.next_group = w.at<int64_t>(counters);
    c.next_strip = c.next_group + c.superblocks;
    c.next_taken = c.next_strip + c.superblocks;
    c.segment_x = w.at<float>(segment_x);
    if constexpr (Sink::TAKES) sink.bind(w);
    const bool post = in.grad_x_post.data;
    Job<Sink> job = {c, sink};
    run_team(threads,
             dtype == MHC_FLOAT32   ? body_for<F32, Sink>(post, c.stream)
             : dtype == MHC_FLOAT16 ? body_for<F16, Sink>(post, c.stream)
                                    : body_for<BF16, Sink>(post, c.stream),
             &job);
    reduce_groups(c, w.at<float>(part));
    return MHC_OK;
}

}  // namespace backward_of_pre
}  // namespace MHC_ISA
}  // namespace mhc
