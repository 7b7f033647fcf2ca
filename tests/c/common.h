/* What the test programs of operators on x share: drawing tensors, one rounding as the tolerance. */
#ifndef MHC_TESTS_COMMON_H
#define MHC_TESTS_COMMON_H

#include "check.h"

static void *memory(int64_t bytes) { return malloc((size_t)(bytes ? bytes : 1)); }

/* bf16 draws have 8 bits: they are exact floats cut short. fp16 is tested from Python. */
static void *draw(mhc_dtype dtype, int64_t count) {
    float *data = memory(count * 4);
    for (int64_t i = 0; i < count; i++) data[i] = uniform();
    if (dtype == MHC_FLOAT32) return data;
    uint16_t *cut = memory(count * 2);
    for (int64_t i = 0; i < count; i++) {
        uint32_t u;
        memcpy(&u, data + i, 4);
        cut[i] = (uint16_t)(u >> 16);
    }
    free(data);
    return cut;
}

static double element(const void *data, mhc_dtype dtype, int64_t i) {
    if (dtype == MHC_FLOAT32) return ((const float *)data)[i];
    const uint32_t u = (uint32_t)((const uint16_t *)data)[i] << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* |got - want| beyond one rounding of want and a few of float32 at the magnitude `size`. */
static int near(double got, double want, double size, int half, int64_t terms) {
    const double own = half ? ldexp(1, -8) : ldexp(1, -24);
    return fabs(got - want) <= own * fabs(want) + (4 + sqrt((double)terms)) * ldexp(size, -24);
}

#endif
