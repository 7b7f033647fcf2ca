"""The CPU kernels' library: found beside the package, loaded once with ctypes.

The structures below mirror include/mhc_ops/mhc_ops.h. Importing this module loads nothing.
"""

import ctypes
import functools
import importlib.util
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .errors import UnsupportedError

_ABI = 3
_NAME = "libmhc_ops.dylib" if sys.platform == "darwin" else "libmhc_ops.so"
_OK, _NO_MEMORY, _NO_SUCH_ISA = 0, 2, 3

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Sizes(ctypes.Structure):
    """mhc_pre_sizes."""

    _fields_ = [(name, ctypes.c_int64) for name in ("outer", "inner", "streams", "dim", "rows")]


class Rows(ctypes.Structure):
    """mhc_rows: an address and strides in elements."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("outer", "inner", "stream")),
    ]


class Numbers(ctypes.Structure):
    """mhc_pre_numbers."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("norm_eps", "hc_eps", "post_scale", "post_eps")),
        *((name, ctypes.c_int32) for name in ("norm_eps_outside", "hf32")),
    ]


def _pointers(*names: str) -> list[tuple[str, type[ctypes.c_void_p]]]:
    return [(name, ctypes.c_void_p) for name in names]


class ForwardIn(ctypes.Structure):
    """mhc_pre_forward_in."""

    _fields_ = [("x", Rows), *_pointers("phi", "alpha", "bias", "gamma")]


class ForwardOut(ctypes.Structure):
    """mhc_pre_forward_out."""

    _fields_ = _pointers("h_in", "h_post", "h_res", "inv_rms", "h_mix", "h_pre")


class BackwardIn(ctypes.Structure):
    """mhc_pre_backward_in."""

    _fields_ = [
        *((name, Rows) for name in ("x", "grad_h_in", "grad_x_post")),
        *_pointers("phi", "alpha", "gamma", "grad_h_post", "grad_h_res"),
        *_pointers("inv_rms", "h_mix", "h_pre", "h_post"),
    ]


class BackwardOut(ctypes.Structure):
    """mhc_pre_backward_out."""

    _fields_ = [
        *_pointers("grad_x", "grad_phi", "grad_alpha", "grad_bias", "grad_gamma"),
        ("accumulate", ctypes.c_int32),
    ]


class PostSizes(ctypes.Structure):
    """mhc_post_sizes."""

    _fields_ = [(name, ctypes.c_int64) for name in ("outer", "inner", "streams", "dim")]


class PostForwardIn(ctypes.Structure):
    """mhc_post_forward_in."""

    _fields_ = [("x", Rows), ("h_out", Rows), *_pointers("h_res", "h_post", "bias")]


class PostBackwardIn(ctypes.Structure):
    """mhc_post_backward_in."""

    _fields_ = [
        *((name, Rows) for name in ("grad_out", "x", "h_out")),
        *_pointers("h_res", "h_post", "bias"),
    ]


class PostBackwardOut(ctypes.Structure):
    """mhc_post_backward_out."""

    _fields_ = [
        *_pointers("grad_x", "grad_h_res", "grad_h_out", "grad_h_post", "grad_bias"),
        ("accumulate", ctypes.c_int32),
    ]


