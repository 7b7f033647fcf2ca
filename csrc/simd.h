// Vectors of the instruction set this translation unit is compiled for, and the conversion of x's
// dtypes.
//
// Every kernel works on pairs of vectors (PAIR elements), for which this file has loads, stores
// with one rounding to nearest even, and stores past the caches. Each unit has its own namespace
// (MHC_ISA), so that the linker can never replace baseline code by AVX-512 code of the same name;
// no std template is used in these units for the same reason.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace mhc {
namespace MHC_ISA {

#if defined(__AVX512F__)
constexpr int LANES = 16;
constexpr bool MANY_REGISTERS = true;
#elif defined(__AVX2__)
constexpr int LANES = 8;
constexpr bool MANY_REGISTERS = false;
#else
constexpr int LANES = 4;
#if defined(__aarch64__)
constexpr bool MANY_REGISTERS = true;
#else
constexpr bool MANY_REGISTERS = false;
#endif
#endif
constexpr int PAIR = 2 * LANES;

#define MHC_INLINE inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu_memory __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef uint16_t vh __attribute__((vector_size(2 * LANES)));
typedef uint16_t vh_memory __attribute__((vector_size(2 * LANES), aligned(1), may_alias));

struct Pair {
    vf a, b;
};

MHC_INLINE vf splat(float s) { return s - vf{}; }
MHC_INLINE vf load(const float *p) { return *(const vf_memory *)p; }
MHC_INLINE void store(float *p, vf v) { *(vf_memory *)p = v; }
MHC_INLINE Pair load2(const float *p) { return {load(p), load(p + LANES)}; }

// a * b + c: one rounding wherever the processor can.
MHC_INLINE vf fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

// Lane i meets lane i + LANES/2, then i + LANES/4, and so on down to one.
MHC_INLINE float sum(vf v) {
#if defined(__x86_64__)
#if defined(__AVX512F__)
    const __m256 w = _mm512_castps512_ps256((__m512)v) + _mm512_extractf32x8_ps((__m512)v, 1);
    __m128 q = _mm256_castps256_ps128(w) + _mm256_extractf128_ps(w, 1);
#elif defined(__AVX2__)
    __m128 q = _mm256_castps256_ps128((__m256)v) + _mm256_extractf128_ps((__m256)v, 1);
#else
    __m128 q = (__m128)v;
#endif
    q += _mm_movehl_ps(q, q);
    return q[0] + q[1];
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// 10 fraction bits, ties away from zero; inf and NaN unchanged.
MHC_INLINE vf hf32(vf v) {
    const vu u = (vu)v;
    const vu rounded = (u + 0x1000u) & 0xFFFFE000u;
    return (vf)((u & 0x7F800000u) == 0x7F800000u ? u : rounded);
}
MHC_INLINE float hf32(float s) { return hf32(splat(s))[0]; }

// The one quiet NaN whose low bits are zero, so that rounding a float32 pattern can never carry out
// of it.
MHC_INLINE vf canonical(vf v) { return v == v ? v : splat(__builtin_nanf("")); }
MHC_INLINE float canonical(float s) { return s == s ? s : __builtin_nanf(""); }

struct F32 {
    static constexpr int SIZE = 4;
};
struct F16 {
    static constexpr int SIZE = 2;
};
struct BF16 {
    static constexpr int SIZE = 2;
};

#if !defined(__AVX2__) && !defined(__aarch64__)
// Exact for subnormals too: 2^112 moves the exponent bias from 15 to 127.
MHC_INLINE vf half_to_float(vu h) {
    const vu magnitude = (h & 0x7FFFu) << 13;
    const vu finite = (vu)((vf)magnitude * 0x1p112f);
    const vu special = magnitude | 0x7F800000u;
    return (vf)(((h & 0x7C00u) == 0x7C00u ? special : finite) | (h & 0x8000u) << 16);
}

MHC_INLINE vu float_to_half(vf v) {
    const vu sign = (vu)v & 0x80000000u, a = (vu)v ^ sign;
    const vu normal = (a - 0x38000000u + 0xFFFu + (a >> 13 & 1u)) >> 13;
    const vu subnormal = (vu)((vf)a + 0.5f) - 0x3F000000u;  // the addition rounds at 2^-24
    const vu over = a > 0x7F800000u ? vu{} + 0x7E00u : vu{} + 0x7C00u;
    return (a >= 0x47800000u ? over : a < 0x38800000u ? subnormal : normal) | sign >> 16;
}
#endif

template <class E>
MHC_INLINE Pair widen(const char *p);

template <>
MHC_INLINE Pair widen<F32>(const char *p) {
    return load2((const float *)p);
}

// Zero-extended 16-bit elements; GCC builds the conversion of a whole vector from halves if left to
// itself.
MHC_INLINE vu extend(vh h) {
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(__AVX2__)
    return (vu)_mm256_cvtepu16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, vu);
#endif
}

template <>
MHC_INLINE Pair widen<BF16>(const char *p) {
#if defined(__AVX512F__)
    // One shuffle a vector instead of an extension and a shift: the shuffles' pipes are scarce.
    static const uint16_t first[32] = {0, 0, 0, 1, 0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,
                                       0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
    const __m512i v = _mm512_loadu_si512(p), low = _mm512_loadu_si512(first);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __mmask32 odd = 0xAAAAAAAAu;
    return {(vf)_mm512_maskz_permutexvar_epi16(odd, low, v),
            (vf)_mm512_maskz_permutexvar_epi16(odd, high, v)};
#else
    const vh a = *(const vh_memory *)p, b = *(const vh_memory *)(p + 2 * LANES);
    return {(vf)(extend(a) << 16), (vf)(extend(b) << 16)};
#endif
}

template <>
MHC_INLINE Pair widen<F16>(const char *p) {
    const vh a = *(const vh_memory *)p, b = *(const vh_memory *)(p + 2 * LANES);
#if defined(__AVX512F__)
    return {(vf)_mm512_cvtph_ps((__m256i)a), (vf)_mm512_cvtph_ps((__m256i)b)};
#elif defined(__AVX2__)
    return {(vf)_mm256_cvtph_ps((__m128i)a), (vf)_mm256_cvtph_ps((__m128i)b)};
#elif defined(__aarch64__)
    return {vcvt_f32_f16((float16x4_t)a), vcvt_f32_f16((float16x4_t)b)};
#else
    return {half_to_float(extend(a)), half_to_float(extend(b))};
#endif
}

// The bit pattern of PAIR 16-bit elements.
struct Packed {
    vu bits;
};

MHC_INLINE Packed pack_bf16(Pair v) {
    // Integer rounding: vcvtneps2bf16 flushes subnormals. NaN operands are canonical (see
    // `canonical`; x-like tensors have zero low bits by nature), so a NaN stays one without a test.
    vu a = (vu)v.a, b = (vu)v.b;
    a += 0x7FFFu + (a >> 16 & 1u);
    b += 0x7FFFu + (b >> 16 & 1u);
#if defined(__AVX512F__)
    static const uint16_t odd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                     23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                     45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return {(vu)_mm512_permutex2var_epi16((__m512i)a, _mm512_loadu_si512(odd), (__m512i)b)};
#elif defined(__AVX2__)
    const __m256i high =
        _mm256_packs_epi32(_mm256_srai_epi32((__m256i)a, 16), _mm256_srai_epi32((__m256i)b, 16));
    return {(vu)_mm256_permute4x64_epi64(high, 0xD8)};
#elif defined(__aarch64__)
    return {(vu)vuzp2q_u16((uint16x8_t)a, (uint16x8_t)b)};
#else
    return {(vu)_mm_packs_epi32(_mm_srai_epi32((__m128i)a, 16), _mm_srai_epi32((__m128i)b, 16))};
#endif
}

MHC_INLINE Packed pack_f16(Pair v) {
#if defined(__AVX512F__)
    const __m256i a = _mm512_cvtps_ph((__m512)v.a, _MM_FROUND_TO_NEAREST_INT);
    const __m256i b = _mm512_cvtps_ph((__m512)v.b, _MM_FROUND_TO_NEAREST_INT);
    return {(vu)_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)};
#elif defined(__AVX2__)
    const __m128i a = _mm256_cvtps_ph((__m256)v.a, _MM_FROUND_TO_NEAREST_INT);
    const __m128i b = _mm256_cvtps_ph((__m256)v.b, _MM_FROUND_TO_NEAREST_INT);
    return {(vu)_mm256_set_m128i(b, a)};
#elif defined(__aarch64__)
    return {(vu)vcombine_f16(vcvt_f16_f32(v.a), vcvt_f16_f32(v.b))};
#else
    const __m128i a = (__m128i)(float_to_half(v.a) << 16), b = (__m128i)(float_to_half(v.b) << 16);
    return {(vu)_mm_packs_epi32(_mm_srai_epi32(a, 16), _mm_srai_epi32(b, 16))};
#endif
}

template <bool STREAM>
MHC_INLINE void put(char *p, vu v) {
    if (STREAM) {
#if defined(__AVX512F__)
        _mm512_stream_si512((__m512i *)p, (__m512i)v);
        return;
#elif defined(__AVX2__)
        _mm256_stream_si256((__m256i *)p, (__m256i)v);
        return;
#elif defined(__x86_64__)
        _mm_stream_si128((__m128i *)p, (__m128i)v);
        return;
#endif
    }
    *(vu_memory *)p = v;
}

// Round a pair to E and store it; STREAM goes past the caches and needs p aligned to the vector.
template <class E, bool STREAM>
MHC_INLINE void narrow(Pair v, char *p);

template <>
MHC_INLINE void narrow<F32, false>(Pair v, char *p) {
    put<false>(p, (vu)v.a);
    put<false>(p + 4 * LANES, (vu)v.b);
}
template <>
MHC_INLINE void narrow<F32, true>(Pair v, char *p) {
    put<true>(p, (vu)v.a);
    put<true>(p + 4 * LANES, (vu)v.b);
}
template <>
MHC_INLINE void narrow<F16, false>(Pair v, char *p) {
    put<false>(p, pack_f16(v).bits);
}
template <>
MHC_INLINE void narrow<F16, true>(Pair v, char *p) {
    put<true>(p, pack_f16(v).bits);
}
template <>
MHC_INLINE void narrow<BF16, false>(Pair v, char *p) {
    put<false>(p, pack_bf16(v).bits);
}
template <>
MHC_INLINE void narrow<BF16, true>(Pair v, char *p) {
    put<true>(p, pack_bf16(v).bits);
}

// Streaming stores become visible to other threads here.
MHC_INLINE void fence_streams() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

MHC_INLINE void prefetch(const char *p) { __builtin_prefetch(p, 0, 2); }

}  // namespace MHC_ISA
}  // namespace mhc
