"""Sums over tokens without atomics: each superblock from zero, then superblocks in order."""

import triton
from torch import Tensor

from .numerics import SUPERBLOCK
from .triton_host import launch
from .triton_kernels import ordered_sum_kernel, split_sum_kernel, superblock_sum_kernel


def ordered_sum(partial: Tensor, total: Tensor, group: int = 1) -> None:
    """partial [superblocks * group, ...] -> total [...]; each superblock's group is added first."""
    width = total.numel()
    block = min(1024, max(32, triton.next_power_of_2(width)))
    launch(
        ordered_sum_kernel,
        (triton.cdiv(width, block),),
        *(partial, total, len(partial) // group),
        W=width,
        GROUP=group,
        BW=block,
    )


def split_sum(partial: Tensor, total: Tensor) -> None:
    """partial [splits, ...] -> total [...], whose size may be large and changes with T."""
    launch(
        split_sum_kernel,
        (triton.cdiv(total.numel(), 1024),),
        *(partial, total, total.numel()),
        SPLITS=len(partial),
        BLOCK=1024,
    )


def token_sum(rows: Tensor, total: Tensor, superblock: int = SUPERBLOCK) -> None:
    """rows [T, W] -> total [W]; `superblock` rows hold 256 tokens."""
    tokens, width = rows.shape
    superblocks = triton.cdiv(tokens, superblock)
    partial = rows.new_empty(superblocks, width)
    block = min(32, max(4, triton.next_power_of_2(width)))
    grid = (superblocks * triton.cdiv(width, block),)
    launch(
        superblock_sum_kernel,
        grid,
        *(rows, partial, tokens),
        W=width,
        BW=block,
        SUPERBLOCK=superblock,
    )
    ordered_sum(partial, total)
