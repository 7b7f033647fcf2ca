"""aclTensor: a strided view on memory, made and destroyed as published."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor

from .codes import (
    ACL_BF16,
    ACL_BOOL,
    ACL_COMPLEX64,
    ACL_COMPLEX128,
    ACL_DOUBLE,
    ACL_FLOAT,
    ACL_FLOAT16,
    ACL_FORMAT_ND,
    ACL_INT8,
    ACL_INT16,
    ACL_INT32,
    ACL_INT64,
    ACL_UINT8,
    ACL_UINT16,
    ACL_UINT32,
    ACL_UINT64,
    ACLNN_SUCCESS,
    DTYPE_NAMES,
    FORMAT_NAMES,
)
from .errors import record_error
from .validation import Desc

TORCH_DTYPES = {
    ACL_FLOAT: torch.float32,
    ACL_FLOAT16: torch.float16,
    ACL_BF16: torch.bfloat16,
    ACL_DOUBLE: torch.float64,
    ACL_INT8: torch.int8,
    ACL_INT16: torch.int16,
    ACL_INT32: torch.int32,
    ACL_INT64: torch.int64,
    ACL_UINT8: torch.uint8,
    ACL_UINT16: torch.uint16,
    ACL_UINT32: torch.uint32,
    ACL_UINT64: torch.uint64,
    ACL_BOOL: torch.bool,
    ACL_COMPLEX64: torch.complex64,
    ACL_COMPLEX128: torch.complex128,
}
"""ACL dtype numbers to torch dtypes; the others have no torch counterpart."""

_ACL_DTYPES = {dtype: number for number, dtype in TORCH_DTYPES.items()}


class aclTensor:
    """Handle of a tensor: a view (dimensions, strides, offset) on the memory of a torch tensor.

    Made by `aclCreateTensor` or `from_torch`. The memory is shared, never copied. Strides and
    offset count elements of `data_type`.
    """

    def __init__(
        self,
        view_dims: tuple[int, ...],
        data_type: int,
        stride: tuple[int, ...],
        offset: int,
        format: int,
        storage_dims: tuple[int, ...],
        data: Tensor | None,
    ) -> None:
        self.view_dims = view_dims
        self.data_type = data_type
        self.stride = stride
        self.offset = offset
        self.format = format
        self.storage_dims = storage_dims
        self.data = data
        self.destroyed = False

    def __repr__(self) -> str:
        return f"aclTensor({dtype_name(self.data_type)}, {list(self.view_dims)})"

    @property
    def desc(self) -> Desc:
        """What the checks of a call see."""
        form = FORMAT_NAMES.get(self.format, str(self.format))
        return Desc(dtype_name(self.data_type), self.view_dims, form)

    def view(self) -> Tensor:
        """The view as a torch tensor on the same memory.

        Raises RuntimeError when the tensor was destroyed, has no memory, is not aligned to its
        dtype, or reaches outside its memory.
        """
        if self.destroyed:
            raise RuntimeError(f"{self!r} was destroyed")
        if self.data is None:
            raise RuntimeError(f"{self!r} has no memory, its tensorData is null")
        dtype = TORCH_DTYPES[self.data_type]
        start = self.data.storage_offset() * self.data.element_size()
        memory = self.data.detach().untyped_storage()
        if start % dtype.itemsize:
            raise RuntimeError(f"{self!r} starts at a byte that {dtype} cannot address")
        first = start // dtype.itemsize + self.offset
        strides = zip(self.view_dims, self.stride, strict=True)
        last = first + sum((size - 1) * step for size, step in strides)
        if 0 not in self.view_dims and (last + 1) * dtype.itemsize > memory.nbytes():
            raise RuntimeError(
                f"{self!r} needs {(last + 1) * dtype.itemsize} bytes of memory, "
                f"there are {memory.nbytes()}"
            )
        empty = torch.empty(0, dtype=dtype, device=self.data.device)
        return empty.set_(memory, first, self.view_dims, self.stride)


def aclCreateTensor(
    viewDims: Sequence[int],
    dataType: int,
    stride: Sequence[int] | None,
    offset: int,
    format: int,
    storageDims: Sequence[int],
    tensorData: Tensor | None,
) -> aclTensor | None:
    """Make a tensor on memory that already exists; nothing is copied.

    Args:
        viewDims: sizes of the view.
        dataType: an ACL_ dtype number.
        stride: elements between neighbours, one for each dimension; None is contiguous.
        offset: elements from the start of tensorData to the first one of the view.
        format: an ACL_FORMAT_ number.
        storageDims: sizes of the memory as it was allocated.
        tensorData: the memory, a torch tensor of any dtype (the uint8 one of `aclrtMalloc`, say),
            or None for a tensor that can be checked but not computed.
    Returns:
        The handle, or None (a null pointer) where the published call fails: a negative size, stride
        or offset, as many strides as there are not dimensions, an unknown dtype or format.
        `aclGetRecentErrMsg()` then says which.
    """
    if tensorData is not None and not isinstance(tensorData, Tensor):
        raise TypeError(
            f"aclCreateTensor: tensorData must be a torch tensor or None, "
            f"got {type(tensorData).__name__}."
        )
    dims = tuple(operator.index(size) for size in viewDims)
    storage = tuple(operator.index(size) for size in storageDims)
    steps = contiguous_stride(dims) if stride is None else tuple(map(operator.index, stride))
    problem = ""
    if any(size < 0 for size in (*dims, *storage, *steps, offset)):
        problem = (
            f"sizes, strides and offset must not be negative, got viewDims {list(dims)}, "
            f"stride {list(steps)}, offset {offset}, storageDims {list(storage)}"
        )
    elif len(steps) != len(dims):
        problem = f"stride must have {len(dims)} entries as viewDims, got {len(steps)}"
    elif dataType not in DTYPE_NAMES:
        problem = f"dataType must be an ACL dtype number, got {dataType}"
    elif format not in FORMAT_NAMES:
        problem = f"format must be an ACL format number, got {format}"
    if problem:
        record_error(f"aclCreateTensor: {problem}.")
        return None
    return aclTensor(dims, dataType, steps, offset, format, storage, tensorData)


def aclDestroyTensor(tensor: aclTensor | None) -> int:
    """Destroy the handle; the memory stays. A null handle is left alone."""
    if tensor is not None:
        tensor.destroyed = True
        tensor.data = None
    return ACLNN_SUCCESS


def from_torch(t: Tensor) -> aclTensor:
    """The handle of a torch tensor, sharing its memory: strides and offset are the tensor's.

    Raises TypeError for what is not a dense torch tensor of a dtype that ACL has.
    """
    if not isinstance(t, Tensor) or t.layout != torch.strided or t.dtype not in _ACL_DTYPES:
        got = f"{t.layout} {t.dtype}" if isinstance(t, Tensor) else type(t).__name__
        raise TypeError(f"from_torch: expected a dense torch tensor of an ACL dtype, got {got}.")
    memory = t.detach().untyped_storage()
    elements = memory.nbytes() // t.element_size()
    base = torch.empty(0, dtype=t.dtype, device=t.device).set_(memory, 0, (elements,), (1,))
    return aclTensor(
        tuple(t.shape),
        _ACL_DTYPES[t.dtype],
        tuple(t.stride()),
        int(t.storage_offset()),
        ACL_FORMAT_ND,
        (elements,),
        base,
    )


def contiguous_stride(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major tensor."""
    steps: list[int] = []
    step = 1
    for size in reversed(dims):
        steps.insert(0, step)
        step *= size
    return tuple(steps)


def dtype_name(number: int) -> str:
    return DTYPE_NAMES.get(number, str(number))
