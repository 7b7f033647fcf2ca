"""Which implementations exist here, and which one `auto` takes."""

import os
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from .errors import ArgumentError, UnsupportedError
from .types import Impl

OPERATORS = (
    *("mhc_pre", "mhc_pre_forward", "mhc_pre_backward"),
    *("mhc_pre_sinkhorn", "mhc_pre_sinkhorn_forward", "mhc_pre_sinkhorn_backward"),
    *("mhc_post", "mhc_post_forward", "mhc_post_backward"),
    *("mhc_post_pre", "mhc_post_pre_forward", "mhc_post_pre_backward"),
    *("sinkhorn", "sinkhorn_forward", "sinkhorn_backward"),
    *("permutation_mix", "permutation_mix_forward", "permutation_mix_backward"),
    *("stream_head", "stream_head_forward", "stream_head_backward"),
)
# The operators with C++ kernels, and the dtypes of the leading tensor that these take.
_CPU_DTYPES = {
    "mhc_pre": (torch.bfloat16, torch.float16, torch.float32),
    "mhc_pre_sinkhorn": (torch.bfloat16, torch.float16, torch.float32),
    "mhc_post": (torch.bfloat16, torch.float16, torch.float32),
    "mhc_post_pre": (torch.bfloat16, torch.float16, torch.float32),
    "sinkhorn": (torch.float32,),
    "permutation_mix": (torch.float32,),
    "stream_head": (torch.bfloat16, torch.float16, torch.float32),
}
# The operators with Triton kernels take the same.
_TRITON_DTYPES = {
    room: _CPU_DTYPES[room]
    for room in (
        *("mhc_pre", "mhc_pre_sinkhorn", "mhc_post", "mhc_post_pre"),
        *("sinkhorn", "permutation_mix", "stream_head"),
    )
}
# The operators that torch_npu has by published names; any may be refused by form (ops/*/npu.py).
_NPU_ROOMS = ("mhc_pre", "mhc_post")
_NPU_DEVICE = "npu"
_OLDEST_TRITON = (3, 6)
_PREFERENCE = (Impl.TRITON, Impl.CPU, Impl.NPU, Impl.TORCH, Impl.REFERENCE)
_WHAT = {
    Impl.REFERENCE: "eager torch in the order of the equations, any device",
    Impl.TORCH: "torch operations over token blocks, any device",
    Impl.CPU: "C++ kernels for CPU tensors",
    Impl.TRITON: "Triton kernels for GPU tensors",
    Impl.NPU: "torch_npu's operators for NPU tensors, by name alone: never run on an NPU",
}


def obstacle(
    impl: Impl, device: torch.device, dtype: torch.dtype, op: str = "mhc_pre"
) -> str | None:
    """Why `impl` cannot serve operator `op` on tensors of this kind, or None if it can."""
    room = op.removesuffix("_forward").removesuffix("_backward")
    if impl is Impl.CPU:
        if device.type != "cpu":
            return f"the tensors are on {device}"
        if room not in _CPU_DTYPES:
            return f"this version ships no such kernels for {room}"
        if dtype not in _CPU_DTYPES[room]:
            return f"its kernels take {_listed(_CPU_DTYPES[room])}, not {dtype}"
        from . import _native

        return _native.obstacle()
    if impl is Impl.TRITON:
        return _triton_obstacle(device, dtype, room)
    if impl is Impl.NPU:
        return _npu_obstacle(device, dtype, room)
    return None


def _npu_obstacle(device: torch.device, dtype: torch.dtype, room: str) -> str | None:
    from .ops.common import npu

    if room not in _NPU_ROOMS:
        return f"torch_npu has no such operator for {room}"
    missing = npu.is_missing()
    if missing is not None:
        return missing
    if device.type != _NPU_DEVICE:
        return f"the tensors are on {device}, not on an NPU"
    if dtype not in npu.DTYPES:
        return f"its operators take {_listed(npu.DTYPES)}, not {dtype}"
    return None


def _triton_obstacle(device: torch.device, dtype: torch.dtype, room: str) -> str | None:
    if room not in _TRITON_DTYPES:
        return f"this version ships no such kernels for {room}"
    # Under Triton's interpreter, its own way of running kernels without a GPU, CPU tensors will do.
    interpreted = device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    if device.type != "cuda" and not interpreted:
        return f"the tensors are on {device}, not on an NVIDIA or AMD GPU"
    if dtype not in _TRITON_DTYPES[room]:
        return f"its kernels take {_listed(_TRITON_DTYPES[room])}, not {dtype}"
    return _triton_is_missing()


@cache
def _triton_is_missing() -> str | None:
    extra = "install the extra: pip install 'mhc-ops[gpu]'"
    try:
        import triton
    except ImportError:
        return f"triton is not installed; {extra}"
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < _OLDEST_TRITON:
        return f"triton {triton.__version__} is older than 3.6; {extra}"
    return None


def resolve(op: str, impl: Impl, x: Tensor) -> Impl:
    """The implementation that serves `x`. A named one is never replaced by another."""
    if impl is Impl.AUTO:
        return _automatic(op, x.device, x.dtype)
    reason = obstacle(impl, x.device, x.dtype, op)
    if reason is not None:
        raise UnsupportedError(
            f"{op}: impl='{impl.value}' cannot run here: {reason}; use impl='auto' or 'torch'."
        )
    return impl


@cache
def _automatic(op: str, device: torch.device, dtype: torch.dtype) -> Impl:
    return next(i for i in _candidates(device) if obstacle(i, device, dtype, op) is None)


def _candidates(device: torch.device) -> Sequence[Impl]:
    """What `auto` considers, the fastest first.

    Never Triton's interpreter, which is for tests, nor what has never run on its device.
    """
    left_out = {Impl.NPU} | ({Impl.TRITON} if device.type == "cpu" else set())
    return [i for i in _PREFERENCE if i not in left_out]


def explain(name: str, *args: Tensor | None) -> str:
    """Say which implementation `auto` takes for operator `name` and why, in a few lines of text.

    Args: name: a public operator, such as "mhc_pre". args: the call's tensors; their device and
          dtype decide. Without them the answer is for bfloat16 tensors on the CPU.
    """
    if name not in OPERATORS:
        raise ArgumentError(f"explain: name must be one of {', '.join(OPERATORS)}, got {name!r}.")
    for arg in args:
        if arg is not None and not isinstance(arg, Tensor):
            raise ArgumentError(f"explain: args must be tensors, got {type(arg).__name__}.")
    x = next((a for a in args if a is not None), None)
    if x is not None and not x.dtype.is_floating_point:
        raise ArgumentError(f"explain: no operator takes {x.dtype}; give the call's own tensors.")
    device = torch.device("cpu") if x is None else x.device
    dtype = torch.bfloat16 if x is None else x.dtype
    lines = []
    chosen = None
    for impl in _PREFERENCE:
        reason = obstacle(impl, device, dtype, name)
        if reason is None and chosen is None and impl in _candidates(device):
            chosen = impl
        verdict = f"not here: {reason}" if reason else "chosen" if impl is chosen else "available"
        lines.append(f"  {impl.value:<10}{verdict} ({_WHAT[impl]})")
    assert chosen is not None
    kind = f"{str(dtype).removeprefix('torch.')} on {device}"
    return "\n".join([f"{name}, {kind}: impl='auto' takes '{chosen.value}'", *lines])


def _listed(dtypes: Sequence[torch.dtype]) -> str:
    *most, last = (str(dtype).removeprefix("torch.") for dtype in dtypes)
    return f"{', '.join(most)} and {last}" if most else last
