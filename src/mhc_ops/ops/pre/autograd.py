"""First and second derivatives of the registered operators, and the Function behind mhc_pre.

The first derivative is torch.ops.mhc.pre_backward. Whatever differentiates that once more goes
through the written equations of reference.py, whichever implementation ran.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..common.registration import (
    eager_function,
    handing_on_function,
    needed_inputs,
    vector_jacobian,
)
from . import reference
from .calls import PreBackwardCall
from .checks import PreNumbers


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, h_post, _, inv_rms, h_mix, h_pre = output
    ctx.save_for_backward(*inputs[:5], inv_rms, h_mix, h_pre, h_post)
    ctx.numbers, ctx.impl = inputs[5:11], inputs[11]
    ctx.set_materialize_grads(False)


def differentiate_forward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*pre_gradients(ctx, grads, None), *(None,) * 7)


def pre_gradients(
    ctx: Any, grads: Sequence[Tensor | None], grad_x_post: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of x, phi, alpha, bias, gamma from those of the six outputs and of the handed-on x.

    `ctx` is one that save_forward filled. None stands for zero on both sides.
    """
    x, phi, alpha, bias, gamma, inv_rms, h_mix, h_pre, h_post = ctx.saved_tensors
    inputs, needed = (x, phi, alpha, bias, gamma), needed_inputs(ctx, 5)
    grad_h_in, grad_h_post, grad_h_res, *grads_of_saved = grads
    if len(alpha) == 2:
        grad_h_res = None
    if any(g is not None for g in grads_of_saved):  # second derivatives, or a loss on saved tensors
        written = partial(reference.forward, numbers=PreNumbers(*ctx.numbers))
        upstream = (grad_h_in, grad_h_post, grad_h_res, *grads_of_saved)
        return written_gradients(written, inputs, needed, upstream, grad_x_post)
    if all(g is None for g in grads):
        return (grad_x_post if needed[0] else None, None, None, None, None)
    grad_h_in, grad_h_post, grad_h_res = zeros_for_unused(
        x, phi, alpha, h_post, grad_h_in, grad_h_post, grad_h_res
    )
    results = pre_backward_function(
        x,
        phi,
        alpha,
        grad_h_in,
        grad_h_post,
        grad_h_res,
        inv_rms,
        h_mix,
        h_pre,
        h_post,
        gamma,
        grad_x_post,
        *ctx.numbers,
        ctx.impl,
        needed,
    )
    return tuple(r if need else None for r, need in zip(results, needed, strict=True))


def written_gradients(
    written: Callable[..., Sequence[Tensor | None]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
    grad_x_post: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """Gradients through the written equations, and that of the handed-on x on top of x's."""
    through = vector_jacobian(written, inputs, needed, grads)
    if grad_x_post is not None and needed[0]:
        through[0] = grad_x_post if through[0] is None else through[0] + grad_x_post
    return tuple(through)


def zeros_for_unused(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    h_post: Tensor,
    grad_h_in: Tensor | None,
    grad_h_post: Tensor | None,
    grad_h_res: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The three gradients that MhcPreBackward takes; None stays where there is no residual part."""
    if grad_h_in is None:
        grad_h_in = torch.zeros_like(x[..., 0, :])
    if grad_h_post is None:
        grad_h_post = torch.zeros_like(h_post)
    if len(alpha) == 3 and grad_h_res is None:
        n = x.shape[-2]
        residual = len(phi) - 2 * n
        tail = (n, n) if residual == n * n else (residual,)
        grad_h_res = h_post.new_zeros(*x.shape[:-2], *tail)
    return grad_h_in, grad_h_post, grad_h_res


pre_function = handing_on_function("pre_forward", save_forward, pre_gradients)


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PreBackwardCall(*inputs)
    ctx.save_for_backward(*call.tensors)
    ctx.numbers, ctx.computed = call.numbers, call.computed
    ctx.set_materialize_grads(False)


def differentiate_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    through = vector_jacobian(
        partial(reference.backward, numbers=ctx.numbers),
        ctx.saved_tensors,
        needed_inputs(ctx, 12),
        [g if c else None for g, c in zip(grads, ctx.computed, strict=True)],
    )
    return (*through, *(None,) * 8)


pre_backward_function = eager_function("pre_backward", save_backward, differentiate_backward)
