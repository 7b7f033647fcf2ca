"""Interleaved timing of one operator's variants, with the machine's limits probed in between."""

import ctypes
import subprocess
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import torch

from mhc_ops import __version__, _native

from .registry import OPERATORS, Shape

ROOT = Path(__file__).parent.parent
L2_BYTES = 256 << 10
SECONDS = 12.0  # for the repetitions of a row, beyond the first three


def measure(
    operator: str, direction: str, shape: Shape, *, repeats: int, threads: int, compiled: bool
) -> dict[str, Any]:
    """One row: the median time of every variant in ms, and what the machine could have done."""
    module = import_module(f"benchmarks.variants.{operator}")
    found = module.variants(shape, direction, compiled and shape in OPERATORS[operator].compiled)
    times: dict[str, list[float]] = {name: [] for name in found}
    fma, memory, cache = [], [], []
    library = _native.library()
    calls = {name: _calls(run) for name, run in found.items()}
    begin_row = time.perf_counter()
    for repeat in range(repeats):
        if repeat >= 3 and time.perf_counter() - begin_row > SECONDS:
            break
        fma.append(library.mhc_ops_probe_fma(threads))
        memory.append(library.mhc_ops_probe_read(64 << 20, threads))
        cache.append(library.mhc_ops_probe_read(L2_BYTES, 1))
        for name, run in found.items():
            begin = time.perf_counter()
            for _ in range(calls[name]):
                run()
            times[name].append((time.perf_counter() - begin) / calls[name] * 1e3)
    cost = OPERATORS[operator].costs[direction](shape)
    peak, bandwidth = median(fma), median(memory)
    typical = {name: median(t) for name, t in times.items()}
    kept = module.kept_bytes(shape) if hasattr(module, "kept_bytes") else {}
    return {
        "operator": operator,
        "direction": direction,
        "T": shape.T,
        "N": shape.N,
        "D": shape.D,
        "dtype": "bfloat16",
        "ms": typical,
        "spread_ms": {name: [min(t), max(t)] for name, t in times.items()},
        "repeats": len(fma),
        "floor_ms": max(cost.flops / peak, cost.bytes / bandwidth) * 1e-6,
        "bound": "arithmetic" if cost.flops / peak > cost.bytes / bandwidth else "memory",
        "gflops": cost.flops / typical["ours"] * 1e-6,
        "gbytes_per_s": cost.bytes / typical["ours"] * 1e-6,
        "fma_gflops": peak,
        "memory_gb_s": bandwidth,
        "l2_gb_s": median(cache),
        "phi_from_l2_ms": 4 * shape.F * shape.N * shape.D / median(cache) * 1e-6,
        "kept_bytes": kept,
        "peak_extra_mb": extra_megabytes(found.get("ours, preallocated", found["ours"])),
        "kernels": _native.describe(),
        "threads": threads,
        "torch": torch.__version__,
        "mhc_ops": __version__,
        "commit": commit(),
    }


def _calls(run: Callable[[], Any]) -> int:
    """Warm up, and say how many calls fill about 20 ms."""
    run()
    begin = time.perf_counter()
    run()
    return max(1, min(200, int(0.02 / (time.perf_counter() - begin))))


def extra_megabytes(run: Callable[[], Any]) -> float:
    """How far one call pushes the resident size beyond its inputs and outputs; Linux alone.

    In a thread of its own, since the kernels keep a workspace for each calling thread.
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status_kb("VmRSS")
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return (_status_kb("VmHWM") - before) / 1024


def _status_kb(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return next(int(row.split()[1]) for row in text.splitlines() if row.startswith(field))


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
