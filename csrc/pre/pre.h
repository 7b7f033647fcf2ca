// What both directions of MhcPre share: the entry points, and rows of phi.
#pragma once

#include "../rows.h"

namespace mhc {
namespace MHC_ISA {

int pre_forward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                const mhc_pre_forward_in &in, const mhc_pre_forward_out &out, int threads);
int pre_backward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                 const mhc_pre_backward_in &in, const mhc_pre_backward_out &out, int threads);

// One row of a tile of phi: to[TILE], times gamma (NULL: 1), or in hf32.
MHC_INLINE void pack_row(float *to, const float *phi, const float *gamma, int columns, bool round) {
    float padded[2][TILE];
    if (columns < TILE) {
        load_row<F32>(padded[0], (const char *)phi, columns);
        if (gamma) load_row<F32>(padded[1], (const char *)gamma, columns);
        phi = padded[0], gamma = gamma ? padded[1] : nullptr;
    }
    for (int j = 0; j < TILE; j += LANES) {
        const vf v = load(phi + j);
        store(to + j, canonical(round ? hf32(v) : gamma ? v * load(gamma + j) : v));
    }
}

}  // namespace MHC_ISA
}  // namespace mhc
