"""Sinkhorn and its backward on the CPU: hands tensors to the C++ kernels (csrc/sinkhorn).

Limits: float32; other layouts than dense are copied. ctypes releases the GIL during a call.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _native
from ...types import Sinkhorn
from ..common.kernels import at, fresh

if TYPE_CHECKING:
    from .checks import SinkhornBackward, SinkhornNumbers, SinkhornSizes

__all__ = ["backward", "forward", "fresh"]

_EPS_MODES = {"none": 0, "add": 1, "clamp": 2}


def forward(
    sizes: "SinkhornSizes", logits: Tensor, numbers: "SinkhornNumbers", out: Sinkhorn
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors)."""
    logits = logits.contiguous()
    status = _native.library().mhc_sinkhorn_forward(
        sizes.T,
        sizes.N,
        _numbers(numbers),
        at(logits),
        *map(at, out),
        torch.get_num_threads(),
    )
    _native.check(status, "sinkhorn_forward")


def backward(
    sizes: "SinkhornSizes",
    logits: Tensor,
    grad_h_res: Tensor,
    numbers: "SinkhornNumbers",
    out: "SinkhornBackward",
) -> None:
    logits, grad_h_res = logits.contiguous(), grad_h_res.contiguous()
    status = _native.library().mhc_sinkhorn_backward(
        sizes.T,
        sizes.N,
        _numbers(numbers),
        at(logits),
        at(grad_h_res),
        at(out.grad_logits),
        torch.get_num_threads(),
    )
    _native.check(status, "sinkhorn_backward")


@lru_cache(maxsize=64)
def _numbers(numbers: "SinkhornNumbers") -> bytes:
    return _native.packer(_native.SinkhornNumbers)(
        numbers.eps,
        numbers.temperature,
        numbers.num_iters,
        _EPS_MODES[numbers.eps_mode],
        numbers.order == "rows_last",
    )
