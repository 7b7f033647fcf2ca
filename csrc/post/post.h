// What both directions of MhcPost share: the entry points, gates without loose NaN bits, and pairs
// of vectors that may be cut short by the end of a row.
#pragma once

#include "../rows.h"

namespace mhc {
namespace MHC_ISA {

int post_forward(const mhc_post_sizes &s, mhc_dtype dtype, const mhc_post_forward_in &in, void *out,
                 int threads);
int post_backward(const mhc_post_sizes &s, mhc_dtype dtype, const mhc_post_backward_in &in,
                  const mhc_post_backward_out &out, int threads);

constexpr int GROUP = 16;  // tokens that a thread takes at a time; divides SUPERBLOCK

// The next token's rows at the columns that are being worked on: a row is too short for the
// hardware prefetcher to get going.
MHC_INLINE void fetch_rows(const char *rows, int64_t streams, int64_t step, int64_t offset) {
    for (int64_t i = 0; i < streams; i++) prefetch(rows + i * step + offset);
}

// PAIR elements, or the first `count` of them and zeros.
template <class E, bool WHOLE>
MHC_INLINE Pair get(const char *from, int count) {
    if (WHOLE) return widen<E>(from);
    char padded[PAIR * 4] = {};
    memcpy(padded, from, (size_t)count * E::SIZE);
    return widen<E>(padded);
}

template <class E, bool WHOLE, bool STREAM>
MHC_INLINE void set(Pair v, char *to, int count) {
    if (WHOLE) {
        narrow<E, STREAM>(v, to);
        return;
    }
    char rounded[PAIR * 4];
    narrow<E, false>(v, rounded);
    memcpy(to, rounded, (size_t)count * E::SIZE);
}

// y = h_out + bias in columns from d.
template <class E, bool WHOLE>
MHC_INLINE Pair sublayer_output(const char *h_out, const float *bias, int64_t d, int count) {
    const Pair h = get<E, WHOLE>(h_out + d * E::SIZE, count);
    if (!bias) return h;
    const Pair b = get<F32, WHOLE>((const char *)(bias + d), count);
    return {h.a + canonical(b.a), h.b + canonical(b.b)};
}

MHC_INLINE Pair scale(float s, Pair v) { return {splat(s) * v.a, splat(s) * v.b}; }
MHC_INLINE Pair add_scaled(float s, Pair v, Pair to) {
    return {fma(splat(s), v.a, to.a), fma(splat(s), v.b, to.b)};
}

MHC_INLINE void copy_canonical(float *to, const float *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = canonical(from[i]);
}

}  // namespace MHC_ISA
}  // namespace mhc
