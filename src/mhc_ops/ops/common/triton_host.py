"""What the rooms' triton.py share on the host: launches, the target, token strides, tiles.

Imported once impl="triton" is chosen; it needs the extra [gpu].
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Tile(NamedTuple):
    """Tokens and columns of one program's tile, and how it is compiled."""

    tokens: int
    columns: int
    warps: int = 4
    stages: int = 2


def launch(
    kernel: Any, grid: tuple[int], *args: Any, warps: int = 4, stages: int = 2, **constants: Any
) -> None:
    """Run a kernel without fused multiply-adds: rounding is then the written one on every target,
    and a superblock's sum has the same bits alone and inside a larger call.
    """
    kernel[grid](*args, **constants, num_warps=warps, num_stages=stages, enable_fp_fusion=False)


def on_device(x: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current device, which need not be the tensors'."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


@cache
def target(device: torch.device) -> str:
    """The row of the tables of tiles: "sm_80", "sm_90", "sm_100" or "gfx942".

    The nearest row below for other devices: consumer GPUs have 99 KiB of shared memory, which the
    tiles of sm_80 respect.
    """
    if device.type != "cuda":
        return "sm_80"  # the interpreter, which ignores how a tile is compiled
    if torch.version.hip is not None:
        return "gfx942"
    return {9: "sm_90", 10: "sm_100"}.get(torch.cuda.get_device_capability(device)[0], "sm_80")


@cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; 8 for the interpreter."""
    if device.type != "cuda":
        return 8
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def token_strides(lead: tuple[int, ...], t: Tensor) -> tuple[Tensor, int, int]:
    """A [*lead, D] or [*lead, N, D] tensor, and its strides from token to token and stream to
    stream (0 without streams).

    It is copied where its last dimension is not contiguous or tokens lie at no single stride.
    """
    dense_rows = t.shape[-1] == 1 or t.stride(-1) == 1
    one_step = len(lead) == 1 or lead[0] == 1 or t.stride(0) == lead[1] * t.stride(1)
    if not (dense_rows and one_step):
        t = t.contiguous()
    axis = len(lead) - 1
    stream = t.stride(axis + 1) if t.dim() == len(lead) + 2 else 0
    return t, t.stride(axis), stream


def pieces(dtype: torch.dtype) -> int:
    """How many bfloat16 numbers hold one number of this dtype exactly."""
    return {torch.bfloat16: 1, torch.float16: 2}.get(dtype, 3)


def stream_tile(streams: int, dim: int) -> Tile:
    """All streams of a few tokens, for kernels that go over a token's columns."""
    lanes = 1 << (streams - 1).bit_length()
    columns = min(max(16, 1 << (dim - 1).bit_length()), max(128, 4096 // lanes))
    return Tile(min(16, max(1, 4096 // (lanes * columns))), columns)


_CHUNK = 1024  # columns of every stream behind one sum over columns in post's backward


def column_chunk(tile: Tile, dim: int) -> int:
    """Equal parts of D, in whole tiles."""
    part = -(-dim // -(-dim // _CHUNK))
    return -(-part // tile.columns) * tile.columns
