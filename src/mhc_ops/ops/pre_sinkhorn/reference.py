"""MhcPreSinkhorn and its backward in eager torch: the two references, one after the other.

Any float dtype. Plain differentiable torch operations only, so that autograd can go through it any
number of times. README.md says what joins the two.
"""

from torch import Tensor

from ...types import MhcPreBackward, MhcPreSinkhornForward
from ..common.numerics import residual_logits
from ..pre import reference as pre
from ..sinkhorn import reference as sinkhorn
from .checks import Numbers


def forward(
    x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor | None, numbers: Numbers
) -> MhcPreSinkhornForward:
    gates, options = numbers
    h_in, h_post, logits, *saved = pre.forward(x, phi, alpha, bias, gamma, gates)
    assert logits is not None
    return MhcPreSinkhornForward(h_in, h_post, sinkhorn.forward(logits, options).h_res, *saved)


def backward(
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
    numbers: Numbers,
) -> MhcPreBackward:
    gates, options = numbers
    logits = residual_logits(h_mix, inv_rms, alpha, bias)
    grad_logits = sinkhorn.backward(logits, grad_h_res, options)
    grads = (grad_h_in, grad_h_post, grad_logits)
    saved = (inv_rms, h_mix, h_pre, h_post)
    return pre.backward(x, phi, alpha, *grads, *saved, gamma, grad_x_post, gates)
