"""First and second derivatives of the registered operators, and the Function behind the public one.

The first derivative is torch.ops.mhc.pre_sinkhorn_backward, or pre_backward where h_res is not
used. Whatever differentiates that once more goes through the written equations of reference.py.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor

from ..common.registration import (
    eager_function,
    handing_on_function,
    needed_inputs,
    vector_jacobian,
)
from ..pre.autograd import pre_backward_function, written_gradients, zeros_for_unused
from . import reference
from .calls import PreSinkhornBackwardCall, numbers_of


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, h_post, _, inv_rms, h_mix, h_pre = output
    ctx.save_for_backward(*inputs[:5], inv_rms, h_mix, h_pre, h_post)
    ctx.numbers, ctx.impl = inputs[5:16], inputs[16]
    ctx.set_materialize_grads(False)


def differentiate_forward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*pre_sinkhorn_gradients(ctx, grads, None), *(None,) * 12)


def pre_sinkhorn_gradients(
    ctx: Any, grads: Sequence[Tensor | None], grad_x_post: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of x, phi, alpha, bias, gamma from those of the six outputs and of the handed-on x.

    `ctx` is one that save_forward filled. None stands for zero on both sides.
    """
    x, phi, alpha, bias, gamma, inv_rms, h_mix, h_pre, h_post = ctx.saved_tensors
    inputs, needed = (x, phi, alpha, bias, gamma), needed_inputs(ctx, 5)
    grad_h_in, grad_h_post, grad_h_res, *grads_of_saved = grads
    if any(g is not None for g in grads_of_saved):  # second derivatives, or a loss on saved tensors
        written = partial(reference.forward, numbers=numbers_of(ctx.numbers))
        return written_gradients(written, inputs, needed, grads, grad_x_post)
    if all(g is None for g in grads):
        return (grad_x_post if needed[0] else None, None, None, None, None)
    used = grad_h_res is not None
    upstream = zeros_for_unused(x, phi, alpha, h_post, grad_h_in, grad_h_post, grad_h_res)
    saved = (inv_rms, h_mix, h_pre, h_post, gamma, grad_x_post)
    if used:
        results = _pre_sinkhorn_backward(
            *(x, phi, alpha, bias, *upstream, *saved, *ctx.numbers, ctx.impl, list(needed))
        )
    else:
        results = pre_backward_function(
            *(x, phi, alpha, *upstream, *saved, *ctx.numbers[:6], ctx.impl, list(needed))
        )
    return tuple(r if need else None for r, need in zip(results, needed, strict=True))


pre_sinkhorn_function = handing_on_function(
    "pre_sinkhorn_forward", save_forward, pre_sinkhorn_gradients
)


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PreSinkhornBackwardCall(*inputs)
    ctx.save_for_backward(*call.tensors)
    ctx.numbers, ctx.computed = call.numbers, call.computed
    ctx.set_materialize_grads(False)


def differentiate_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    through = vector_jacobian(
        partial(reference.backward, numbers=ctx.numbers),
        ctx.saved_tensors,
        needed_inputs(ctx, 13),
        [g if c else None for g, c in zip(grads, ctx.computed, strict=True)],
    )
    return (*through, *(None,) * 13)


_pre_sinkhorn_backward = eager_function(
    "pre_sinkhorn_backward", save_backward, differentiate_backward
)
