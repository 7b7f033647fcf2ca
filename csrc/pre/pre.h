// What both directions of MhcPre share: the entry points, and phi by tiles.
#pragma once

#include "../rows.h"

namespace mhc {
namespace MHC_ISA {

int pre_forward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                const mhc_pre_forward_in &in, const mhc_pre_forward_out &out, int threads);
int pre_backward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                 const mhc_pre_backward_in &in, const mhc_pre_backward_out &out, int threads);

// The tile of phi that belongs to stream n and columns from d: to[f][TILE], times gamma (NULL: 1),
// or in hf32.
MHC_INLINE void pack_phi(float *to, int64_t ld, const mhc_pre_sizes &s, const float *phi,
                         const float *gamma, int64_t n, int64_t tile, bool round) {
    const int64_t at = n * s.dim + tile * TILE;
    const int columns = tile_columns(s.dim, tile);
    float scale[TILE] = {};
    if (gamma) load_row<F32>(scale, (const char *)(gamma + at), columns);
    for (int64_t f = 0; f < s.rows; f++) {
        float *row = to + f * ld;
        load_row<F32>(row, (const char *)(phi + f * s.streams * s.dim + at), columns);
        for (int j = 0; j < TILE; j += LANES) {
            const vf v = load(row + j);
            store(row + j, canonical(round ? hf32(v) : gamma ? v * load(scale + j) : v));
        }
    }
}

}  // namespace MHC_ISA
}  // namespace mhc
