"""Sinkhorn and its backward in torch operations over blocks of tokens, on any device.

Tokens lie innermost, [N, N, tokens], so that every operation runs over all tokens of a block. Extra
memory, whatever T is: a few copies of one block, and in the backward the iterates of one block.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ...types import Sinkhorn
from ..common.numerics import TILE
from ..common.outputs import fresh as fresh
from .checks import SinkhornBackward, SinkhornNumbers, SinkhornSizes

_TOKENS_ON_CPU = 4096  # at N = 4 a block of float32 weights takes 256 KiB and stays in L2
_TOKENS = 1 << 16
_HISTORY = 1 << 25  # most numbers in a block's iterates


class _Step(NamedTuple):
    """One normalisation: h after it, its dimension (0 columns, 1 rows), where it is unclamped."""

    h: Tensor  # [N, N, tokens]
    dim: int
    free: Tensor | None


def forward(sizes: SinkhornSizes, logits: Tensor, numbers: SinkhornNumbers, out: Sinkhorn) -> None:
    for tokens in _blocks(sizes, numbers, logits.device, history=False):
        weights = _softmax(_take(logits, tokens, sizes, numbers), numbers)
        h = _lifted(weights, numbers)
        for step in _steps(h, numbers):
            h = step.h
        _put(out.h_res, tokens, sizes, numbers, h)
        columns, rows = ((_sum(h, dim) - 1).abs().amax(0) for dim in (0, 1))
        if numbers.order == "rows_last":
            columns, rows = rows, columns
        count = tokens.stop - tokens.start
        for defect, found in ((out.row_defect, rows), (out.column_defect, columns)):
            if defect is not None:
                defect.view(-1)[tokens] = found[:count]


def backward(
    sizes: SinkhornSizes,
    logits: Tensor,
    grad_h_res: Tensor,
    numbers: SinkhornNumbers,
    out: SinkhornBackward,
) -> None:
    for tokens in _blocks(sizes, numbers, logits.device, history=True):
        weights = _softmax(_take(logits, tokens, sizes, numbers), numbers)
        lifted = _lifted(weights, numbers)
        steps = list(_steps(lifted, numbers))
        # y is the gradient of log h, from the last step to the first.
        y = _take(grad_h_res, tokens, sizes, numbers) * (steps[-1].h if steps else lifted)
        for h, dim, free in reversed(steps):
            total = _sum(y, dim)
            if free is not None:
                total = torch.where(free, total, 0)
            y -= h * total.unsqueeze(dim)
        if numbers.eps_mode == "add":
            y *= weights / lifted
        y -= weights * _sum(y, 1)[:, None]
        _put(out.grad_logits, tokens, sizes, numbers, y / numbers.temperature)


def _steps(h: Tensor, numbers: SinkhornNumbers) -> Iterator[_Step]:
    """Columns, then rows and columns in turn."""
    for i in range(1, 2 * numbers.num_iters):
        dim = (i + 1) % 2
        total = _sum(h, dim)
        free = None
        if numbers.eps_mode == "add":
            total += numbers.eps
        elif numbers.eps_mode == "clamp":
            free = total >= numbers.eps
            total = total.clamp(min=numbers.eps)
        h = h / total.unsqueeze(dim)
        yield _Step(h, dim, free)


def _softmax(z: Tensor, numbers: SinkhornNumbers) -> Tensor:
    """softmax of z / temperature along dimension 1 of [N, N, tokens]."""
    e = ((z - z.amax(1, keepdim=True)) / numbers.temperature).exp()
    return e / _sum(e, 1)[:, None]


def _lifted(weights: Tensor, numbers: SinkhornNumbers) -> Tensor:
    return weights + numbers.eps if numbers.eps_mode == "add" else weights


def _sum(t: Tensor, dim: int) -> Tensor:
    """[N, N, tokens] summed along dimension 0 or 1, ascending."""
    first, *rest = t.unbind(dim)
    total = first.clone()
    for part in rest:
        total += part
    return total


def _blocks(
    sizes: SinkhornSizes, numbers: SinkhornNumbers, device: torch.device, history: bool
) -> Iterator[slice]:
    step = _TOKENS_ON_CPU if device.type == "cpu" else _TOKENS
    if history:
        per_token = 2 * (numbers.num_iters + 1) * sizes.N * sizes.N
        step = max(TILE, min(step, _HISTORY // per_token // TILE * TILE))
    for start in range(0, sizes.T, step):
        yield slice(start, min(start + step, sizes.T))


def _take(t: Tensor, tokens: slice, sizes: SinkhornSizes, numbers: SinkhornNumbers) -> Tensor:
    """Tokens of a [*lead, N, N] tensor as [N, N, tokens], zeros up to whole tiles.

    Rows last is columns last of the transposed matrix.
    """
    part = t.reshape(sizes.T, sizes.N, sizes.N)[tokens]
    order = (1, 2, 0) if numbers.order == "columns_last" else (2, 1, 0)
    block = t.new_zeros(sizes.N, sizes.N, -(-len(part) // TILE) * TILE)
    block[..., : len(part)] = part.permute(order)
    return block


def _put(
    to: Tensor, tokens: slice, sizes: SinkhornSizes, numbers: SinkhornNumbers, block: Tensor
) -> None:
    count = tokens.stop - tokens.start
    order = (2, 0, 1) if numbers.order == "columns_last" else (2, 1, 0)
    to.view(sizes.T, sizes.N, sizes.N)[tokens] = block[..., :count].permute(order)
