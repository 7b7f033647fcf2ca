"""permutation_mix and its backward on the CPU: hands tensors to the C++ kernels (csrc/lite).

Limits: float32; other layouts than dense are copied. ctypes releases the GIL during a call.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _native
from ..common.kernels import at, fresh

if TYPE_CHECKING:
    from .checks import LiteBackward, LiteForward, LiteSizes

__all__ = ["backward", "forward", "fresh"]


def forward(sizes: "LiteSizes", logits: Tensor, out: "LiteForward") -> None:
    logits = logits.contiguous()
    status = _native.library().mhc_lite_forward(
        sizes.T, sizes.N, at(logits), at(out.h_res), torch.get_num_threads()
    )
    _native.check(status, "permutation_mix_forward")


def backward(sizes: "LiteSizes", logits: Tensor, grad_h_res: Tensor, out: "LiteBackward") -> None:
    logits, grad_h_res = logits.contiguous(), grad_h_res.contiguous()
    status = _native.library().mhc_lite_backward(
        sizes.T,
        sizes.N,
        at(logits),
        at(grad_h_res),
        at(out.grad_logits),
        torch.get_num_threads(),
    )
    _native.check(status, "permutation_mix_backward")
