// What both directions of MhcPre share: rows of strided tensors, tiles of 32 columns, the kernels'
// entry points.
#pragma once

#include "../../include/mhc_ops/mhc_ops.h"
#include "../micro.h"
#include "../team.h"

namespace mhc {
namespace MHC_ISA {

int pre_forward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                const mhc_pre_forward_in &in, const mhc_pre_forward_out &out, int threads);
int pre_backward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                 const mhc_pre_backward_in &in, const mhc_pre_backward_out &out, int threads);

constexpr int SUPERBLOCK = 256;             // tokens whose parameter gradients are summed from zero
constexpr int64_t CACHED_OUTPUT = 4 << 20;  // larger outputs are stored past the caches

MHC_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
MHC_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The columns that tile d covers: TILE but in the last one.
MHC_INLINE int tile_columns(int64_t D, int64_t tile) { return (int)least(TILE, D - tile * TILE); }

// Tokens as byte addresses; `inner` tokens lie step bytes apart, then the next outer row begins.
struct TokenRows {
    const char *base;
    int64_t inner, outer_step, inner_step, stream_step;

    TokenRows(const mhc_rows &r, int64_t inner, int size)
        : base((const char *)r.data),
          inner(inner),
          outer_step(r.outer * size),
          inner_step(r.inner * size),
          stream_step(r.stream * size) {}

    void fill(const char **rows, int64_t first, int count) const {
        int64_t o = first / inner, i = first % inner;
        for (int t = 0; t < count; t++) {
            rows[t] = base + o * outer_step + i * inner_step;
            if (++i == inner) i = 0, o++;
        }
    }
};

// One float32 row of a tile, zero beyond `columns`.
template <class E>
MHC_INLINE void load_row(float *to, const char *from, int columns) {
    char padded[TILE * 4];
    if (columns < TILE) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, from, (size_t)columns * E::SIZE);
        from = padded;
    }
    for (int p = 0; p < PASSES; p++) {
        const Pair v = widen<E>(from + p * PAIR * E::SIZE);
        store(to + p * PAIR, v.a);
        store(to + p * PAIR + LANES, v.b);
    }
}

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

// The plan of a workspace: pieces aligned to 64 bytes.
struct Workspace {
    char *data = nullptr;
    size_t size = 0;

    template <class V>
    size_t reserve(int64_t count) {
        const size_t at = size;
        size += ((size_t)count * sizeof(V) + 63) / 64 * 64;
        return at;
    }
    bool allocate() { return (data = (char *)workspace(size)) != nullptr; }
    template <class V>
    V *at(size_t offset) const {
        return (V *)(data + offset);
    }
};

}  // namespace MHC_ISA
}  // namespace mhc
