"""How tensors reach the C++ kernels: addresses, strides, threads, fresh outputs.

Imported by the rooms' cpu.py alone, once an implementation with native code is chosen.
"""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from ... import _native

_LARGE = 4 << 20  # bytes; below this page faults do not show


def fresh(x: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An empty tensor, on huge pages if large: page faults would cost as much as the kernel."""
    made = x.new_empty(shape, dtype=dtype)
    if made.nbytes >= _LARGE:
        _native.library().mhc_ops_advise_fresh(made.data_ptr(), made.nbytes)
    return made


def at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def token_rows(lead: tuple[int, ...], tensor: Tensor) -> tuple[Tensor, _native.Rows]:
    """A [*lead, D] or [*lead, N, D] tensor and how its tokens lie.

    The tensor is a copy where its last dimension is not contiguous.
    """
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        tensor = tensor.contiguous()
    strides = tensor.stride()
    outer = strides[0] if len(lead) == 2 else 0
    stream = strides[len(lead)] if tensor.dim() == len(lead) + 2 else 0
    return tensor, _native.Rows(tensor.data_ptr(), outer, strides[len(lead) - 1], stream)


def threads() -> ctypes.c_int:
    return ctypes.c_int(torch.get_num_threads())
