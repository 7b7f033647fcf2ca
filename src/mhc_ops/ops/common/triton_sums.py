"""Sums over tokens without atomics: each superblock from zero, then superblocks in order."""

import triton
from torch import Tensor

from .numerics import SUPERBLOCK
from .triton_host import launch
from .triton_kernels import ordered_sum_kernel, superblock_sum_kernel


def ordered_sum(partial: Tensor, total: Tensor) -> None:
    """partial [superblocks, ...] -> total [...]."""
    width = total.numel()
    block = min(1024, max(32, triton.next_power_of_2(width)))
    grid = (triton.cdiv(width, block),)
    launch(ordered_sum_kernel, grid, partial, total, len(partial), W=width, BW=block)


def token_sum(rows: Tensor, total: Tensor) -> None:
    """rows [T, W] -> total [W]."""
    tokens, width = rows.shape
    superblocks = triton.cdiv(tokens, SUPERBLOCK)
    partial = rows.new_empty(superblocks, width)
    block = min(32, max(4, triton.next_power_of_2(width)))
    grid = (superblocks * triton.cdiv(width, block),)
    launch(
        superblock_sum_kernel,
        grid,
        *(rows, partial, tokens),
        W=width,
        BW=block,
        SUPERBLOCK=SUPERBLOCK,
    )
    ordered_sum(partial, total)
