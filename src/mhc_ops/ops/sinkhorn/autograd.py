"""First and second derivatives of the registered operators, and the Functions for torch.func.

The first derivative is torch.ops.mhc.sinkhorn_backward. Whatever differentiates that once more goes
through the written equations of reference.py, whichever implementation ran. Nothing but the logits
is saved. The defects are for watching, and carry no gradient.
"""

from typing import Any

from torch import Tensor

from ..common.registration import eager_function, vector_jacobian
from . import reference
from .calls import SinkhornBackwardCall, SinkhornForwardCall


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = SinkhornForwardCall(*inputs)
    ctx.save_for_backward(call.logits)
    ctx.numbers, ctx.impl = call.numbers, call.impl
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def differentiate_forward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    (logits,) = ctx.saved_tensors
    unused = (None,) * (len(SinkhornForwardCall._fields) - 1)
    if grads[0] is None:
        return (None, *unused)
    return (_sinkhorn_backward(logits, grads[0], *ctx.numbers, ctx.impl), *unused)


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    call = SinkhornBackwardCall(*inputs)
    ctx.save_for_backward(call.logits, call.grad_h_res)
    ctx.numbers = call.numbers
    ctx.set_materialize_grads(False)


def differentiate_backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    def written(logits: Tensor, grad_h_res: Tensor) -> tuple[Tensor]:
        return (reference.backward(logits, grad_h_res, ctx.numbers),)

    through = vector_jacobian(written, ctx.saved_tensors, ctx.needs_input_grad[:2], (grad,))
    return (*through, *(None,) * (len(SinkhornBackwardCall._fields) - 2))


sinkhorn_function = eager_function("sinkhorn_forward", save_forward, differentiate_forward)
_sinkhorn_backward = eager_function("sinkhorn_backward", save_backward, differentiate_backward)
