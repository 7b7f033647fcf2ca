"""The contract of sinkhorn and its backward, for every door: shapes, dtypes, devices, options."""

from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...convention import Convention
from ...domains import check_sinkhorn_options
from ...errors import DtypeError, ShapeError
from ...types import Sinkhorn
from ..common.checking import Contract, check_is_tensor
from ..common.conventions import merge
from ..common.plans import Plans

NUM_ITERS = 20
EPS = 1e-6
EPS_MODE = "add"
ORDER = "columns_last"
TEMPERATURE = 1.0
_DTYPES = (torch.float32, torch.float64)


class SinkhornSizes(NamedTuple):
    """Sizes of one call: `lead` is what stands before [N, N] in logits, T its product."""

    lead: tuple[int, ...]
    T: int
    N: int


class SinkhornNumbers(NamedTuple):
    """The options of one call, in the order in which the registered operators take them."""

    num_iters: int = NUM_ITERS
    eps: float = EPS
    eps_mode: str = EPS_MODE
    order: str = ORDER
    temperature: float = TEMPERATURE


class SinkhornBackward(NamedTuple):
    """The one output of the backward, as `out` tuples and layouts name it."""

    grad_logits: Any


def sinkhorn_numbers(
    op: str,
    num_iters: int,
    eps: float,
    eps_mode: str,
    order: str,
    temperature: float,
    convention: Convention | None = None,
) -> SinkhornNumbers:
    """Check the options and merge them with a convention; an eps of 0 is no eps, in every mode."""
    check_sinkhorn_options(op, num_iters, eps, eps_mode, order, temperature)
    numbers = SinkhornNumbers(
        *merge(
            op,
            convention,
            (
                ("num_iters", "num_iters", num_iters, NUM_ITERS),
                ("eps", "sinkhorn_eps", eps, EPS),
                ("eps_mode", "eps_mode", eps_mode, EPS_MODE),
                ("order", "order", order, ORDER),
                ("temperature", "temperature", temperature, TEMPERATURE),
            ),
        )
    )
    if numbers.eps_mode == "none" or numbers.eps == 0:
        return SinkhornNumbers(numbers.num_iters, 0.0, "none", numbers.order, numbers.temperature)
    return numbers


def of_rows(numbers: SinkhornNumbers, convention: Convention | None) -> SinkhornNumbers:
    """The options for logits that lie as the convention's rows of phi do.

    Where those are [to, from], an order of [from, to] goes by its other name.
    """
    if convention is None or convention.res_rows == "from_to":
        return numbers
    other = "rows_last" if numbers.order == "columns_last" else "columns_last"
    num_iters, eps, eps_mode, _, temperature = numbers  # not _replace: torch 2.7 cannot trace it
    return SinkhornNumbers(num_iters, eps, eps_mode, other, temperature)


def check_forward(logits: Tensor, op: str = "sinkhorn_forward") -> SinkhornSizes:
    """Check what the forward is given; the sizes of the call."""
    check_is_tensor(op, "logits", logits)
    if logits.dim() < 2 or logits.shape[-1] != logits.shape[-2]:
        raise ShapeError(
            f"{op}: logits must be [.., N, N] as [from, to], got {list(logits.shape)}; "
            f"unflatten a last dimension of N*N."
        )
    if logits.shape[-1] < 1:
        raise ShapeError(f"{op}: logits must have N >= 1, got {list(logits.shape)}.")
    if logits.dtype not in _DTYPES:
        raise DtypeError(
            f"{op}: logits must be float32 or float64, got {logits.dtype}; "
            f"cast it with .to(torch.float32)."
        )
    lead = tuple(logits.shape[:-2])
    return SinkhornSizes(lead, prod(lead), int(logits.shape[-1]))


def check_backward(
    logits: Tensor, grad_h_res: Tensor, op: str = "sinkhorn_backward"
) -> SinkhornSizes:
    """Check what the backward is given; the sizes of the call."""
    sizes = check_forward(logits, op)
    contract = Contract(op, logits, sizes.lead, {"N": sizes.N}, subject="logits")
    contract.check("grad_h_res", grad_h_res, ("..", "N", "N"), logits.dtype)
    return sizes


def forward_layout(sizes: SinkhornSizes, logits: Tensor, return_defect: bool) -> Sinkhorn:
    """(shape, dtype) of every output; None for defects that are not asked for."""
    defect = (sizes.lead, logits.dtype) if return_defect else None
    fields: Any = (((*sizes.lead, sizes.N, sizes.N), logits.dtype), defect, defect)
    return Sinkhorn(*fields)


def backward_layout(sizes: SinkhornSizes, logits: Tensor) -> SinkhornBackward:
    return SinkhornBackward(((*sizes.lead, sizes.N, sizes.N), logits.dtype))


def _plan_forward(op: str, logits: Tensor, defect: bool) -> tuple[SinkhornSizes, Sinkhorn]:
    sizes = check_forward(logits, op)
    return sizes, forward_layout(sizes, logits, defect)


def _plan_backward(
    op: str, logits: Tensor, grad_h_res: Tensor
) -> tuple[SinkhornSizes, SinkhornBackward]:
    sizes = check_backward(logits, grad_h_res, op)
    return sizes, backward_layout(sizes, logits)


plan_forward = Plans(_plan_forward)
plan_backward = Plans(_plan_backward)
