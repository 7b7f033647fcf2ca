"""First and second derivatives of the registered operators, and the Functions for torch.func.

The first derivative is torch.ops.mhc.sinkhorn_backward. Whatever differentiates that once more goes
through the written equations of reference.py, whichever implementation ran. Nothing but the logits
is saved. The defects are for watching, and carry no gradient.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..common.registration import vector_jacobian
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


class _SinkhornFunction(torch.autograd.Function):
    """sinkhorn_forward for torch.func, which cannot see into an operator's autograd."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        return tuple(torch.ops.mhc.sinkhorn_forward(*args))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        save_forward(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        return differentiate_forward(ctx, *grads)


class _SinkhornBackwardFunction(torch.autograd.Function):
    """sinkhorn_backward for torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Tensor:
        return torch.ops.mhc.sinkhorn_backward(*args)  # type: ignore[no-any-return]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_backward(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        return differentiate_backward(ctx, grad)


# Function.apply is untyped in torch.
sinkhorn_function: Callable[..., Any] = _SinkhornFunction.apply
_sinkhorn_backward_function: Callable[..., Any] = _SinkhornBackwardFunction.apply


def _sinkhorn_backward(*args: Any) -> Any:
    if torch.compiler.is_compiling():
        return torch.ops.mhc.sinkhorn_backward(*args)
    return _sinkhorn_backward_function(*args)
