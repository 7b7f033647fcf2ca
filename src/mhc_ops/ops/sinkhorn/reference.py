"""Sinkhorn and its backward in eager torch, in the order of the equations; the truth of this room.

float32 or float64. Plain differentiable torch operations only, so that autograd can go through it
any number of times. The derivation is in README.md.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...types import Sinkhorn
from ..common.numerics import ordered_sum
from .checks import SinkhornNumbers


class Step(NamedTuple):
    """One normalisation: h after it, along which dimension, what it divided by, and where that was
    not a clamp.
    """

    h: Tensor
    dim: int
    divisor: Tensor
    free: Tensor | None = None


def forward(logits: Tensor, numbers: SinkhornNumbers, return_defect: bool = False) -> Sinkhorn:
    _, steps = iterate(_oriented(logits, numbers), numbers)
    h_res = _oriented(steps[-1].h, numbers).contiguous()
    if not return_defect:
        return Sinkhorn(h_res, None, None)
    return Sinkhorn(h_res, defect(h_res.detach(), -1), defect(h_res.detach(), -2))


def backward(logits: Tensor, grad_h_res: Tensor, numbers: SinkhornNumbers) -> Tensor:
    weights, steps = iterate(_oriented(logits, numbers), numbers)
    # y is the gradient of log h, from the last step to the first.
    y = _oriented(grad_h_res, numbers) * steps[-1].h
    for h, dim, _, free in reversed(steps[1:]):
        total = ordered_sum(y, dim)
        if free is not None:
            total = torch.where(free, total, 0)
        y = y - h * total
    if _added(numbers):
        y = y * (weights / (weights + numbers.eps))
    y = y - weights * ordered_sum(y, -1)  # through the softmax
    return _oriented(y / numbers.temperature, numbers).contiguous()


def defect(h_res: Tensor, dim: int) -> Tensor:
    """The largest |sum - 1| of a token's sums along `dim`."""
    return (ordered_sum(h_res, dim) - 1).abs().amax((-1, -2))


def iterate(z: Tensor, numbers: SinkhornNumbers) -> tuple[Tensor, Sequence[Step]]:
    """The softmax of z / temperature, and all steps: its start, columns, (rows, columns), .."""
    top = z.detach().amax(-1, keepdim=True)  # any shift leaves the softmax as it is
    e = ((z - top) / numbers.temperature).exp()
    total = ordered_sum(e, -1)
    weights = e / total
    steps = [Step(weights + numbers.eps if _added(numbers) else weights, -1, total)]
    divide = _DIVIDE[numbers.eps_mode]
    for i in range(1, 2 * numbers.num_iters):
        dim = -2 if i % 2 else -1
        steps.append(divide(steps[-1].h, dim, numbers.eps))
    return weights, steps


def _divide_added(h: Tensor, dim: int, eps: float) -> Step:
    divisor = ordered_sum(h, dim) + eps
    return Step(h / divisor, dim, divisor)


def _divide_clamped(h: Tensor, dim: int, eps: float) -> Step:
    total = ordered_sum(h, dim)
    divisor = total.clamp(min=eps)
    return Step(h / divisor, dim, divisor, total >= eps)


def _divide(h: Tensor, dim: int, eps: float) -> Step:
    divisor = ordered_sum(h, dim)
    return Step(h / divisor, dim, divisor)


_DIVIDE: dict[str, Callable[[Tensor, int, float], Any]] = {
    "add": _divide_added,
    "clamp": _divide_clamped,
    "none": _divide,
}


def _added(numbers: SinkhornNumbers) -> bool:
    return numbers.eps_mode == "add" and numbers.eps > 0


def _oriented(t: Tensor, numbers: SinkhornNumbers) -> Tensor:
    """Rows last is columns last of the transposed matrix; twice is the identity."""
    return t if numbers.order == "columns_last" else t.transpose(-1, -2)
