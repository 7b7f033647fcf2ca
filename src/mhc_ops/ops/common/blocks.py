"""Blocks of tokens: what keeps a torch-built implementation's float32 copies small."""

from collections.abc import Iterator

import torch
from torch import Tensor

from .numerics import SUPERBLOCK

_TOKENS_ON_CPU = 64  # a block of x stays in the L2 cache; divides SUPERBLOCK


def blocks(tokens: int, device: torch.device) -> Iterator[tuple[slice, bool]]:
    """Token ranges, each within one superblock, and whether it is the last of its superblock."""
    step = _TOKENS_ON_CPU if device.type == "cpu" else SUPERBLOCK
    for start in range(0, tokens, step):
        stop = min(start + step, tokens)
        yield slice(start, stop), stop % SUPERBLOCK == 0 or stop == tokens


def rows(t: Tensor, tokens: int) -> Tensor:
    """A contiguous output as [T, everything else]."""
    return t.view(tokens, -1) if tokens else t.view(0, 1)


def take(
    t: Tensor, tokens: slice, lead: tuple[int, ...], dtype: torch.dtype, multiple: int = 1
) -> Tensor:
    """Tokens of a strided [*lead, ...] tensor as a fresh block, zero rows up to a `multiple`."""
    tail = t.shape[len(lead) :]
    count = tokens.stop - tokens.start
    block = torch.empty(-(-count // multiple) * multiple, *tail, dtype=dtype, device=t.device)
    block[count:] = 0
    if len(lead) == 1:
        block[:count] = t[tokens]
        return block
    length, row, start = lead[1], 0, tokens.start
    while start < tokens.stop:
        batch, s = divmod(start, length)
        stop = min(tokens.stop, (batch + 1) * length)
        block[row : row + stop - start] = t[batch, s : s + stop - start]
        row, start = row + stop - start, stop
    return block
