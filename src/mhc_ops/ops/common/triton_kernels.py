"""Sums over tokens without atomics: each superblock from zero, then superblocks in order."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["T"])
def superblock_sum_kernel(
    rows, partial, T, W: tl.constexpr, BW: tl.constexpr, SUPERBLOCK: tl.constexpr
):
    """rows [T, W] -> partial [superblocks, W]."""
    BLOCKS: tl.constexpr = (W + BW - 1) // BW
    block = (tl.program_id(0) // BLOCKS).to(tl.int64)
    columns = tl.program_id(0) % BLOCKS * BW + tl.arange(0, BW)
    tokens = block * SUPERBLOCK + tl.arange(0, SUPERBLOCK)
    values = tl.load(
        rows + tokens[:, None] * W + columns[None, :],
        mask=(tokens < T)[:, None] & (columns < W)[None, :],
        other=0.0,
    )
    tl.store(partial + block * W + columns, tl.sum(values, 0), mask=columns < W)


@triton.jit(do_not_specialize=["count"])
def ordered_sum_kernel(partial, total, count, W: tl.constexpr, BW: tl.constexpr):
    """partial [count, W] -> total [W], the first row first."""
    columns = tl.program_id(0) * BW + tl.arange(0, BW)
    acc = tl.zeros([BW], tl.float32)
    row = partial
    for _ in range(count):
        acc += tl.load(row + columns, mask=columns < W, other=0.0)
        row += W
    tl.store(total + columns, acc, mask=columns < W)
