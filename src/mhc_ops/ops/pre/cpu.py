"""MhcPre and MhcPreBackward on the CPU: hands tensors to the C++ kernels (csrc/pre).

Limits: x in bfloat16, float16 or float32. x, grad_h_in and grad_x_post are read in place when their
last dimension is contiguous, and copied otherwise. ctypes releases the GIL during a call.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _native
from ...types import MhcPreBackward, MhcPreForward
from ..common.kernels import at, fresh, token_rows

if TYPE_CHECKING:
    from .checks import PreNumbers, PreSizes

__all__ = ["backward", "forward", "fresh"]

_forward_in = _native.packer(_native.ForwardIn)
_forward_out = _native.packer(_native.ForwardOut)
_backward_in = _native.packer(_native.BackwardIn)
_backward_out = _native.packer(_native.BackwardOut)
_NO_ROWS = (0, 0, 0, 0)


def forward(
    sizes: "PreSizes",
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: "PreNumbers",
    out: MhcPreForward,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors)."""
    x, x_rows = token_rows(sizes.lead, x)
    status = _native.library().mhc_pre_forward(
        native_sizes(sizes),
        _native.DTYPES[x.dtype],
        native_numbers(numbers),
        _forward_in(*x_rows, at(phi), at(alpha), at(bias), at(gamma)),
        _forward_out(*map(at, out)),
        torch.get_num_threads(),
    )
    _native.check(status, "mhc_pre_forward")


def backward(
    sizes: "PreSizes",
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    numbers: "PreNumbers",
    out: MhcPreBackward,
    *,
    accumulate: bool = False,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors).

    accumulate: add to the parameters' gradients instead of overwriting them; chunks of tokens that
    are multiples of 256 long then give the bits of one call.
    """
    x, x_rows = token_rows(sizes.lead, x)
    grad_h_in, grad_h_in_rows = token_rows(sizes.lead, grad_h_in)
    post_rows = _NO_ROWS
    if grad_x_post is not None:
        grad_x_post, post_rows = token_rows(sizes.lead, grad_x_post)
    others = (phi, alpha, gamma, grad_h_post, grad_h_res, inv_rms, h_mix, h_pre, h_post)
    status = _native.library().mhc_pre_backward(
        native_sizes(sizes),
        _native.DTYPES[x.dtype],
        native_numbers(numbers),
        _backward_in(*x_rows, *grad_h_in_rows, *post_rows, *map(at, others)),
        _backward_out(*map(at, out), accumulate),
        torch.get_num_threads(),
    )
    _native.check(status, "mhc_pre_backward")


@lru_cache(maxsize=64)
def native_sizes(sizes: "PreSizes") -> bytes:
    outer = sizes.lead[0] if len(sizes.lead) == 2 else 1
    return _native.packer(_native.Sizes)(outer, sizes.lead[-1], sizes.N, sizes.D, sizes.F)


@lru_cache(maxsize=64)
def native_numbers(numbers: "PreNumbers") -> bytes:
    return _native.packer(_native.Numbers)(
        numbers.norm_eps,
        numbers.hc_eps,
        numbers.post_scale,
        numbers.post_eps,
        numbers.norm_eps_outside,
        numbers.hf32,
    )
