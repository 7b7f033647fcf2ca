"""The contract of StreamHead and its backward, for every door: shapes, dtypes, devices."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...types import StreamHeadBackward, StreamHeadForward
from ..common.checking import Contract, check_streams, parameter_dtype
from ..common.plans import Plans


def _plan_forward(op: str, x: Tensor, fn: Tensor, base: Tensor, scale: Tensor) -> StreamHeadForward:
    """Check the inputs; (shape, dtype) of every output."""
    contract = _check_inputs(op, x, fn, scale)
    contract.check("base", base, ("N",), fn.dtype)
    lead, n, single = contract.lead, contract.sizes["N"], fn.dtype
    fields: Any = (
        ((*lead, x.shape[-1]), x.dtype),
        (lead, single),
        ((*lead, n), single),
        ((*lead, n), single),
    )
    return StreamHeadForward(*fields)


def _plan_backward(
    op: str,
    x: Tensor,
    fn: Tensor,
    scale: Tensor,
    grad_h: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    wanted: Sequence[bool],
) -> StreamHeadBackward:
    """Check the inputs; (shape, dtype) of every wanted gradient, None for the others."""
    contract, single = _check_inputs(op, x, fn, scale), fn.dtype
    contract.check("grad_h", grad_h, ("..", "D"), x.dtype)
    contract.check("inv_rms", inv_rms, ("..",), single)
    contract.check("h_mix", h_mix, ("..", "N"), single)
    contract.check("h_pre", h_pre, ("..", "N"), single)
    fields: Any = (
        (tuple(x.shape), x.dtype),
        (tuple(fn.shape), single),
        ((contract.sizes["N"],), single),
        ((1,), single),
    )
    return StreamHeadBackward(*(f if w else None for f, w in zip(fields, wanted, strict=True)))


plan_forward = Plans(_plan_forward)
plan_backward = Plans(_plan_backward)


def _check_inputs(op: str, x: Tensor, fn: Tensor, scale: Tensor) -> Contract:
    check_streams(op, x)
    n, d = int(x.shape[-2]), x.shape[-1]
    contract = Contract(op, x, tuple(x.shape[:-2]), {"N": n, "D": d, "N*D": n * d})
    single = parameter_dtype(x)
    contract.check("fn", fn, ("N", "N*D"), single)
    contract.check("scale", scale, ("1",), single)
    return contract
