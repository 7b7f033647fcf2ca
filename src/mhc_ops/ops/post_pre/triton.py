"""The boundary of two sublayers on GPUs: the Triton kernels of post, then those of pre.

x_next goes through memory between the two, so that h_mix has the bits of the separate operators;
its gradient does so in float32. Limits as in those rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...types import (
    MhcPostBackward,
    MhcPostPreBackward,
    MhcPostPreForward,
    MhcPreBackward,
    MhcPreForward,
)
from ..common.outputs import fresh as fresh
from ..post import triton as post
from ..post.checks import PostSizes
from ..pre import triton as pre

if TYPE_CHECKING:
    from ..pre.checks import PreNumbers, PreSizes
    from .checks import BackwardInputs, ForwardInputs


def forward(
    sizes: PreSizes, given: ForwardInputs, numbers: PreNumbers, out: MhcPostPreForward
) -> None:
    """h_res receives the logits."""
    x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias = given
    post.forward(_post_sizes(sizes), x, h_res, h_out, h_post, out_bias, out.x_next)
    made = MhcPreForward(*out[1:])
    pre.forward(sizes, out.x_next, phi, alpha, bias, gamma, numbers, made)


def backward(
    sizes: PreSizes, given: BackwardInputs, numbers: PreNumbers, out: MhcPostPreBackward
) -> None:
    """grad_h_res_next holds the gradient of the logits."""
    reaches_x = any(grad is not None for grad in out[:5])
    grad_x_next = given.phi.new_empty(given.x_next.shape) if reaches_x else None
    pre.backward(
        sizes,
        given.x_next,
        given.phi,
        given.alpha,
        given.grad_h_in,
        given.grad_h_post_next,
        given.grad_h_res_next,
        given.inv_rms,
        given.h_mix,
        given.h_pre,
        given.h_post_next,
        given.gamma,
        given.grad_x_next,
        numbers,
        MhcPreBackward(grad_x_next, *out[5:]),
    )
    if grad_x_next is not None:
        post.backward(
            _post_sizes(sizes),
            grad_x_next,
            given.x,
            given.h_res,
            given.h_out,
            given.h_post,
            given.out_bias,
            MhcPostBackward(*out[:5]),
        )


def _post_sizes(sizes: PreSizes) -> PostSizes:
    return PostSizes(sizes.lead, sizes.T, sizes.N, sizes.D)
