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
def ordered_sum_kernel(
    partial, total, count, W: tl.constexpr, GROUP: tl.constexpr, BW: tl.constexpr
):
    """partial [count, GROUP, W] -> total [W], the first row first; a group is added before."""
    columns = tl.program_id(0) * BW + tl.arange(0, BW)
    acc = tl.zeros([BW], tl.float32)
    row = partial
    for _ in range(count):
        of_group = tl.load(row + columns, mask=columns < W, other=0.0)
        for member in tl.static_range(1, GROUP):
            of_group += tl.load(row + member * W + columns, mask=columns < W, other=0.0)
        acc += of_group
        row += GROUP * W
    tl.store(total + columns, acc, mask=columns < W)


@triton.jit(do_not_specialize=["size"])
def split_sum_kernel(partial, total, size, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """partial [SPLITS, size] -> total [size], the first row first."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.load(partial + at, mask=at < size, other=0.0)
    for piece in range(1, SPLITS):
        acc += tl.load(partial + tl.cast(size, tl.int64) * piece + at, mask=at < size, other=0.0)
    tl.store(total + at, acc, mask=at < size)
