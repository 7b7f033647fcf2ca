"""The contract of MhcPost and MhcPostBackward, for every door: shapes, dtypes, devices, options."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

from torch import Tensor

from ...types import MhcPostBackward
from ..common.checking import Contract, check_streams, parameter_dtype, parse_wanted
from ..common.plans import Plans


class PostSizes(NamedTuple):
    """Sizes of one call: `lead` is x's leading dimensions, T their product."""

    lead: tuple[int, ...]
    T: int
    N: int
    D: int


def check_forward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    op: str = "mhc_post_forward",
) -> PostSizes:
    """Check the inputs of MhcPost and return the sizes."""
    sizes, _ = _check_inputs(op, x, h_res, h_out, h_post, bias)
    return sizes


def check_backward(
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    op: str = "mhc_post_backward",
) -> PostSizes:
    """Check the inputs of MhcPostBackward and return the sizes."""
    sizes, contract = _check_inputs(op, x, h_res, h_out, h_post, bias)
    contract.check("grad_out", grad_out, ("..", "N", "D"), x.dtype)
    return sizes


def check_wanted(wanted: Iterable[str] | None, bias: Tensor | None) -> tuple[bool, ...]:
    """Which of the five gradients to compute; grad_bias only where there is a bias."""
    flags = parse_wanted("mhc_post_backward", wanted, MhcPostBackward._fields)
    return computed(flags, bias)


def computed(wanted: Sequence[bool], bias: Tensor | None) -> tuple[bool, ...]:
    """`wanted`, less grad_bias where there is no bias."""
    return (*wanted[:4], wanted[4] and bias is not None)


def backward_layout(
    sizes: PostSizes, x: Tensor, h_post: Tensor, wanted: Sequence[bool]
) -> MhcPostBackward:
    """(shape, dtype) of every wanted gradient; None for the others."""
    lead, n, d, single = sizes.lead, sizes.N, sizes.D, h_post.dtype
    fields: Any = (
        ((*lead, n, d), x.dtype),
        ((*lead, n, n), single),
        ((*lead, d), x.dtype),
        ((*lead, n), single),
        ((d,), single),
    )
    return MhcPostBackward(*(f if w else None for f, w in zip(fields, wanted, strict=True)))


def _plan_forward(op: str, x: Tensor, *others: Any) -> tuple[PostSizes, Any]:
    return check_forward(*(x, *others, op)), (tuple(x.shape), x.dtype)


def _plan_backward(
    op: str, grad_out: Tensor, x: Tensor, *others: Any
) -> tuple[PostSizes, MhcPostBackward]:
    *tensors, wanted = others
    sizes = check_backward(*(grad_out, x, *tensors, op))
    return sizes, backward_layout(sizes, x, tensors[2], wanted)


plan_forward = Plans(_plan_forward)
plan_backward = Plans(_plan_backward)


def _check_inputs(
    op: str,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
) -> tuple[PostSizes, Contract]:
    check_streams(op, x)
    n, d = int(x.shape[-2]), x.shape[-1]  # N is structural: never a symbolic size
    lead, single = tuple(x.shape[:-2]), parameter_dtype(x)
    contract = Contract(op, x, lead, {"N": n, "D": d})
    if h_res is not None:
        contract.check("h_res", h_res, ("..", "N", "N"), single)
    contract.check("h_out", h_out, ("..", "D"), x.dtype)
    contract.check("h_post", h_post, ("..", "N"), single)
    if bias is not None:
        contract.check("bias", bias, ("D",), single)
    return PostSizes(lead, prod(lead), n, d), contract
