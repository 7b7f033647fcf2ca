"""Compiles what the host code would launch, for GPUs that are not here.

`launches` runs a room's host code on meta tensors and records every launch; `build` compiles one of
them for a target and reads registers, spills, shared memory and matrix instructions.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from mhc_ops.ops.common import triton_host

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
# Bytes that one block may have; sm_80's tiles also serve consumer GPUs, which have 99 KiB.
SHARED = {"sm_80": 99 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10, "gfx942": 64 << 10}
# Multiprocessors of A100, H100 and H200, B200, MI300X.
PROCESSORS = {"sm_80": 108, "sm_90": 132, "sm_100": 148, "gfx942": 304}
_TYPES = {
    torch.bfloat16: "*bf16",
    torch.float16: "*fp16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
}


class Launch(NamedTuple):
    kernel: triton.JITFunction
    grid: tuple
    args: tuple
    constants: dict
    warps: int
    stages: int


class Built(NamedTuple):
    kernel: str
    registers: int
    spilled: int
    shared: int
    matrix: str


def launches(target, run):
    """What run() launches when the device is `target`; its tensors are on the meta device."""
    found = []

    def record(kernel, grid, *args, warps=4, stages=2, **constants):
        found.append(Launch(kernel, tuple(grid), args, constants, warps, stages))

    replaced = []
    for module in [m for name, m in sys.modules.items() if name.startswith("mhc_ops.")]:
        for name, stand_in in (
            ("launch", record),
            ("target", lambda device: target),
            ("processors", lambda device: PROCESSORS[target]),
        ):
            original = getattr(triton_host, name)
            if module is not triton_host and getattr(module, name, None) is original:
                replaced.append((module, name, original))
                setattr(module, name, stand_in)
    try:
        run()
    finally:
        for module, name, original in replaced:
            setattr(module, name, original)
    return found


def specialisation(launch):
    """What a kernel is compiled for: the type of each argument, constants, what 16 divides."""
    names = launch.kernel.arg_names
    values = dict(zip(names, launch.args, strict=False)) | launch.constants
    unspecialised = {p.name for p in launch.kernel.params if p.do_not_specialize}
    signature, constants, attributes = [], [], []
    for index, name in enumerate(names):
        value = values[name]
        if (
            name in launch.constants
            or value is None
            or (type(value) is int and value == 1 and name not in unspecialised)
        ):
            signature.append((name, "constexpr"))
            constants.append((index, value))
        elif isinstance(value, torch.Tensor):
            signature.append((name, _TYPES[value.dtype]))
            attributes.append(index)
        elif isinstance(value, float):
            signature.append((name, "fp32"))
        else:
            signature.append((name, "i32" if -(2**31) <= value < 2**31 else "i64"))
            if value % 16 == 0 and name not in unspecialised:
                attributes.append(index)
    return tuple(signature), tuple(constants), tuple(attributes), launch.warps, launch.stages


def build(target, launch):
    signature, constants, attributes, *_ = specialisation(launch)
    signature = dict(signature)
    constants = {(index,): value for index, value in constants}
    attributes = {(index,): [["tt.divisibility", 16]] for index in attributes}
    source = ASTSource(launch.kernel, signature, constants, attributes)
    options = {
        "num_warps": launch.warps,
        "num_stages": launch.stages,
        "enable_fp_fusion": False,
    }
    compiled = triton.compile(source, target=TARGETS[target], options=options)
    read = _read_amd if target.startswith("gfx") else _read_nvidia
    registers, spilled, matrix = read(compiled)
    return Built(launch.kernel.__name__, registers, spilled, compiled.metadata.shared, matrix)


def _read_nvidia(compiled):
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = subprocess.run(
            [tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    registers, stack = (int(re.search(rf"{key}:(\d+)", usage)[1]) for key in ("REG", "STACK"))
    ptx = compiled.asm["ptx"]
    spilled = _spilled(ptx) if stack else 0
    kinds = {"tcgen05": "tcgen05.mma", "wgmma": "wgmma.mma_async", "mma": "mma.sync"}
    return registers, spilled, ", ".join(k for k, text in kinds.items() if text in ptx)


def _spilled(ptx):
    """Bytes of spilled registers; a stack frame may also hold something else."""
    name = re.search(r"\.target (\w+)", ptx)[1]
    assembler = get_ptxas(int(re.search(r"\d+", name)[0])).path
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        report = subprocess.run(
            [assembler, "-v", f"--gpu-name={name}", file.name, "-o", os.devnull],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
    return sum(int(n) for n in re.findall(r"(\d+) bytes spill", report))


def _read_amd(compiled):
    text = compiled.asm["amdgcn"]
    registers, spilled = (
        int(re.search(rf"\.{key}:\s*(\d+)", text)[1]) for key in ("vgpr_count", "vgpr_spill_count")
    )
    return registers, spilled, "mfma" if "v_mfma" in text else ""
