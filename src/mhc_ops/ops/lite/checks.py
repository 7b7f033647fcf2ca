"""The contract of permutation_mix and its backward, for every door: shapes, dtypes, devices."""

from math import factorial, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import DtypeError, ShapeError
from ..common.checking import Contract, check_is_tensor
from ..common.plans import Plans

MOST_STREAMS = 6
_STREAMS = {factorial(n): n for n in range(1, MOST_STREAMS + 1)}
_DTYPES = (torch.float32, torch.float64)


class LiteSizes(NamedTuple):
    """Sizes of one call: `lead` is what stands before N! in logits, T its product."""

    lead: tuple[int, ...]
    T: int
    N: int
    R: int  # N!


class LiteForward(NamedTuple):
    """The one output of the forward, as `out` tuples and layouts name it."""

    h_res: Any


class LiteBackward(NamedTuple):
    """The one output of the backward."""

    grad_logits: Any


def check_forward(logits: Tensor, op: str = "permutation_mix_forward") -> LiteSizes:
    """Check what the forward is given; the sizes of the call."""
    check_is_tensor(op, "logits", logits)
    rows = int(logits.shape[-1]) if logits.dim() else 0  # structural: never a symbolic size
    if rows not in _STREAMS:
        sizes = ", ".join(str(size) for size in _STREAMS)
        raise ShapeError(
            f"{op}: logits must be [.., N!] with N in 1..{MOST_STREAMS} (N! one of {sizes}), "
            f"got {list(logits.shape)}."
        )
    if logits.dtype not in _DTYPES:
        raise DtypeError(
            f"{op}: logits must be float32 or float64, got {logits.dtype}; "
            f"cast it with .to(torch.float32)."
        )
    lead = tuple(logits.shape[:-1])
    return LiteSizes(lead, prod(lead), _STREAMS[rows], rows)


def check_backward(
    logits: Tensor, grad_h_res: Tensor, op: str = "permutation_mix_backward"
) -> LiteSizes:
    """Check what the backward is given; the sizes of the call."""
    sizes = check_forward(logits, op)
    contract = Contract(op, logits, sizes.lead, {"N": sizes.N}, subject="logits")
    contract.check("grad_h_res", grad_h_res, ("..", "N", "N"), logits.dtype)
    return sizes


def forward_layout(sizes: LiteSizes, logits: Tensor) -> LiteForward:
    return LiteForward(((*sizes.lead, sizes.N, sizes.N), logits.dtype))


def backward_layout(sizes: LiteSizes, logits: Tensor) -> LiteBackward:
    return LiteBackward(((*sizes.lead, sizes.R), logits.dtype))


def _plan_forward(op: str, logits: Tensor) -> tuple[LiteSizes, LiteForward]:
    sizes = check_forward(logits, op)
    return sizes, forward_layout(sizes, logits)


def _plan_backward(op: str, logits: Tensor, grad_h_res: Tensor) -> tuple[LiteSizes, LiteBackward]:
    sizes = check_backward(logits, grad_h_res, op)
    return sizes, backward_layout(sizes, logits)


plan_forward = Plans(_plan_forward)
plan_backward = Plans(_plan_backward)
