"""The contract of MhcPreSinkhorn and its backward: that of MhcPre, with N*N residual rows."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ...convention import Convention
from ...errors import ArgumentError
from ...types import MhcPreBackward, MhcPreSinkhornForward
from ..common.checking import Contract
from ..common.plans import Plans
from ..pre import checks as pre
from ..pre.checks import PreNumbers, PreSizes, pre_numbers
from ..sinkhorn.checks import SinkhornNumbers, of_rows, sinkhorn_numbers

FORWARD = "mhc_pre_sinkhorn_forward"
BACKWARD = "mhc_pre_sinkhorn_backward"

Numbers = tuple[PreNumbers, SinkhornNumbers]


def pre_sinkhorn_numbers(
    op: str,
    norm_eps: float,
    hc_eps: float,
    post_eps: float,
    num_iters: int,
    eps: float,
    eps_mode: str,
    order: str,
    temperature: float,
    precision: str,
    convention: Convention | None,
) -> Numbers:
    """Merge all options with a convention; Sinkhorn's are for logits as they lie in phi's rows."""
    options = sinkhorn_numbers(op, num_iters, eps, eps_mode, order, temperature, convention)
    gates = pre_numbers(op, norm_eps, hc_eps, post_eps, precision, convention)
    return gates, of_rows(options, convention)


def check_forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    op: str = FORWARD,
) -> PreSizes:
    """Check the inputs of MhcPreSinkhorn and return the sizes."""
    sizes = pre.check_forward(x, phi, alpha, bias, gamma, op)
    _check_residual(op, sizes)
    return sizes


def check_backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    op: str = BACKWARD,
) -> PreSizes:
    """Check the inputs of MhcPreSinkhorn's backward and return the sizes."""
    sizes = check_forward(x, phi, alpha, bias, gamma, op)
    saved = (inv_rms, h_mix, h_pre, h_post)
    grads = (grad_h_in, grad_h_post, grad_h_res)
    pre.check_backward(x, phi, alpha, *grads, *saved, gamma, grad_x_post, op)
    square = Contract(op, x, sizes.lead, {"N": sizes.N})  # at N = 1 MhcPre takes [.., 1] too
    square.check("grad_h_res", grad_h_res, ("..", "N", "N"), phi.dtype)
    return sizes


def check_wanted(wanted: Iterable[str] | None, gamma: Tensor | None) -> tuple[bool, ...]:
    return pre.check_wanted(wanted, gamma, BACKWARD)


def forward_layout(sizes: PreSizes, x: Tensor, phi: Tensor) -> MhcPreSinkhornForward:
    """(shape, dtype) of every output of MhcPreSinkhorn: those of MhcPre."""
    fields: Any = pre.forward_layout(sizes, x, phi)
    return MhcPreSinkhornForward(*fields)


def _plan_forward(
    op: str, x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor | None
) -> tuple[PreSizes, MhcPreSinkhornForward]:
    sizes = check_forward(x, phi, alpha, bias, gamma, op)
    return sizes, forward_layout(sizes, x, phi)


def _plan_backward(
    op: str, x: Tensor, phi: Tensor, alpha: Tensor, *others: Any
) -> tuple[PreSizes, MhcPreBackward]:
    *tensors, wanted = others
    sizes = check_backward(*(x, phi, alpha, *tensors, op))
    return sizes, pre.backward_layout(sizes, x, phi, alpha, wanted)


plan_forward = Plans(_plan_forward)
plan_backward = Plans(_plan_backward)


def _check_residual(op: str, sizes: PreSizes) -> None:
    if sizes.R == 0:
        raise ArgumentError(
            f"{op}: alpha must be [3] because Sinkhorn needs residual logits, got [2]; use mhc_pre."
        )
    if sizes.R != sizes.N * sizes.N:
        raise ArgumentError(
            f"{op}: phi must have 2N + N*N = {2 * sizes.N + sizes.N * sizes.N} rows, got "
            f"{sizes.F} (2N + N!, one logit a permutation); use mhc_pre and permutation_mix."
        )
