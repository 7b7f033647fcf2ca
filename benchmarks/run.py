"""Time MhcPre and MhcPreBackward against eager torch, torch.compile and the machine's limits.

    python benchmarks/run.py [--quick] [--repeats 9] [--threads 2] [--skip-tests] [--page]

Variants are interleaved in one process, and every row carries the limits probed in the same run:
FMA throughput of the instruction set in use, and reading bandwidth of memory and of one core's L2.
Runs the operator's tests first and prints no speed on red. Writes one JSON line a row; with --page
the table and picture of docs/performance.md.
"""

import argparse
import ctypes
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from mhc_ops import __version__, _native, mhc_pre_backward, mhc_pre_forward
from mhc_ops.testing import make_pre_inputs

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import baselines, page
from benchmarks.registry import COMPILED, COSTS, SHAPES, TESTS, Shape

ROOT = Path(__file__).parent.parent
L2_BYTES = 256 << 10


def main() -> int:
    options = _options()
    torch.set_num_threads(options.threads)
    if not options.skip_tests:
        red = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-m", "not long", *TESTS], cwd=ROOT, check=False
        ).returncode
        if red:
            print("the operator's tests are red: no speed is reported")
            return 1
    rows = []
    load = os.getloadavg()[0]
    for shape in SHAPES:
        rows += [{**row, "load": load} for row in measure(shape, options)]
        for row in rows[-2:]:
            print(page.line(row), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / f"pre-{platform.machine()}-{options.threads}.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    if options.page:
        page.write(rows, ROOT / "docs")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without torch.compile")
    parser.add_argument("--skip-tests", action="store_true", help="the tests ran a moment ago")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


def measure(shape: Shape, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Two rows, forward and backward, each with the median time of every variant in ms."""
    rows = []
    for direction in ("forward", "backward"):
        compiled = shape in COMPILED and not options.quick
        variants = _variants(shape, direction, compiled)
        times: dict[str, list[float]] = {name: [] for name in variants}
        fma, memory, cache = [], [], []
        library, threads = _native.library(), options.threads
        calls = {name: _calls(run) for name, run in variants.items()}
        for _ in range(options.repeats):
            fma.append(library.mhc_ops_probe_fma(threads))
            memory.append(library.mhc_ops_probe_read(64 << 20, threads))
            cache.append(library.mhc_ops_probe_read(L2_BYTES, 1))
            for name, run in variants.items():
                begin = time.perf_counter()
                for _ in range(calls[name]):
                    run()
                times[name].append((time.perf_counter() - begin) / calls[name] * 1e3)
        cost = COSTS[direction](shape)
        peak, bandwidth = median(fma), median(memory)
        floor = max(cost.flops / peak, cost.bytes / bandwidth) * 1e-6
        typical = {name: median(t) for name, t in times.items()}
        rows.append(
            {
                "operator": "mhc_pre",
                "direction": direction,
                "T": shape.T,
                "N": shape.N,
                "D": shape.D,
                "dtype": "bfloat16",
                "ms": typical,
                "spread_ms": {name: [min(t), max(t)] for name, t in times.items()},
                "floor_ms": floor,
                "gflops": cost.flops / typical["ours"] * 1e-6,
                "gbytes_per_s": cost.bytes / typical["ours"] * 1e-6,
                "fma_gflops": peak,
                "memory_gb_s": bandwidth,
                "l2_gb_s": median(cache),
                "peak_extra_mb": _extra_megabytes(variants["ours, preallocated"]),
                "kernels": _native.describe(),
                "threads": threads,
                "torch": torch.__version__,
                "mhc_ops": __version__,
                "commit": _commit(),
            }
        )
    return rows


def _calls(run: Callable[[], Any]) -> int:
    """Warm up, and say how many calls fill about 20 ms."""
    run()
    begin = time.perf_counter()
    run()
    return max(1, min(200, int(0.02 / (time.perf_counter() - begin))))


def _variants(shape: Shape, direction: str, compiled: bool) -> dict[str, Callable[[], Any]]:
    c = make_pre_inputs(shape.T, shape.N, shape.D)
    saved = mhc_pre_forward(*c.forward_args, impl="reference")
    args = (
        c.x, c.phi, c.alpha, c.grad_h_in, c.grad_h_post, c.grad_h_res, saved.inv_rms, saved.h_mix,
        saved.h_pre, saved.h_post, c.gamma, c.grad_x_post,
    )  # fmt: skip
    if direction == "forward":
        out = mhc_pre_forward(*c.forward_args, impl="cpu")
        found: dict[str, Callable[[], Any]] = {
            "ours": lambda: mhc_pre_forward(*c.forward_args, impl="cpu"),
            "ours, preallocated": lambda: mhc_pre_forward(*c.forward_args, impl="cpu", out=out),
            "torch": lambda: mhc_pre_forward(*c.forward_args, impl="torch"),
            "eager": lambda: baselines.eager(*c.forward_args),
        }
        if compiled:
            program = torch.compile(baselines.eager, dynamic=False)
            found["compiled"] = lambda: program(*c.forward_args)
        return found
    out = mhc_pre_backward(*args, impl="cpu")
    found = {
        "ours": lambda: mhc_pre_backward(*args, impl="cpu"),
        "ours, preallocated": lambda: mhc_pre_backward(*args, impl="cpu", out=out),
        "ours, grad_x alone": lambda: mhc_pre_backward(*args, impl="cpu", wanted=("x",)),
        "ours, parameters alone": lambda: mhc_pre_backward(
            *args, impl="cpu", wanted=("phi", "alpha", "bias", "gamma")
        ),
        "torch": lambda: mhc_pre_backward(*args, impl="torch"),
        "eager": _autograd(baselines.eager, c),
    }
    if compiled:
        program = torch.compile(baselines.manual, dynamic=False)
        found["compiled formula"] = lambda: program(*args)
        found["compiled autograd"] = _autograd(torch.compile(baselines.eager, dynamic=False), c)
    return found


def _autograd(program: Callable[..., Any], c: Any) -> Callable[[], Any]:
    """The backward alone of a differentiable program, which adds post's gradient afterwards."""
    leaves = [t.detach().clone().requires_grad_() for t in c.forward_args]
    outputs = program(*leaves)

    def run() -> Any:
        upstream = (c.grad_h_in, c.grad_h_post, c.grad_h_res)
        grad_x, *rest = torch.autograd.grad(outputs, leaves, upstream, retain_graph=True)
        return (grad_x + c.grad_x_post, *rest)

    return run


def _extra_megabytes(run: Callable[[], Any]) -> float:
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


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
