// MhcPost.
//
// Threads take groups of tokens. Of one token, a pair of vectors of every stream is widened
// into registers and leaves as a pair of every output stream: x and h_out are read once, out is
// written once, past the caches where it is large, and a second time where a caller wants a copy
// that stays in them. N up to 8 is unrolled; beyond, x is widened again for each output stream,
// from L1.
#pragma once

#include "post.h"

namespace mhc {
namespace MHC_ISA {
namespace forward_of_post {

struct Call {
    const mhc_post_sizes &s;
    const mhc_post_forward_in &in;
    char *out;
    TokenRows x, h_out;
    int64_t T;
    bool stream;
    float *gates;  // [threads][N * N + N]
};

struct Token {
    const char *x, *h_out;
    const char *next_x, *next_h_out;  // or NULL
    char *out, *copy;                 // copy may be NULL
    const float *h_res, *h_post;      // canonical
};

// The columns [d, d + PAIR), or `count` of them. N is 0 where the number of streams is not
// unrolled.
template <class E, bool RES, int N, bool WHOLE, bool STREAM>
MHC_INLINE void mix_columns(const Call &c, const Token &t, int64_t d, int count) {
    const int64_t n = N ? N : c.s.streams, step = c.x.stream_step;
    const char *x = t.x + d * E::SIZE;
    if (t.next_x) {
        fetch_rows(t.next_x, n, step, d * E::SIZE);
        prefetch(t.next_h_out + d * E::SIZE);
    }
    const Pair y = sublayer_output<E, WHOLE>(t.h_out, c.in.bias, d, count);
    Pair v[N ? N : 1];
    for (int64_t i = 0; i < N; i++) v[i] = get<E, WHOLE>(x + i * step, count);
    const auto stream = [&](int64_t i) { return N ? v[i] : get<E, WHOLE>(x + i * step, count); };
    for (int64_t j = 0; j < n; j++) {
        Pair total;
        if (RES) {
            total = scale(t.h_res[j], stream(0));
            for (int64_t i = 1; i < n; i++)
                total = add_scaled(t.h_res[i * n + j], stream(i), total);
        } else {
            total = stream(j);
        }
        total = add_scaled(t.h_post[j], y, total);
        set<E, WHOLE, STREAM>(total, t.out + (j * c.s.dim + d) * E::SIZE, count);
        if (t.copy) set<E, WHOLE, false>(total, t.copy + (j * c.s.dim + d) * E::SIZE, count);
    }
}

template <class E, bool RES, int N, bool STREAM>
void mix_token(const Call &c, const Token &t) {
    int64_t d = 0;
    for (; d + PAIR <= c.s.dim; d += PAIR) mix_columns<E, RES, N, true, STREAM>(c, t, d, PAIR);
    if (d < c.s.dim) mix_columns<E, RES, N, false, false>(c, t, d, (int)(c.s.dim - d));
}

typedef void (*Mixer)(const Call &, const Token &);

template <class E, bool STREAM>
Mixer mixer(bool res, int64_t streams) {
    if (!res) return mix_token<E, false, 0, STREAM>;
    switch (streams) {
        case 1:
            return mix_token<E, true, 1, STREAM>;
        case 2:
            return mix_token<E, true, 2, STREAM>;
        case 3:
            return mix_token<E, true, 3, STREAM>;
        case 4:
            return mix_token<E, true, 4, STREAM>;
        case 5:
            return mix_token<E, true, 5, STREAM>;
        case 6:
            return mix_token<E, true, 6, STREAM>;
        case 7:
            return mix_token<E, true, 7, STREAM>;
        case 8:
            return mix_token<E, true, 8, STREAM>;
        default:
            return mix_token<E, true, 0, STREAM>;
    }
}

// At most GROUP tokens from `first` on; copy: NULL, or where their rows of copy_step bytes go.
template <class E>
void write(const Call &c, int thread, int64_t first, int count, char *copy, int64_t copy_step) {
    const int64_t N = c.s.streams, D = c.s.dim;
    const bool res = c.in.h_res;
    const Mixer mix = c.stream ? mixer<E, true>(res, N) : mixer<E, false>(res, N);
    float *h_res = c.gates + thread * (N * N + N), *h_post = h_res + N * N;
    const char *x[GROUP], *h_out[GROUP];
    c.x.fill(x, first, count);
    c.h_out.fill(h_out, first, count);
    for (int i = 0; i < count; i++) {
        const int64_t t = first + i;
        if (res) copy_canonical(h_res, c.in.h_res + t * N * N, N * N);
        copy_canonical(h_post, c.in.h_post + t * N, N);
        const bool more = i + 1 < count;
        mix(c, {x[i], h_out[i], more ? x[i + 1] : nullptr, more ? h_out[i + 1] : nullptr,
                c.out + t * N * D * E::SIZE, copy ? copy + i * copy_step : nullptr, h_res, h_post});
    }
}

inline Call prepare(const mhc_post_sizes &s, mhc_dtype dtype, const mhc_post_forward_in &in,
                    void *out) {
    const int size = dtype == MHC_FLOAT32 ? 4 : 2;
    const int64_t T = s.outer * s.inner;
    const bool stream = (uintptr_t)out % 64 == 0 && s.dim * size % 64 == 0 &&
                        T * s.streams * s.dim * size > CACHED_OUTPUT;
    return {
        s, in,     (char *)out, TokenRows(in.x, s.inner, size), TokenRows(in.h_out, s.inner, size),
        T, stream, nullptr};
}

inline int64_t gates_of_thread(const Call &c) { return c.s.streams * c.s.streams + c.s.streams; }

}  // namespace forward_of_post
}  // namespace MHC_ISA
}  // namespace mhc
