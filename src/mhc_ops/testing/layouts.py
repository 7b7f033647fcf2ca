"""Views that hold a tensor's values in other memory layouts, with NaN in the gaps they have."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def strided(t: Tensor) -> Tensor:
    """The same values with stride 2 in the last dimension."""
    room = _nan(*t.shape, 2, like=t)
    view = room[..., 1]
    return view.copy_(t)


def padded(t: Tensor) -> Tensor:
    """The same values as a column slice of a wider tensor: the last stride is 1, rows have gaps."""
    if not t.ndim:
        return offset(t)
    width = t.shape[-1]
    room = _nan(*t.shape[:-1], width + 5, like=t)
    view = room[..., 3 : 3 + width]
    return view.copy_(t)


def transposed(t: Tensor) -> Tensor:
    """The same values with the dimensions in reverse order in memory."""
    backwards = tuple(reversed(range(t.ndim)))
    return t.permute(backwards).contiguous().permute(backwards)


def offset(t: Tensor) -> Tensor:
    """The same values, dense, one element into its storage: aligned to the element size only."""
    room = _nan(t.numel() + 1, like=t)
    view = room[1:].view(t.shape)
    return view.copy_(t)


def expanded(t: Tensor) -> Tensor:
    """The first entry of the first dimension, repeated with stride 0. These are other values than
    t's: compare with `.contiguous()` of the result."""
    return t[:1].expand_as(t)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": strided,
    "padded": padded,
    "transposed": transposed,
    "offset": offset,
}
"""Every layout that keeps a tensor's values, by name."""


def _nan(*shape: int, like: Tensor) -> Tensor:
    return torch.full(shape, math.nan, dtype=like.dtype, device=like.device)