class SinkhornNumbers(ctypes.Structure):
    """mhc_sinkhorn_numbers."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("eps", "temperature")),
        *((name, ctypes.c_int32) for name in ("num_iters", "eps_mode", "rows_last")),
    ]


_CODES = {
    ctypes.c_void_p: "P",
    ctypes.c_int64: "q",
    ctypes.c_int32: "i",
    ctypes.c_double: "d",
}


def packer(structure: type[ctypes.Structure]) -> Callable[..., bytes]:
    """A function from a structure's scalars, in order, to its bytes; 0 is the null pointer.

    Bytes are made faster than a structure is filled, and go where the C interface reads one.
    """
    code = "".join(_scalars(structure))
    padding = ctypes.sizeof(structure) - struct.calcsize(code)
    return struct.Struct(f"{code}{padding}x").pack


def _scalars(kind: Any) -> list[str]:
    if kind in _CODES:
        return [_CODES[kind]]
    return [code for _, member in kind._fields_ for code in _scalars(member)]


def folders() -> list[Path]:
    """Where an install and an editable install put what was compiled."""
    found = [Path(__file__).parent]
    spec = importlib.util.find_spec("mhc_ops")
    if spec is not None and spec.submodule_search_locations is not None:
        found += [Path(folder) for folder in spec.submodule_search_locations]
    return list(dict.fromkeys(found))


def _declare(library: ctypes.CDLL) -> None:
    address, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    for name, arguments in (
        ("mhc_pre_forward", [address, number, *[address] * 3, number]),
        ("mhc_pre_backward", [address, number, *[address] * 3, number]),
        ("mhc_post_forward", [address, number, *[address] * 2, number]),
        ("mhc_post_backward", [address, number, *[address] * 2, number]),
        ("mhc_post_pre_forward", [address, number, *[address] * 5, number]),
        ("mhc_post_pre_backward", [address, number, *[address] * 5, number]),
        ("mhc_sinkhorn_forward", [size, size, *[address] * 5, number]),
        ("mhc_sinkhorn_backward", [size, size, *[address] * 4, number]),
        ("mhc_lite_forward", [size, size, *[address] * 2, number]),
        ("mhc_lite_backward", [size, size, *[address] * 3, number]),
    ):
        call = getattr(library, name)
        call.restype = number
        call.argtypes = arguments
    for name in ("mhc_ops_isa", "mhc_ops_threading"):
        getattr(library, name).restype = ctypes.c_char_p
    library.mhc_ops_workspace_bytes.restype = ctypes.c_int64
    library.mhc_ops_advise_fresh.restype = None
    library.mhc_ops_advise_fresh.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.mhc_ops_probe_fma.restype = ctypes.c_double
    library.mhc_ops_probe_read.restype = ctypes.c_double
    library.mhc_ops_probe_read.argtypes = [ctypes.c_int64, ctypes.c_int]


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library, or None and why it is absent."""
    found = [path for folder in folders() if (path := folder / _NAME).exists()]
    if not found:
        return (
            None,
            "the library of CPU kernels was not built when mhc-ops was installed (no C++ compiler, "
            "or it failed; `pip install -v` shows why)",
        )
    try:
        library = ctypes.CDLL(str(found[0]))
    except OSError as error:
        return None, f"the library of CPU kernels does not load: {error}"
    if library.mhc_ops_abi() != _ABI:
        return None, f"the library of CPU kernels has interface {library.mhc_ops_abi()}, not {_ABI}"
    _declare(library)
    if library.mhc_ops_isa() is None:
        wanted = os.environ.get("MHC_OPS_ISA")
        return None, f"MHC_OPS_ISA={wanted} names an instruction set that this processor lacks"
    return library, ""


def obstacle() -> str | None:
    """Why the CPU kernels cannot run in this process, or None if they can."""
    loaded, why = _load()
    return None if loaded is not None else why


def library() -> ctypes.CDLL:
    """The loaded library; UnsupportedError says why there is none."""
    loaded, why = _load()
    if loaded is None:
        raise UnsupportedError(f"impl='cpu' cannot run here: {why}; use impl='torch'.")
    return loaded


def describe() -> str:
    """One line for people: the instruction set and the threads, or why the library is absent."""
    loaded, why = _load()
    if loaded is None:
        return f"absent: {why}"
    return f"{loaded.mhc_ops_isa().decode()}, {loaded.mhc_ops_threading().decode()} threads"


def check(status: int, operator: str) -> None:
    """Turn a status of the C interface into an exception."""
    if status == _OK:
        return
    if status == _NO_MEMORY:
        raise MemoryError(f"{operator}: the workspace of the CPU kernel could not be allocated")
    if status == _NO_SUCH_ISA:
        raise UnsupportedError(
            f"{operator}: MHC_OPS_ISA names an instruction set this machine lacks"
        )
    raise AssertionError(f"{operator}: the C interface refused its arguments (status {status})")
