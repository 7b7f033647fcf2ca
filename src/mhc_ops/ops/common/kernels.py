"""How tensors reach the C++ kernels: addresses, strides, threads, fresh outputs.

Imported by the rooms' cpu.py alone, once an implementation with native code is chosen.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ... import _native

_LARGE = 4 << 20  # bytes; below this page faults do not show
_CPU = torch.device("cpu")


def fresh(x: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An empty tensor, on huge pages if large: page faults would cost as much as the kernel."""
    if not shape:
        return torch.empty((), dtype=dtype, device=_CPU)
    made = torch.empty(*shape, dtype=dtype, device=_CPU)  # faster than from a tuple
    if made.nbytes >= _LARGE:
        _native.library().mhc_ops_advise_fresh(made.data_ptr(), made.nbytes)
    return made


def at(tensor: Tensor | None) -> int:
    """The address for the C interface; 0 for an absent tensor."""
    return 0 if tensor is None else tensor.data_ptr()


def token_rows(lead: tuple[int, ...], tensor: Tensor) -> tuple[Tensor, tuple[int, int, int, int]]:
    """A [*lead, D] or [*lead, N, D] tensor and how its tokens lie: the scalars of an mhc_rows.

    The tensor is a copy where its last dimension is not contiguous.
    """
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        tensor = tensor.contiguous()
    strides, leading = tensor.stride(), len(lead)
    outer = strides[0] if leading == 2 else 0
    stream = strides[leading] if len(strides) == leading + 2 else 0
    return tensor, (tensor.data_ptr(), outer, strides[leading - 1], stream)
