// MhcPostBackward.
//
// Of one token, grad_out and x are widened once, and serve
//   grad_h_res[i,j] = <x[i], grad_out[j]>                     one vector of sums for each
//   grad_h_post[j]  = <y, grad_out[j]>
//   grad_x[i]       = sum_j h_res[i, j] grad_out[j]           past the caches where it is large
//   grad_y          = sum_j h_post[j] grad_out[j]             grad_h_out, and a row of bias
// so that every large tensor passes memory once. N up to 4 is unrolled; beyond, the sums lie in L1
// and grad_out is widened again for each stream. The gradient may have another type than x:
// mhc_post_pre forms it in float32.
#pragma once

#include "post.h"

namespace mhc {
namespace MHC_ISA {
namespace backward_of_post {

constexpr int64_t STRETCH = 256;  // columns that stay in L1 between the two readings

// Some columns of one token, at the first of them.
struct Token {
    const char *grad_out, *x, *h_out;
    const char *next_grad_out, *next_x, *next_h_out;  // or NULL
    char *grad_x, *grad_h_out;                        // or NULL
    float *bias_row;                                  // summed over tokens, or NULL
    bool first;                                       // of that sum
    bool of_res, of_post;                             // whether their sums are wanted
    const float *h_res, *h_post;                      // canonical; h_res NULL: the identity
    const float *bias;                                // of h_out, or NULL
};

// Bytes from one stream to the next; what is stored past the caches.
struct Steps {
    int64_t streams, grad_out, x, grad_x;
    bool stream_x, stream_h_out;
};

MHC_INLINE vf add_product(Pair a, Pair b, vf to) { return fma(a.b, b.b, fma(a.a, b.a, to)); }

template <class E, bool WHOLE>
MHC_INLINE void put_pair(Pair v, char *to, int count, bool stream) {
    if (WHOLE && stream)
        set<E, WHOLE, WHOLE>(v, to, count);
    else
        set<E, WHOLE, false>(v, to, count);
}

template <class G, class E>
MHC_INLINE void fetch_next(const Steps &c, const Token &t, int64_t streams, int64_t d) {
    if (!t.next_x) return;
    fetch_rows(t.next_grad_out, streams, c.grad_out, d * G::SIZE);
    if (t.of_res) fetch_rows(t.next_x, streams, c.x, d * E::SIZE);
    if (t.of_post) prefetch(t.next_h_out + d * E::SIZE);
}

// The gradient's columns [d, d + PAIR), or `count` of them: in registers where the number of
// streams N is not 0.
template <class G, int N, bool WHOLE>
struct Gradient {
    Pair kept[N ? N : 1];
    const char *from;
    int64_t step;
    int count;

    MHC_INLINE Gradient(const Steps &c, const Token &t, int64_t d, int count)
        : from(t.grad_out + d * G::SIZE), step(c.grad_out), count(count) {
        for (int64_t j = 0; j < N; j++) kept[j] = get<G, WHOLE>(from + j * step, count);
    }
    MHC_INLINE Pair operator[](int64_t j) const {
        return N ? kept[j] : get<G, WHOLE>(from + j * step, count);
    }
};

// sums: [N * N] of grad_h_res, then [N] of grad_h_post.
template <class G, class E, int N, bool WHOLE>
MHC_INLINE void add_sums(const Steps &c, const Token &t, int64_t d, int count, vf *sums) {
    const int64_t n = N ? N : c.streams;
    const Gradient<G, N, WHOLE> grad(c, t, d, count);
    if (t.of_res)
        for (int64_t i = 0; i < n; i++) {
            const Pair v = get<E, WHOLE>(t.x + i * c.x + d * E::SIZE, count);
            for (int64_t j = 0; j < n; j++)
                sums[i * n + j] = add_product(v, grad[j], sums[i * n + j]);
        }
    if (t.of_post) {
        const Pair y = sublayer_output<E, WHOLE>(t.h_out, t.bias, d, count);
        for (int64_t j = 0; j < n; j++) sums[n * n + j] = add_product(y, grad[j], sums[n * n + j]);
    }
}

template <class G, class E, int N, bool WHOLE>
MHC_INLINE void write_rows(const Steps &c, const Token &t, int64_t d, int count) {
    const int64_t n = N ? N : c.streams;
    const Gradient<G, N, WHOLE> grad(c, t, d, count);
    if (t.grad_x)
        for (int64_t i = 0; i < n; i++) {
            Pair total;
            if (t.h_res) {
                total = scale(t.h_res[i * n], grad[0]);
                for (int64_t j = 1; j < n; j++)
                    total = add_scaled(t.h_res[i * n + j], grad[j], total);
            } else {
                total = grad[i];
            }
            put_pair<E, WHOLE>(total, t.grad_x + i * c.grad_x + d * E::SIZE, count, c.stream_x);
        }
    if (t.grad_h_out || t.bias_row) {
        Pair total = scale(t.h_post[0], grad[0]);
        for (int64_t j = 1; j < n; j++) total = add_scaled(t.h_post[j], grad[j], total);
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

// The first `width` columns; found: [N * N + N], written if a sum is wanted. scratch:
// [N * N + N][LANES], where N is 0.
//
// A stretch of columns is read for the sums, which fill the registers, and again, from L1, for the
// rows.
template <class G, class E, int N>
void one_token(const Steps &c, const Token &t, int64_t width, float *found, float *scratch) {
    constexpr int SUMS = N ? N * N + N : 1;
    const int64_t n = N ? N : c.streams, wanted = n * n + n;
    const bool of_sums = t.of_res || t.of_post, of_rows = t.grad_x || t.grad_h_out || t.bias_row;
    vf registers[SUMS];
    vf *sums = N ? registers : (vf *)scratch;
    if (N) {
#pragma GCC unroll 32
        for (int k = 0; k < SUMS; k++) registers[k] = vf{};
    } else {
        for (int64_t k = 0; k < wanted; k++) sums[k] = vf{};
    }
    for (int64_t begin = 0; begin < width; begin += STRETCH) {
        const int64_t end = least(begin + STRETCH, width);
        int64_t d = begin;
        if (of_sums) {
            for (; d + PAIR <= end; d += PAIR) {
                fetch_next<G, E>(c, t, n, d);
                add_sums<G, E, N, true>(c, t, d, PAIR, sums);
            }
            if (d < end) add_sums<G, E, N, false>(c, t, d, (int)(end - d), sums);
        }
        if (of_rows) {
            for (d = begin; d + PAIR <= end; d += PAIR) {
                if (!of_sums) fetch_next<G, E>(c, t, n, d);
                write_rows<G, E, N, true>(c, t, d, PAIR);
            }
            if (d < end) write_rows<G, E, N, false>(c, t, d, (int)(end - d));
        }
    }
    if (!of_sums) return;
    if (N) {
#pragma GCC unroll 32
        for (int k = 0; k < SUMS; k++) found[k] = sum(registers[k]);
    } else {
        for (int64_t k = 0; k < wanted; k++) found[k] = sum(sums[k]);
    }
}

typedef void (*Kernel)(const Steps &, const Token &, int64_t, float *, float *);

template <class G, class E>
Kernel kernel(int64_t streams) {
    switch (streams) {
        case 1:
            return one_token<G, E, 1>;
        case 2:
            return one_token<G, E, 2>;
        case 3:
            return one_token<G, E, 3>;
        case 4:
            return one_token<G, E, 4>;
        default:
            return one_token<G, E, 0>;
    }
}

inline int64_t sums_of_token(int64_t streams) { return streams * streams + streams; }

}  // namespace backward_of_post
}  // namespace MHC_ISA
}  // namespace mhc
