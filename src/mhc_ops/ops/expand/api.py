"""The public door of ExpandStreams, plain torch on any device: one copy, and one sum back."""

from typing import Any

import torch
from torch import Tensor

from ...errors import ArgumentError, DtypeError, ShapeError
from ..common.checking import X_DTYPES, check_is_tensor
from ..common.forward_mode import forward_mode_is_on
from ..common.numerics import stream_sum


def expand_streams(h: Tensor, streams: int) -> Tensor:
    """Start `streams` residual streams as copies of h.

    Same as: h[..., None, :].expand(*h.shape[:-1], streams, h.shape[-1]).contiguous()

    Args:     h: [B, S, D] or [T, D]; bfloat16, float16, float32 or float64, any strides.
              streams: N >= 1.
    Returns:  x [.., N, D] as h. Its gradient is summed over the streams in float32 (float64 for
              float64 h), stream 0 first, and rounded once. Differentiable any number of times.
    Raises:   ShapeError, DtypeError, ArgumentError (all ValueError).
    """
    check_is_tensor("expand_streams", "h", h)
    if h.dim() not in (2, 3):
        raise ShapeError(
            f"expand_streams: h must be [B, S, D] or [T, D], got {list(h.shape)}; "
            f"add or merge leading dimensions."
        )
    if h.dtype not in X_DTYPES:
        raise DtypeError(
            f"expand_streams: h must be bfloat16, float16, float32 or float64, got {h.dtype}."
        )
    if not isinstance(streams, int) or streams < 1:
        raise ArgumentError(f"expand_streams: streams must be an integer >= 1, got {streams!r}.")
    # Dynamo traces a Function only with gradients; plain torch carries tangents and exports.
    plain = torch.compiler.is_compiling() and not h.requires_grad
    if torch.is_grad_enabled() and not (plain or forward_mode_is_on()):
        result: Tensor = _expand_function(h, streams)
        return result
    return _copies(h, streams)


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
