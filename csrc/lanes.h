// Arithmetic of the operators that keep TOKENS tokens in the lanes of a Pair: no sum crosses lanes.
#pragma once

#include "simd.h"

namespace mhc {
namespace MHC_ISA {

typedef int32_t vi __attribute__((vector_size(4 * LANES)));

constexpr int TOKENS = PAIR;  // of one group

MHC_INLINE Pair operator+(Pair x, Pair y) { return {x.a + y.a, x.b + y.b}; }
MHC_INLINE Pair operator-(Pair x, Pair y) { return {x.a - y.a, x.b - y.b}; }
MHC_INLINE Pair operator*(Pair x, Pair y) { return {x.a * y.a, x.b * y.b}; }
MHC_INLINE Pair operator/(Pair x, Pair y) { return {x.a / y.a, x.b / y.b}; }
MHC_INLINE Pair both(float s) { return {splat(s), splat(s)}; }
MHC_INLINE Pair fma(Pair x, Pair y, Pair z) { return {fma(x.a, y.a, z.a), fma(x.b, y.b, z.b)}; }
// z - x * y
MHC_INLINE Pair fnma(Pair x, Pair y, Pair z) { return {fma(-x.a, y.a, z.a), fma(-x.b, y.b, z.b)}; }
MHC_INLINE vf larger(vf x, vf y) { return (x > y) | (x != x) ? x : y; }  // NaN wins
MHC_INLINE Pair larger(Pair x, Pair y) { return {larger(x.a, y.a), larger(x.b, y.b)}; }
MHC_INLINE vf magnitude(vf v) { return (vf)((vu)v & 0x7FFFFFFFu); }

// 1 / d for a normal d, within an ulp.
MHC_INLINE vf inverse(vf d) {
#if defined(__AVX512F__)
    const vf r = (vf)_mm512_rcp14_ps((__m512)d);
    return fma(r, fma(-d, r, splat(1)), r);
#else
    return splat(1) / d;
#endif
}
MHC_INLINE Pair inverse(Pair d) { return {inverse(d.a), inverse(d.b)}; }

// exp of x <= 0 within an ulp, subnormal results included; exp(-inf) = 0, NaN stays.
MHC_INLINE vf exp_negative(vf x) {
    x = x < splat(-105) ? splat(-105) : x;
    const vf magic = splat(0x1.8p23f);  // adding it rounds to a whole number in the low bits
    const vf shifted = fma(x, splat(1.44269504088896341f), magic), n = shifted - magic;
    const vf r = (x - n * splat(0.693359375f)) - n * splat(-2.12194440e-4f);
    vf p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = fma(p, r * r, r) + splat(1);
    const vi power = (vi)shifted - (vi)magic, half = power >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((power - half + 127) << 23);
}
MHC_INLINE Pair exp_negative(Pair x) { return {exp_negative(x.a), exp_negative(x.b)}; }

}  // namespace MHC_ISA
}  // namespace mhc
