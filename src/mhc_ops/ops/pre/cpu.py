"""MhcPre and MhcPreBackward on the CPU: hands tensors to the C++ kernels (csrc/pre).

Limits: x in bfloat16, float16 or float32. x, grad_h_in and grad_x_post are read in place when their
last dimension is contiguous, and copied otherwise. ctypes releases the GIL during a call.
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ... import _native
from ...types import MhcPreBackward, MhcPreForward

if TYPE_CHECKING:
    from .checks import PreNumbers, PreSizes

_LARGE = 4 << 20  # bytes; below this page faults do not show


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
    x, x_rows = _rows(sizes, x)
    given = _native.ForwardIn(x_rows, _at(phi), _at(alpha), _at(bias), _at(gamma))
    made = _native.ForwardOut(*(_at(o) for o in out))
    status = _native.library().mhc_pre_forward(
        _sizes(sizes), _native.DTYPES[x.dtype], _numbers(numbers), given, made, _threads()
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
    x, x_rows = _rows(sizes, x)
    grad_h_in, grad_h_in_rows = _rows(sizes, grad_h_in)
    if grad_x_post is None:
        post_rows = _native.Rows()
    else:
        grad_x_post, post_rows = _rows(sizes, grad_x_post)
    given = _native.BackwardIn(
        x_rows,
        grad_h_in_rows,
        post_rows,
        *(_at(t) for t in (phi, alpha, gamma, grad_h_post, grad_h_res)),
        *(_at(t) for t in (inv_rms, h_mix, h_pre, h_post)),
    )
    made = _native.BackwardOut(*(_at(o) for o in out), accumulate)
    status = _native.library().mhc_pre_backward(
        _sizes(sizes), _native.DTYPES[x.dtype], _numbers(numbers), given, made, _threads()
    )
    _native.check(status, "mhc_pre_backward")


def fresh(x: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An empty tensor, on huge pages if large: page faults would cost as much as the kernel."""
    made = x.new_empty(shape, dtype=dtype)
    if made.nbytes >= _LARGE:
        _native.library().mhc_ops_advise_fresh(made.data_ptr(), made.nbytes)
    return made


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _rows(sizes: "PreSizes", tensor: Tensor) -> tuple[Tensor, _native.Rows]:
    """The tensor (a copy where its last dimension is not contiguous) and how its tokens lie."""
    if sizes.D > 1 and tensor.stride(-1) != 1:
        tensor = tensor.contiguous()
    strides = tensor.stride()
    lead = len(sizes.lead)
    outer = strides[0] if lead == 2 else 0
    stream = strides[lead] if tensor.dim() == lead + 2 else 0
    return tensor, _native.Rows(tensor.data_ptr(), outer, strides[lead - 1], stream)


def _sizes(sizes: "PreSizes") -> _native.Sizes:
    outer = sizes.lead[0] if len(sizes.lead) == 2 else 1
    return _native.Sizes(outer, sizes.lead[-1], sizes.N, sizes.D, sizes.F)


def _numbers(numbers: "PreNumbers") -> _native.Numbers:
    return _native.Numbers(
        numbers.norm_eps,
        numbers.hc_eps,
        numbers.post_scale,
        numbers.post_eps,
        numbers.norm_eps_outside,
        numbers.hf32,
    )


def _threads() -> ctypes.c_int:
    return ctypes.c_int(torch.get_num_threads())
