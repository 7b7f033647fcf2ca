"""First and second derivatives of the registered operators, and the Functions behind mhc_post.

The first derivative is torch.ops.mhc.post_backward. Whatever differentiates that once more goes
through the written equations of reference.py, whichever implementation ran.
"""

from typing import Any

from torch import Tensor

from ..common.registration import eager_function, needed_inputs, vector_jacobian
from . import reference
from .calls import PostBackwardCall, PostForwardCall
from .checks import computed


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    call = PostForwardCall(*inputs)
    ctx.save_for_backward(*call[:5])
    ctx.impl = call.impl
    ctx.set_materialize_grads(False)


def differentiate_forward(ctx: Any, grad_out: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of x, h_res, h_out, h_post, bias, and None for the option."""
    if grad_out is None:
        return (None,) * 6
    x, h_res, h_out, h_post, bias = ctx.saved_tensors
    needed = needed_inputs(ctx, 5)
    # Without h_res the residual's gradient is grad_out itself: handed through, not copied.
    through = grad_out if needed[0] and h_res is None else None
    wanted = [needed[0] and through is None, *needed[1:]]
    if not any(wanted):
        return (through, *(None,) * 5)
    results = post_backward_function(grad_out, x, h_res, h_out, h_post, bias, ctx.impl, wanted)
    grads = [r if want else None for r, want in zip(results, wanted, strict=True)]
    return (grads[0] if through is None else through, *grads[1:], None)


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PostBackwardCall(*inputs)
    ctx.save_for_backward(*call[:6])
    ctx.computed = computed(call.wanted, call.bias)
    ctx.set_materialize_grads(False)


def differentiate_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    through = vector_jacobian(
        reference.backward,
        ctx.saved_tensors,
        needed_inputs(ctx, 6),
        [g if c else None for g, c in zip(grads, ctx.computed, strict=True)],
    )
    return (*through, None, None)


post_function = eager_function("post_forward", save_forward, differentiate_forward)
post_backward_function = eager_function("post_backward", save_backward, differentiate_backward)
