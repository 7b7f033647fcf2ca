"""mhc-ops info: what is installed here, which implementations work, and which one `auto` takes."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from .. import _native, explain
from ..aclnn.spec import OPERATORS
from ..impls import obstacle
from ..types import Impl
from ..version import __version__
from .output import GOOD, JsonFlag, console, mark, print_json, table

_PACKAGES = ("numpy", "safetensors", "triton", "typer")


def info(as_json: JsonFlag = False) -> int:
    """Print versions, devices, implementations, and what `auto` picks and why."""
    facts = _facts()
    if as_json:
        print_json(facts)
    else:
        _print(facts)
    return GOOD


def _facts() -> dict[str, Any]:
    devices = _devices()
    return {
        "mhc_ops": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "byteorder": sys.byteorder,
        "torch": torch.__version__,
        "torch_build": {
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "git": torch.version.git_version,
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        },
        "packages": {name: _version(name) for name in _PACKAGES},
        "threads": {
            "intra_op": torch.get_num_threads(),
            "inter_op": torch.get_num_interop_threads(),
        },
        "devices": devices,
        "cpu_kernels": _native.describe(),
        "implementations": [
            {
                "impl": impl.value,
                "device": device["name"],
                "obstacle": obstacle(impl, torch.device(device["name"]), torch.bfloat16),
            }
            for device in devices
            for impl in Impl
            if impl is not Impl.AUTO
        ],
        "auto": {device["name"]: _explain(device["name"]) for device in devices},
        "operators": {
            spec.name: {"calls": [api.name for api in spec.apis], "socs": list(spec.op_api)}
            for spec in OPERATORS.values()
        },
    }


def _print(facts: dict[str, Any]) -> None:
    build, threads = facts["torch_build"], facts["threads"]
    versions = (
        f"{facts['torch']} (CUDA {build['cuda'] or 'no'}, HIP {build['hip'] or 'no'},"
        f" CPU {build['cpu_capability']})"
    )
    out = console()
    rows = [
        ("mhc-ops", facts["mhc_ops"]),
        ("python", f"{facts['python']} on {facts['platform']}"),
        ("torch", versions),
        *((name, found or "not installed") for name, found in facts["packages"].items()),
        ("threads", f"{threads['intra_op']} intra-op, {threads['inter_op']} inter-op"),
        ("cpu kernels", facts["cpu_kernels"]),
        *(("device", f"{device['name']}: {device['model']}") for device in facts["devices"]),
    ]
    out.print(table(("", ""), rows, header=False))
    out.print()
    obstacles = (
        (i["impl"], i["device"], mark(not i["obstacle"], ("yes", "no")), i["obstacle"] or "")
        for i in facts["implementations"]
    )
    out.print(table(("impl", "device", "works", "why not"), obstacles))
    operators = (
        (name, ", ".join(known["calls"]), ", ".join(known["socs"]))
        for name, known in facts["operators"].items()
    )
    out.print()
    out.print(table(("operator", "aclnn calls", "chips"), operators))
    for text in facts["auto"].values():
        out.print()
        out.print(text)


def _explain(device: str) -> str:
    """What `auto` takes for a bfloat16 call on this device."""
    return explain("mhc_pre", torch.empty(0, dtype=torch.bfloat16, device=device))


def _devices() -> list[dict[str, str]]:
    found = [{"name": "cpu", "model": platform.processor() or platform.machine()}]
    for index in range(torch.cuda.device_count()):
        found.append({"name": f"cuda:{index}", "model": torch.cuda.get_device_name(index)})
    if torch.backends.mps.is_available():
        found.append({"name": "mps", "model": "Apple GPU"})
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
