"""Calling the operators of torch_npu and cann_ops_transformer by their published names.

Written from the published signatures and checked against a stand-in with those names; it has never
run on an NPU.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from ...errors import UnsupportedError

DTYPES = (torch.bfloat16, torch.float16)
STREAMS = (4, 6, 8)


def fresh(like: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An empty tensor for an output."""
    return like.new_empty(shape, dtype=dtype)


@cache
def is_missing() -> str | None:
    """Why torch_npu cannot be used, or None."""
    try:
        import_module("torch_npu")
    except ImportError as error:
        return (
            f"torch_npu cannot be imported ({error}); install it for this torch, with the CANN "
            f"toolkit: pip install 'mhc-ops[npu]'"
        )
    return None


def of_torch_npu(name: str) -> Callable[..., Any]:
    """An operator of torch_npu. Raises UnsupportedError where this version has none."""
    return _named(name, import_module("torch_npu"), "torch_npu")


def of_cann_ops(name: str) -> Callable[..., Any]:
    """An operator that cann_ops_transformer registers with torch."""
    return _named(name, torch.ops.cann_ops_transformer, "torch.ops.cann_ops_transformer")


def _named(name: str, holder: Any, where: str) -> Callable[..., Any]:
    found: Callable[..., Any] | None = getattr(holder, name, None)
    if found is None:
        raise UnsupportedError(
            f"impl='npu': {where} has no {name}; install a version of CANN that has the mHC "
            f"operators, or use impl='torch'."
        )
    return found


def demand(op: str, demands: Sequence[tuple[bool, str, object]]) -> None:
    """Refuse a form that the NPU's operator does not have; each is (holds, what it takes, got)."""
    for holds, takes, got in demands:
        if not holds:
            raise UnsupportedError(
                f"{op}: impl='npu' takes {takes}, got {got}; use impl='torch' for other forms."
            )


def store(op: str, results: Sequence[Tensor], out: Sequence[Tensor | None]) -> None:
    """Copy results into the wanted outputs. Raises UnsupportedError for others than announced."""
    if len(results) < len(out):
        raise UnsupportedError(f"{op}: impl='npu' returned {len(results)} tensors, not {len(out)}.")
    for result, target in zip(results, out, strict=False):
        if target is None:
            continue
        if result.shape != target.shape or result.dtype != target.dtype:
            raise UnsupportedError(
                f"{op}: impl='npu' returned {result.dtype} {list(result.shape)} where "
                f"{target.dtype} {list(target.shape)} belongs; this torch_npu has other operators."
            )
        target.copy_(result)
