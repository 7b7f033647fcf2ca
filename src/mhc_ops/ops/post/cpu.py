"""MhcPost and MhcPostBackward on the CPU: hands tensors to the C++ kernels (csrc/post).

Limits: x in bfloat16, float16 or float32. grad_out, x and h_out are read in place when their last
dimension is contiguous, and copied otherwise. ctypes releases the GIL during a call.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _native
from ...types import MhcPostBackward
from ..common.kernels import at, fresh, token_rows

if TYPE_CHECKING:
    from .checks import PostSizes

__all__ = ["backward", "forward", "fresh"]

_forward_in = _native.packer(_native.PostForwardIn)
_backward_in = _native.packer(_native.PostBackwardIn)
_backward_out = _native.packer(_native.PostBackwardOut)


def forward(
    sizes: "PostSizes",
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    out: Tensor,
) -> None:
    """Compute into `out`, a contiguous tensor; the gates and bias are contiguous too."""
    x, x_rows = token_rows(sizes.lead, x)
    h_out, h_out_rows = token_rows(sizes.lead, h_out)
    status = _native.library().mhc_post_forward(
        _sizes(sizes),
        _native.DTYPES[x.dtype],
        _forward_in(*x_rows, *h_out_rows, at(h_res), at(h_post), at(bias)),
        at(out),
        torch.get_num_threads(),
    )
    _native.check(status, "mhc_post_forward")


def backward(
    sizes: "PostSizes",
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    out: MhcPostBackward,
    *,
    accumulate: bool = False,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors).

    accumulate: add to grad_bias instead of overwriting it; chunks of tokens that are multiples of
    256 long then give the bits of one call.
    """
    grad_out, grad_rows = token_rows(sizes.lead, grad_out)
    x, x_rows = token_rows(sizes.lead, x)
    h_out, h_out_rows = token_rows(sizes.lead, h_out)
    status = _native.library().mhc_post_backward(
        _sizes(sizes),
        _native.DTYPES[x.dtype],
        _backward_in(*grad_rows, *x_rows, *h_out_rows, at(h_res), at(h_post), at(bias)),
        _backward_out(*map(at, out), accumulate),
        torch.get_num_threads(),
    )
    _native.check(status, "mhc_post_backward")


@lru_cache(maxsize=64)
def _sizes(sizes: "PostSizes") -> bytes:
    outer = sizes.lead[0] if len(sizes.lead) == 2 else 1
    return _native.packer(_native.PostSizes)(outer, sizes.lead[-1], sizes.N, sizes.D)
