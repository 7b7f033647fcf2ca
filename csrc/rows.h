// What the kernels of every operator share: rows of strided tensors, tiles of 32 columns, the plan
// of a workspace.
#pragma once

#include "../include/mhc_ops/mhc_ops.h"
#include "micro.h"
#include "team.h"

namespace mhc {
namespace MHC_ISA {

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
