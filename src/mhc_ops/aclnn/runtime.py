"""As much of the AscendCL runtime as programs around an aclnn call use, on host memory.

Device memory is a uint8 torch tensor. Work runs at once, so streams and contexts carry no state.
Where C fills a variable behind a pointer, the Python call returns (status, value).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from .codes import (
    ACL_ERROR_BAD_ALLOC,
    ACL_ERROR_INVALID_PARAM,
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_SUCCESS,
)
from .errors import record_error


class aclrtContext:
    """Handle of a device context."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id


class aclrtStream:
    """Handle of a stream; its work is finished when the call returns."""

    def __init__(self) -> None:
        self.destroyed = False


def _invalid(message: str) -> int:
    record_error(message)
    return ACL_ERROR_INVALID_PARAM


def aclInit(configPath: str | None = None) -> int:
    """Start; there is nothing to configure."""
    return ACL_SUCCESS


def aclFinalize() -> int:
    return ACL_SUCCESS


def aclrtSetDevice(deviceId: int) -> int:
    """Choose device 0, the only one."""
    return ACL_SUCCESS if deviceId == 0 else _invalid(f"aclrtSetDevice: no device {deviceId}.")


def aclrtResetDevice(deviceId: int) -> int:
    return ACL_SUCCESS if deviceId == 0 else _invalid(f"aclrtResetDevice: no device {deviceId}.")


def aclrtCreateContext(deviceId: int) -> tuple[int, aclrtContext | None]:
    if deviceId != 0:
        return _invalid(f"aclrtCreateContext: no device {deviceId}."), None
    return ACL_SUCCESS, aclrtContext(deviceId)


def aclrtSetCurrentContext(context: aclrtContext | None) -> int:
    return ACL_SUCCESS if context else _invalid("aclrtSetCurrentContext: context is null.")


def aclrtDestroyContext(context: aclrtContext | None) -> int:
    return ACL_SUCCESS if context else _invalid("aclrtDestroyContext: context is null.")


def aclrtCreateStream() -> tuple[int, aclrtStream]:
    return ACL_SUCCESS, aclrtStream()


def aclrtSynchronizeStream(stream: aclrtStream | None) -> int:
    """Wait for the stream's work; None is the default stream."""
    if stream is not None and stream.destroyed:
        return _invalid("aclrtSynchronizeStream: stream was destroyed.")
    return ACL_SUCCESS


def aclrtDestroyStream(stream: aclrtStream | None) -> int:
    if stream is None or stream.destroyed:
        return _invalid("aclrtDestroyStream: stream is null or was destroyed.")
    stream.destroyed = True
    return ACL_SUCCESS


def aclrtMalloc(size: int, policy: int = ACL_MEM_MALLOC_HUGE_FIRST) -> tuple[int, Tensor | None]:
    """size bytes of memory, not initialised, as a uint8 tensor."""
    if size <= 0:
        return _invalid(f"aclrtMalloc: size must be positive, got {size}."), None
    try:
        return ACL_SUCCESS, torch.empty(size, dtype=torch.uint8)
    except (RuntimeError, MemoryError):  # torch's allocator raises the first
        record_error(f"aclrtMalloc: no {size} bytes available.")
        return ACL_ERROR_BAD_ALLOC, None


def aclrtFree(devPtr: Tensor | None) -> int:
    """Give memory up; it is freed with the last reference to it."""
    return ACL_SUCCESS if devPtr is not None else _invalid("aclrtFree: devPtr is null.")


def aclrtMemcpy(dst: Any, destMax: int, src: Any, count: int, kind: int) -> int:
    """Copy count bytes.

    Args:
        dst, src: contiguous torch tensors of any dtype on the CPU, or objects with a buffer (array,
            bytearray, memoryview, NumPy arrays).
        destMax: bytes that dst can take.
        kind: an ACL_MEMCPY_ number; memory is one here, so any of them copies.
    """
    if dst is None or src is None:
        return _invalid("aclrtMemcpy: dst and src must not be null.")
    if any(isinstance(t, Tensor) and not (t.is_cpu and t.is_contiguous()) for t in (dst, src)):
        return _invalid("aclrtMemcpy: dst and src must be contiguous and in host memory.")
    to, origin = _bytes(dst), _bytes(src)
    if not 0 <= count <= min(destMax, len(to), len(origin)):
        return _invalid(
            f"aclrtMemcpy: cannot copy {count} bytes from {len(origin)} to {min(destMax, len(to))}."
        )
    if to.readonly:
        return _invalid("aclrtMemcpy: dst is read-only.")
    to[:count] = origin[:count]
    return ACL_SUCCESS


def _bytes(memory: Any) -> memoryview:
    if isinstance(memory, Tensor):
        flat = memory.detach().view(-1).view(torch.uint8)
        memory = (ctypes.c_uint8 * flat.numel()).from_address(flat.data_ptr())
    return memoryview(memory).cast("B")
