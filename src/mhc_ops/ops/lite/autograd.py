"""First and second derivatives of the registered operators, and the Functions for torch.func.

The first derivative is torch.ops.mhc.permutation_mix_backward; what differentiates that once more
goes through reference.py. Nothing but the logits is saved.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..common.registration import vector_jacobian
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


class _ForwardFunction(torch.autograd.Function):
    """permutation_mix_forward for torch.func, which cannot see into an operator's autograd."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Tensor:
        return torch.ops.mhc.permutation_mix_forward(*args)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_forward(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:
        return differentiate_forward(ctx, grad)


class _BackwardFunction(torch.autograd.Function):
    """permutation_mix_backward for torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Tensor:
        return torch.ops.mhc.permutation_mix_backward(*args)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_backward(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        return differentiate_backward(ctx, grad)


# Function.apply is untyped in torch.
permutation_mix_function: Callable[..., Any] = _ForwardFunction.apply
_backward_function: Callable[..., Any] = _BackwardFunction.apply


def _backward(*args: Any) -> Any:
    if torch.compiler.is_compiling():
        return torch.ops.mhc.permutation_mix_backward(*args)
    return _backward_function(*args)
