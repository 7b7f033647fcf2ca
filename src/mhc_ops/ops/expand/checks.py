"""The contract of ExpandStreams: shapes, dtypes, the number of streams."""

from typing import Any, NamedTuple

from torch import Tensor

from ...errors import ArgumentError, DtypeError, ShapeError
from ..common.checking import X_DTYPES, check_is_tensor


class ExpandForward(NamedTuple):
    """The one output of the forward, as `out` tuples and layouts name it."""

    x: Any


class ExpandBackward(NamedTuple):
    """The one output of the backward."""

    grad_h: Any


def check_expand(op: str, h: Tensor, streams: int) -> ExpandForward:
    """Check the inputs; (shape, dtype) of the output."""
    check_is_tensor(op, "h", h)
    if h.dim() not in (2, 3):
        raise ShapeError(
            f"{op}: h must be [B, S, D] or [T, D], got {list(h.shape)}; "
            f"add or merge leading dimensions."
        )
    if h.dtype not in X_DTYPES:
        raise DtypeError(f"{op}: h must be bfloat16, float16, float32 or float64, got {h.dtype}.")
    if not isinstance(streams, int) or streams < 1:
        raise ArgumentError(f"{op}: streams must be an integer >= 1, got {streams!r}.")
    return ExpandForward(((*h.shape[:-1], streams, h.shape[-1]), h.dtype))
