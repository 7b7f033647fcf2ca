"""The boundary of two sublayers in torch operations over blocks of tokens, on any device.

Extra memory, whatever T is: what post and pre take for a block, and in the backward a superblock of
x_next and of its gradient in float32.
"""

from typing import Any

import torch

from ...types import (
    MhcPostBackward,
    MhcPostPreBackward,
    MhcPostPreForward,
    MhcPreBackward,
    MhcPreForward,
)
from ..common.blocks import rows, take
from ..common.numerics import SUPERBLOCK
from ..common.outputs import fresh as fresh
from ..post import blocked as post
from ..post.checks import PostSizes
from ..pre import blocked as pre
from ..pre.checks import PreNumbers, PreSizes
from .checks import BackwardInputs, ForwardInputs

_PARAMETERS = ("phi", "alpha", "bias", "gamma", "out_bias")


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
    flat = [None if t is None else rows(t, sizes.T) for t in out[:4]]
    partial = [None if t is None else torch.empty_like(t) for t in out[4:]]
    totals = [t for t in out[4:] if t is not None]
    for total in totals:
        total.zero_()
    reaches_x = any(t is not None for t in out[:5])
    for start in range(0, sizes.T, SUPERBLOCK):
        tokens = slice(start, min(start + SUPERBLOCK, sizes.T))
        part = sizes._replace(lead=(tokens.stop - start,), T=tokens.stop - start)
        block = _superblock(given, tokens, sizes)
        grad_x_next = torch.empty_like(block.x_next) if reaches_x else None
        pre.backward(
            part,
            block.x_next,
            block.phi,
            block.alpha,
            block.grad_h_in,
            block.grad_h_post_next,
            block.grad_h_res_next,
            block.inv_rms,
            block.h_mix,
            block.h_pre,
            block.h_post_next,
            block.gamma,
            block.grad_x_next,
            numbers,
            MhcPreBackward(grad_x_next, *partial[1:]),
        )
        if grad_x_next is not None:
            x, h_res, h_out, h_post, *_ = block
            made = [None if t is None else t[tokens] for t in flat]
            post.backward(
                _post_sizes(part),
                grad_x_next,
                x,
                h_res,
                h_out,
                h_post,
                block.out_bias,
                MhcPostBackward(*(*made, partial[0])),
            )
        for total, addend in zip(totals, (t for t in partial if t is not None), strict=True):
            total += addend


def _superblock(given: BackwardInputs, tokens: slice, sizes: PreSizes) -> BackwardInputs:
    """The same inputs for a range of tokens, in the dtype of the computation."""
    taken: Any = (
        t if t is None or name in _PARAMETERS else take(t, tokens, sizes.lead, given.phi.dtype)
        for name, t in zip(given._fields, given, strict=True)
    )
    return BackwardInputs(*taken)


def _post_sizes(sizes: PreSizes) -> PostSizes:
    return PostSizes(sizes.lead, sizes.T, sizes.N, sizes.D)
