"""The public doors of ExpandStreams, plain torch on any device: one copy, and one sum back."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..common.checking import check_out, check_streams
from ..common.forward_mode import forward_mode_is_on
from ..common.memory import may_overlap
from ..common.numerics import stream_sum
from ..common.outputs import hand_over, refuse_out
from .checks import ExpandBackward, check_expand


def expand_streams(h: Tensor, streams: int) -> Tensor:
    """Start `streams` residual streams as copies of h.

    Same as: h[..., None, :].expand(*h.shape[:-1], streams, h.shape[-1]).contiguous()

    Args:     h: [B, S, D] or [T, D]; bfloat16, float16, float32 or float64, any strides.
              streams: N >= 1.
    Returns:  x [.., N, D] as h. Its gradient is summed over the streams in float32 (float64 for
              float64 h), stream 0 first, and rounded once. Differentiable any number of times.
    Raises:   ShapeError, DtypeError, ArgumentError (all ValueError).
    """
    check_expand("expand_streams", h, streams)
    # Dynamo traces a Function only with gradients; plain torch carries tangents and exports.
    plain = torch.compiler.is_compiling() and not h.requires_grad
    if torch.is_grad_enabled() and not (plain or forward_mode_is_on()):
        result: Tensor = _expand_function(h, streams)
        return result
    return _copies(h, streams)


def expand_streams_forward(
    h: Tensor, streams: int, *, out: Sequence[Tensor | None] | None = None
) -> Tensor:
    """The bare operator. Arguments, value and errors as in expand_streams.

    out: tuple of one tensor to write into; UnsupportedError where it meets autograd or
    torch.compile.
    """
    op = "expand_streams_forward"
    layout = check_expand(op, h, streams)
    if out is None:
        return expand_streams(h, streams)
    refuse_out(op, h)
    check_out(op, out, layout, h)
    target = out[0]
    if target is None:
        return _copies(h, streams)
    return target.copy_((h.clone() if may_overlap(target, h) else h).unsqueeze(-2))


def expand_streams_backward(
    grad_x: Tensor, *, out: Sequence[Tensor | None] | None = None
) -> Tensor:
    """Gradient of h from that of x: the sum over the streams.

    Same as: grad_x.float().sum(-2).to(grad_x.dtype), stream 0 first, rounded once

    Args:     grad_x: [B, S, N, D] or [T, N, D]; bfloat16, float16, float32 or float64, any strides.
              out: tuple of one tensor to write into.
    Returns:  grad_h [.., D] as grad_x. Differentiable any number of times.
    Raises:   ShapeError, DtypeError, ArgumentError (all ValueError); UnsupportedError where `out`
              meets autograd or torch.compile.
    """
    op = "expand_streams_backward"
    check_streams(op, grad_x, "grad_x")
    if out is not None:
        refuse_out(op, grad_x)
        shape = (*grad_x.shape[:-2], grad_x.shape[-1])
        check_out(op, out, ExpandBackward((shape, grad_x.dtype)), grad_x)
    alone = grad_x.shape[-2] == 1  # whose sum would be grad_x's own memory
    total = stream_sum(grad_x).to(grad_x.dtype, copy=alone).contiguous()
    result: Tensor = hand_over([total], out)[0]
    return result


def _copies(h: Tensor, streams: int) -> Tensor:
    return h.unsqueeze(-2).repeat(*(1,) * (h.dim() - 1), streams, 1)


class _ExpandFunction(torch.autograd.Function):
    """Torch's own gradient of the copy would sum 16-bit gradients in an order of its choice."""

    generate_vmap_rule = True

    @staticmethod
    def forward(h: Tensor, streams: int) -> Tensor:
        return _copies(h, streams)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Nothing is saved."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return stream_sum(grads[0]).to(grads[0].dtype), None


_expand_function: Any = _ExpandFunction.apply
