"""Which module of a room computes for an implementation."""

from functools import cache
from importlib import import_module
from typing import Any

from ...types import Impl

_MODULES = {Impl.TORCH: "blocked", Impl.CPU: "cpu", Impl.TRITON: "triton", Impl.NPU: "npu"}


@cache
def kernels_of(room: str, impl: Impl) -> Any:
    """The module that computes into given tensors; one with native code is loaded when chosen.

    room: the package of the operator, such as "mhc_ops.ops.pre".
    """
    return import_module(f"{room}.{_MODULES[impl]}")
