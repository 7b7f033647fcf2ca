"""Time every operator on a GPU, beside eager torch, torch.compile and Liger-Kernel.

    python benchmarks/gpu.py [--skip-tests] [--minutes 8] [--out benchmarks/results]
    TRITON_INTERPRET=1 python benchmarks/gpu.py --dry-run     # tiny shapes on the CPU, no figures

tests/gpu come first, and no speed is reported on red. Times are medians of CUDA events with the L2
cache flushed before each run; GB/s counts the fewest bytes the operator can move and stands beside
a measured copy. Prints a table, writes gpu-DEVICE.json; a dry run writes nothing. A minute before
the end nothing new is started, and at the end the process leaves with what it has, status 3.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import mhc_ops
from mhc_ops import tuning
from mhc_ops.testing import make_post_inputs, make_post_pre_inputs, make_pre_inputs

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import baselines, registry
from benchmarks.registry import Shape

ROOT = Path(__file__).parent.parent
SHAPES = (Shape(8192, 4, 4096), Shape(4096, 4, 7168), Shape(1, 4, 7168), Shape(64, 4, 7168))
TINY = (Shape(5, 4, 64),)
Timer = Callable[[Callable[[], Any]], float]
Variants = dict[str, Callable[[], Any]]


def main() -> int:
    options = _options()
    device = "cpu" if options.dry_run else "cuda"
    if not options.dry_run and not torch.cuda.is_available():
        print("no NVIDIA or AMD GPU here; --dry-run runs the script on the CPU")
        return 2
    end = time.monotonic() + 60 * options.minutes
    rows: list[dict[str, Any]] = []
    watch = threading.Timer(60 * options.minutes, _leave, (options, rows))
    watch.daemon = True
    watch.start()
    if not (options.skip_tests or options.dry_run):
        command = [sys.executable, "-m", "pytest", "-q", "tests/gpu"]
        if subprocess.run(command, cwd=ROOT, check=False, timeout=30 * options.minutes).returncode:
            print("tests/gpu are red: no speed is reported")
            return 1
    timer = _stopwatch(device)
    for shape in TINY if options.dry_run else SHAPES:
        copy = _copy_rate(shape, device, timer)
        for operator, (cost, variants) in _operators(shape, device).items():
            row = {"operator": operator, **shape._asdict(), "bytes": cost, "copy_gb_s": copy}
            for name, call in variants.items():
                if time.monotonic() < end - 60:
                    row[name] = _measured(call, timer)
            if "triton" in row and isinstance(row["triton"], float):
                row["gb_s"] = cost / row["triton"] / 1e3
            rows.append(row)
            print(_line(row), flush=True)
    watch.cancel()
    _write(options, rows)
    if not options.dry_run:
        return 0
    broken = [f"{r['operator']}: {r['triton']}" for r in rows if not isinstance(r["triton"], float)]
    print("\n".join(broken))
    return 1 if broken else 0


def _leave(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    print(f"{options.minutes} minutes are over", flush=True)
    _write(options, rows)
    os._exit(3)


def _write(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    if options.dry_run:
        return
    options.out.mkdir(parents=True, exist_ok=True)
    name = torch.cuda.get_device_name().replace(" ", "-")
    record = json.dumps({**_facts(), "rows": list(rows)}, indent=1)
    (options.out / f"gpu-{name}.json").write_text(record + "\n")


def _facts() -> dict[str, str]:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {
        "device": device,
        "torch": torch.__version__,
        "triton": version("triton"),
        "mhc_ops": mhc_ops.__version__,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip-tests", action="store_true", help="the tests ran a moment ago")
    parser.add_argument("--dry-run", action="store_true", help="check the script, without a GPU")
    parser.add_argument("--minutes", type=float, default=8.0, help="the budget")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


def _stopwatch(device: str) -> Callable[[Callable[[], Any]], float]:
    """Microseconds of a call; on the CPU of one run, which is no figure."""
    if device == "cuda":
        return tuning.Stopwatch(device)

    def once(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e6

    return once


def _measured(call: Callable[[], Any], timer: Timer) -> float | str:
    """A baseline that fails is a line of the record, not the end of the run."""
    try:
        return timer(call)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _copy_rate(shape: Shape, device: str, timer: Timer) -> float:
    """GB/s of a plain copy of a tensor like x, reads and writes counted."""
    source = torch.empty(shape.elements, dtype=torch.bfloat16, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / timer(lambda: target.copy_(source)) / 1e3


def _line(row: dict[str, Any]) -> str:
    names = ("triton", "eager", "compiled", "liger")
    times = "  ".join(
        f"{name} {row[name]:.1f} us" if isinstance(row.get(name), float) else f"{name} -"
        for name in names
    )
    shape = f"({row['T']}, {row['N']}, {row['D']})"
    rate = f"{row.get('gb_s', 0):.0f} of {row['copy_gb_s']:.0f} GB/s"
    return f"{row['operator']:<24}{shape:<18}{times}  {rate}"


def _operators(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    """The fewest bytes and the callables of every operator."""
    made: dict[str, tuple[int, Variants]] = {}
    for room in (_pre, _post, _pre_sinkhorn, _post_pre, _small, _head):
        made |= room(s, device)
    return made


def _pre(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    c = make_pre_inputs(s.T, s.N, s.D, device=device)
    plain = mhc_ops.mhc_pre_forward(*c.forward_args, impl="triton")
    upstream = (c.grad_h_in, c.grad_h_post, c.grad_h_res)

    def backward(post: bool) -> Callable[[], Any]:
        args = (c.x, c.phi, c.alpha, *upstream, plain.inv_rms, plain.h_mix, plain.h_pre)
        extra = c.grad_x_post if post else None
        return lambda: mhc_ops.mhc_pre_backward(*args, plain.h_post, c.gamma, extra, impl="triton")

    function = baselines.pre
    eager = _differentiated(function, c.forward_args, upstream)
    compiled = _compiled(function, device)
    bytes_backward = registry.pre_backward(s).bytes
    return {
        "pre forward": (
            registry.pre_forward(s).bytes,
            {
                "triton": lambda: mhc_ops.mhc_pre_forward(*c.forward_args, impl="triton"),
                "eager": lambda: function(*c.forward_args),
                "compiled": lambda: compiled(*c.forward_args),
            },
        ),
        "pre backward": (
            bytes_backward - 2 * s.elements,
            {
                "triton": backward(False),
                "eager": eager,
                "compiled": _differentiated(compiled, c.forward_args, upstream),
            },
        ),
        "pre backward, x_post": (bytes_backward, {"triton": backward(True)}),
    }


def _post(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    c = make_post_inputs(s.T, s.N, s.D, bias=False, device=device)
    function = baselines.post
    compiled = _compiled(function, device)
    forward: Variants = {
        "triton": lambda: mhc_ops.mhc_post_forward(*c.forward_args, impl="triton"),
        "eager": lambda: function(*c.forward_args),
        "compiled": lambda: compiled(*c.forward_args),
    }
    backward: Variants = {
        "triton": lambda: mhc_ops.mhc_post_backward(*c.backward_args, impl="triton"),
        "eager": _differentiated(function, c.forward_args, (c.grad_out,)),
        "compiled": _differentiated(compiled, c.forward_args, (c.grad_out,)),
    }
    liger = _liger("liger_mhc_post_res")
    if liger is not None:
        theirs = c.h_res.transpose(1, 2).contiguous() if c.h_res is not None else None
        forward["liger"] = lambda: liger(c.x, c.h_out, c.h_post, theirs)
        backward["liger"] = _differentiated(liger, (c.x, c.h_out, c.h_post, theirs), (c.grad_out,))
    return {
        "post forward": (registry.post_forward(s).bytes, forward),
        "post backward": (
            registry.post_backward(s).bytes,
            backward,
        ),
    }


def _pre_sinkhorn(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    c = make_pre_inputs(s.T, s.N, s.D, device=device)
    fwd = mhc_ops.mhc_pre_sinkhorn_forward(*c.forward_args, impl="triton")
    upstream = (c.grad_h_in, c.grad_h_post, c.grad_h_res)
    saved = (fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post)
    args = (*c.forward_args[:4], *upstream, *saved, c.gamma, c.grad_x_post)
    function = baselines.pre_sinkhorn
    compiled = _compiled(function, device)
    there: Variants = {
        "triton": lambda: mhc_ops.mhc_pre_sinkhorn_forward(*c.forward_args, impl="triton"),
        "eager": lambda: function(*c.forward_args),
        "compiled": lambda: compiled(*c.forward_args),
    }
    back: Variants = {
        "triton": lambda: mhc_ops.mhc_pre_sinkhorn_backward(*args, impl="triton"),
        "eager": _differentiated(function, c.forward_args, upstream),
        "compiled": _differentiated(compiled, c.forward_args, upstream),
    }
    coefficients, apply = _liger("liger_mhc_coeffs"), _liger("liger_mhc_pre")
    if coefficients is not None and apply is not None:
        phi = c.phi.T.contiguous()

        def theirs(x: Any, phi: Any, bias: Any, *alpha: Any) -> Any:
            h_pre, h_post, h_res = coefficients(x, phi, bias, *alpha)
            return apply(x, h_pre), h_post, h_res

        given = (c.x, phi, c.bias, *c.alpha)
        there["liger"] = lambda: theirs(*given)
        back["liger"] = _differentiated(theirs, given, upstream)
    small = 4 * s.T * s.N * s.N
    return {
        "pre_sinkhorn forward": (registry.pre_forward(s).bytes + small, there),
        "pre_sinkhorn backward": (registry.pre_backward(s).bytes + small, back),
    }


def _post_pre(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    c = make_post_pre_inputs(s.T, s.N, s.D, out_bias=False, device=device)
    made = mhc_ops.mhc_post_pre_forward(*c[:8], impl="triton")
    upstream = (c.grad_x_next, c.grad_h_in, c.grad_h_post_next, c.grad_h_res_next)
    saved = (made.x_next, made.inv_rms, made.h_mix, made.h_pre, made.h_post)
    function = baselines.post_pre
    compiled = _compiled(function, device)
    return {
        "post_pre forward": (
            registry.post_pre_forward(s).bytes,
            {
                "triton": lambda: mhc_ops.mhc_post_pre_forward(*c[:8], impl="triton"),
                "eager": lambda: function(*c[:8]),
                "compiled": lambda: compiled(*c[:8]),
            },
        ),
        "post_pre backward": (
            registry.post_pre_backward(s).bytes,
            {
                "triton": lambda: mhc_ops.mhc_post_pre_backward(
                    *c[:7], *upstream, *saved, c.gamma, impl="triton"
                ),
                "eager": _differentiated(function, c[:8], upstream),
                "compiled": _differentiated(compiled, c[:8], upstream),
            },
        ),
    }


def _small(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    """The operators on the few numbers a token."""
    generator = torch.Generator().manual_seed(0)
    made: dict[str, tuple[int, Variants]] = {}
    for name, function, entries in (
        ("sinkhorn", baselines.sinkhorn, s.N * s.N),
        ("permutation_mix", None, 24),
    ):
        logits = torch.randn(s.T, entries, generator=generator).to(device)
        grad = torch.randn(s.T, s.N, s.N, generator=generator).to(device)
        z = logits.view(s.T, s.N, s.N) if function else logits
        forward = getattr(mhc_ops, f"{name}_forward")
        backward = getattr(mhc_ops, f"{name}_backward")
        there: Variants = {"triton": lambda f=forward, z=z: f(z, impl="triton")}
        back: Variants = {"triton": lambda f=backward, z=z, g=grad: f(z, g, impl="triton")}
        if function is not None:
            compiled = _compiled(function, device)
            there |= {
                "eager": lambda z=z, f=function: f(z),
                "compiled": lambda z=z, f=compiled: f(z),
            }
            back |= {
                "eager": _differentiated(function, (z,), (grad,)),
                "compiled": _differentiated(compiled, (z,), (grad,)),
            }
        cells = s.N * s.N
        made[f"{name} forward"] = (4 * s.T * (entries + cells), there)
        made[f"{name} backward"] = (4 * s.T * (2 * entries + cells), back)
    return made


def _head(s: Shape, device: str) -> dict[str, tuple[int, Variants]]:
    c = make_pre_inputs(s.T, s.N, s.D, residual="none", device=device)
    args = (c.x, c.phi[: s.N].contiguous(), c.bias[: s.N].contiguous(), c.alpha[:1].contiguous())
    fwd = mhc_ops.stream_head_forward(*args, impl="triton")
    x, fn, _, scale = args
    parameters = 4 * s.N * s.N * s.D
    return {
        "stream_head forward": (
            2 * s.elements + 2 * s.T * s.D + parameters,
            {"triton": lambda: mhc_ops.stream_head_forward(*args, impl="triton")},
        ),
        "stream_head backward": (
            4 * s.elements + 2 * s.T * s.D + 2 * parameters,
            {
                "triton": lambda: mhc_ops.stream_head_backward(
                    x, fn, scale, c.grad_h_in, fwd.inv_rms, fwd.h_mix, fwd.h_pre, impl="triton"
                )
            },
        ),
    }


def _compiled(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """A dry run on the CPU skips Inductor, which takes minutes there and times nothing."""
    return torch.compile(function, backend="inductor" if device == "cuda" else "eager")


def _differentiated(
    function: Callable[..., Any], args: Any, upstream: tuple[Any, ...]
) -> Callable[[], Any]:
    """The backward alone: its graph is recorded at the first call and kept."""
    graph: list[Any] = []

    def run() -> Any:
        if not graph:
            leaves = [None if t is None else t.detach().requires_grad_() for t in args]
            outputs = function(*leaves)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            graph.extend((outputs, [t for t in leaves if t is not None]))
        return torch.autograd.grad(graph[0], graph[1], upstream, retain_graph=True)

    return run


def _liger(name: str) -> Callable[..., Any] | None:
    try:
        from liger_kernel.transformers import functional
    except ImportError:
        return None
    return getattr(functional, name, None)


if __name__ == "__main__":
    sys.exit(main())
