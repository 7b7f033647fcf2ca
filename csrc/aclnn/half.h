// 16-bit floats to and from float32, rounded to nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

namespace aclnn {

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float bf16_to_float(uint16_t half) { return float_of(uint32_t(half) << 16); }

inline uint16_t float_to_bf16(float value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);  // NaN stays NaN
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float fp16_to_float(uint16_t half) {
    const uint32_t sign = uint32_t(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
}

inline uint16_t float_to_fp16(float value) {
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return uint16_t(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x47800000) return uint16_t(sign | 0x7c00);  // 2^16 and above
    if (size < 0x38800000) {                                 // below 2^-14: steps of 2^-24
        // Adding 1/2 leaves the multiple of 2^-24 in the low bits, rounded by the processor.
        return uint16_t(sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000));
    }
    return uint16_t(sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13));
}

}  // namespace aclnn
