"""MhcPost where each rank holds some channels of every token."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...ops.post.api import mhc_post_backward, mhc_post_forward
from ...types import Impl
from .collectives import Group, group_size, packed_sum, refuse_dtensors, settled


def mhc_post(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    *,
    group: Group,
    bias: Tensor | None = None,
    impl: str | Impl = "auto",
) -> Tensor:
    """Differentiable MhcPost on this rank's share of the channels; ranks hold equal shares.

    Same as mhc_ops.mhc_post of the whole, but that D/P channels of x, h_out and bias are here,
    where P is the size of `group`. Runs on that operator's kernels.

    Args:
        x: [.., N, D/P]. h_out: [.., D/P]. bias: [D/P] or None.
        h_res [.., N, N] as [from, to] or None, h_post [.., N]: whole, the same on every rank.
        group: the ranks that share the channels, a process group or a mesh of one dimension.
        impl: as in mhc_ops.mhc_post.

    Returns: the new x [.., N, D/P]; no communication.

    Gradients: of x, h_out and bias for this share; of h_res and h_post whole, the same bits on
    every rank. The backward all-reduces once, N*N + N numbers a token (N without h_res); it is in
    flight until the gates' gradients are used, which is after the sublayer's own backward. First
    derivatives only; torch.compile leaves the call between two graphs.

    Raises: as mhc_ops.mhc_post; ArgumentError for a group that is none.
    """
    op = "hidden_parallel.mhc_post"
    refuse_dtensors(op, x, h_res, h_out, h_post, bias)
    group_size(op, group)
    result: Tensor = _write(x, h_res, h_out, h_post, bias, impl, group)
    return result


class _WriteFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        x, h_res, h_out, h_post, bias, impl, group = args
        ctx.save_for_backward(*args[:5])
        ctx.impl, ctx.group = impl, group
        return mhc_post_forward(x, h_res, h_out, h_post, bias=bias, impl=impl)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, h_res, h_out, h_post, bias = ctx.saved_tensors
        names = ("x", "h_res", "h_out", "h_post", "bias")
        wanted = [n for n, need in zip(names, ctx.needs_input_grad[:5], strict=True) if need]
        grad_out: Any = settled(grad)
        found = mhc_post_backward(
            grad_out, x, h_res, h_out, h_post, bias, impl=ctx.impl, wanted=wanted
        )
        grad_h_res, grad_h_post = found.grad_h_res, found.grad_h_post
        if grad_h_res is not None and grad_h_post is not None:
            grad_h_res, grad_h_post = packed_sum([grad_h_res.flatten(-2), grad_h_post], ctx.group)
        elif grad_h_res is not None:
            (grad_h_res,) = packed_sum([grad_h_res.flatten(-2)], ctx.group)
        elif grad_h_post is not None:
            (grad_h_post,) = packed_sum([grad_h_post], ctx.group)
        if h_res is not None and grad_h_res is not None:
            grad_h_res = grad_h_res.unflatten(-1, h_res.shape[-2:])
        return found.grad_x, grad_h_res, found.grad_h_out, grad_h_post, found.grad_bias, None, None


_write: Any = torch.compiler.disable(_WriteFunction.apply)
