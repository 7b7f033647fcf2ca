"""First and second derivatives of the registered operators, and the Functions for torch.func.

The first derivative is torch.ops.mhc.permutation_mix_backward; what differentiates that once more
goes through reference.py. Nothing but the logits is saved.
"""

from typing import Any

from torch import Tensor

from ..common.registration import eager_function, vector_jacobian
from . import reference


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.impl = inputs[1] if len(inputs) > 1 else "auto"
    ctx.set_materialize_grads(False)


def differentiate_forward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
    (logits,) = ctx.saved_tensors
    return (None if grad is None else _backward(logits, grad, ctx.impl)), None


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.set_materialize_grads(False)


def differentiate_backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
    def written(logits: Tensor, grad_h_res: Tensor) -> tuple[Tensor]:
        return (reference.backward(logits, grad_h_res, grad_h_res.shape[-1]),)

    through = vector_jacobian(written, ctx.saved_tensors, ctx.needs_input_grad[:2], (grad,))
    return (*through, None)


permutation_mix_function = eager_function(
    "permutation_mix_forward", save_forward, differentiate_forward
)
_backward = eager_function("permutation_mix_backward", save_backward, differentiate_backward)
