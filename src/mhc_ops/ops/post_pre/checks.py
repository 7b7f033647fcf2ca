"""The contract of the boundary of two sublayers: shapes, dtypes, devices, options."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...convention import Convention
from ...errors import ArgumentError
from ...types import MhcPostPreBackward, MhcPostPreForward
from ..common.checking import Contract, parameter_dtype, parse_wanted
from ..post.checks import check_forward as check_post
from ..pre.checks import PreSizes, forward_layout
from ..pre.checks import check_backward as check_pre_backward
from ..pre.checks import check_forward as check_pre
from ..sinkhorn.checks import SinkhornNumbers, of_rows, sinkhorn_numbers

_DEFAULTS = SinkhornNumbers()
_NAMES = {
    "grad_h_post": "grad_h_post_next",
    "grad_h_res": "grad_h_res_next",
    "h_post": "h_post_next",
    "grad_x_post": "grad_x_next",
}


class ForwardInputs(NamedTuple):
    """The tensors of one call, in the order in which the registered operator takes them."""

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None
    out_bias: Tensor | None


class BackwardInputs(NamedTuple):
    """The tensors of one backward call; "next" marks what belongs to the next sublayer."""

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    grad_x_next: Tensor | None
    grad_h_in: Tensor
    grad_h_post_next: Tensor
    grad_h_res_next: Tensor | None
    x_next: Tensor
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor
    h_post_next: Tensor
    gamma: Tensor | None
    out_bias: Tensor | None


def sinkhorn_options(
    op: str,
    num_iters: int | None,
    eps: float,
    eps_mode: str,
    order: str,
    temperature: float,
    convention: Convention | None,
) -> SinkhornNumbers | None:
    """What turns the next sublayer's logits into h_res; None leaves them as they are.

    Merged with a convention, and for logits as they lie in phi's rows.
    """
    if num_iters is not None:
        numbers = sinkhorn_numbers(op, num_iters, eps, eps_mode, order, temperature, convention)
        return of_rows(numbers, convention)
    given = {"eps": eps, "eps_mode": eps_mode, "order": order, "temperature": temperature}
    for name, value in given.items():
        if value != getattr(_DEFAULTS, name):
            raise ArgumentError(
                f"{op}: {name}={value!r} has no effect because num_iters=None leaves the logits "
                f"as they are; give num_iters."
            )
    return None


def check_forward(
    given: ForwardInputs, sinkhorn: SinkhornNumbers | None, op: str = "mhc_post_pre_forward"
) -> PreSizes:
    """Check the inputs of the forward and return the sizes."""
    check_post(given.x, given.h_res, given.h_out, given.h_post, None, op)
    sizes = check_pre(given.x, given.phi, given.alpha, given.bias, given.gamma, op)
    _check_rest(op, given, sizes, sinkhorn)
    return sizes


def check_backward(
    given: BackwardInputs, sinkhorn: SinkhornNumbers | None, op: str = "mhc_post_pre_backward"
) -> PreSizes:
    """Check the inputs of the backward and return the sizes."""
    check_post(given.x, given.h_res, given.h_out, given.h_post, None, op)
    sizes = check_pre_backward(
        given.x,
        given.phi,
        given.alpha,
        given.grad_h_in,
        given.grad_h_post_next,
        given.grad_h_res_next,
        *(given.inv_rms, given.h_mix, given.h_pre, given.h_post_next),
        given.gamma,
        given.grad_x_next,
        op,
        _NAMES,
    )
    contract = _check_rest(op, given, sizes, sinkhorn)
    contract.check("bias", given.bias, ("F",), parameter_dtype(given.x))
    contract.check("x_next", given.x_next, ("..", "N", "D"), given.x.dtype)
    if sinkhorn is not None and given.grad_h_res_next is not None:
        square = ("..", "N", "N")
        contract.check("grad_h_res_next", given.grad_h_res_next, square, given.phi.dtype)
    return sizes


def check_wanted(
    wanted: Iterable[str] | None, gamma: Tensor | None, out_bias: Tensor | None
) -> tuple[bool, ...]:
    """Which of the nine gradients to compute; names with or without their "grad_"."""
    flags = parse_wanted("mhc_post_pre_backward", wanted, MhcPostPreBackward._fields)
    return computed(flags, gamma, out_bias)


def computed(
    wanted: Sequence[bool], gamma: Tensor | None, out_bias: Tensor | None
) -> tuple[bool, ...]:
    """`wanted`, less the gradients of absent tensors."""
    with_bias, with_gamma = wanted[4] and out_bias is not None, wanted[8] and gamma is not None
    return (*wanted[:4], with_bias, *wanted[5:8], with_gamma)


def outputs_layout(sizes: PreSizes, given: ForwardInputs) -> MhcPostPreForward:
    """(shape, dtype) of every output; None for an absent h_res."""
    of_x: Any = (tuple(given.x.shape), given.x.dtype)
    return MhcPostPreForward(of_x, *forward_layout(sizes, given.x, given.phi))


def gradients_layout(
    sizes: PreSizes, given: BackwardInputs, wanted: Sequence[bool]
) -> MhcPostPreBackward:
    """(shape, dtype) of every wanted gradient; None for the others."""
    lead, n, d, x, single = sizes.lead, sizes.N, sizes.D, given.x.dtype, given.phi.dtype
    fields: Any = (
        ((*lead, n, d), x),
        ((*lead, n, n), single),
        ((*lead, d), x),
        ((*lead, n), single),
        ((d,), single),
        ((sizes.F, n * d), single),
        (tuple(given.alpha.shape), single),
        ((sizes.F,), single),
        ((n, d), single),
    )
    return MhcPostPreBackward(*(f if w else None for f, w in zip(fields, wanted, strict=True)))


def _check_rest(
    op: str,
    given: ForwardInputs | BackwardInputs,
    sizes: PreSizes,
    sinkhorn: SinkhornNumbers | None,
) -> Contract:
    contract = Contract(op, given.x, sizes.lead, {"N": sizes.N, "D": sizes.D, "F": sizes.F})
    if given.out_bias is not None:
        contract.check("out_bias", given.out_bias, ("D",), parameter_dtype(given.x))
    if sinkhorn is not None and sizes.R != sizes.N * sizes.N:
        raise ArgumentError(
            f"{op}: num_iters must be None because phi has {sizes.R} residual rows, and Sinkhorn "
            f"takes N*N = {sizes.N * sizes.N}; got {sinkhorn.num_iters}."
        )
    return contract
