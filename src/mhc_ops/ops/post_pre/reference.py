"""The boundary of two sublayers as the composition of the references of its parts.

Any float dtype: 16-bit x is computed in float32, float64 x in float64. Between the two halves of
the backward the gradient of x_next keeps the dtype of the computation; README.md says what follows.
"""

from ...types import MhcPostPreBackward, MhcPostPreForward
from ..common.numerics import residual_logits
from ..post import reference as post
from ..pre import reference as pre
from ..pre.checks import PreNumbers
from ..sinkhorn import reference as sinkhorn
from ..sinkhorn.checks import SinkhornNumbers
from .checks import BackwardInputs, ForwardInputs


def forward(
    given: ForwardInputs, numbers: PreNumbers, normalised: SinkhornNumbers | None
) -> MhcPostPreForward:
    x_next = post.forward(given.x, given.h_res, given.h_out, given.h_post, given.out_bias)
    h_in, h_post, h_res, *saved = pre.forward(
        x_next, given.phi, given.alpha, given.bias, given.gamma, numbers
    )
    if normalised is not None and h_res is not None:
        h_res = sinkhorn.forward(h_res, normalised).h_res
    return MhcPostPreForward(x_next, h_in, h_post, h_res, *saved)


def backward(
    given: BackwardInputs, numbers: PreNumbers, normalised: SinkhornNumbers | None
) -> MhcPostPreBackward:
    grad_logits = given.grad_h_res_next
    if normalised is not None and grad_logits is not None:
        logits = residual_logits(given.h_mix, given.inv_rms, given.alpha, given.bias)
        grad_logits = sinkhorn.backward(logits, grad_logits, normalised)

    # In the dtype of the parameters, so that the gradient of x_next comes back unrounded.
    of_next = pre.backward(
        given.x_next.to(given.phi.dtype),
        given.phi,
        given.alpha,
        given.grad_h_in,
        given.grad_h_post_next,
        grad_logits,
        *(given.inv_rms, given.h_mix, given.h_pre, given.h_post_next),
        given.gamma,
        given.grad_x_next,
        numbers,
    )
    grad_x_next, *of_parameters = of_next
    assert grad_x_next is not None
    of_post = post.backward(
        grad_x_next, given.x, given.h_res, given.h_out, given.h_post, given.out_bias
    )
    return MhcPostPreBackward(*of_post, *of_parameters)
