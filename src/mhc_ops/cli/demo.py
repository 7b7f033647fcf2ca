"""mhc-ops demo: the main job on generated data, checked against float64 and timed."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Annotated, Any, NamedTuple

import torch
import typer

from .. import mhc_pre, mhc_pre_forward
from ..errors import ArgumentError
from ..impls import resolve
from ..testing import PreInputs, make_pre_inputs
from ..types import Impl, MhcPreBackward
from .demo_checks import Checked, backward_from, bound_in_words, check_backward, check_forward
from .output import (
    GOOD,
    NOT_EQUAL,
    JsonFlag,
    console,
    mark,
    print_json,
    progress,
    shape_name,
    table,
)
from .run import parse_device
from .socs import Acceptance, accepting_socs

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
}
_SHOWN = 4


class Times(NamedTuple):
    """Median seconds of interleaved runs."""

    forward: float
    backward: float
    eager_forward: float
    eager_backward: float


def demo(
    tokens: Annotated[int, typer.Option(min=1, help="T, number of tokens.")] = 1024,
    streams: Annotated[int, typer.Option(min=1, max=64, help="N, residual streams.")] = 4,
    dim: Annotated[int, typer.Option(min=1, help="D, features of a stream.")] = 512,
    dtype: Annotated[str, typer.Option(help="Of x: " + ", ".join(DTYPES) + ".")] = "bf16",
    seed: Annotated[int, typer.Option(min=0, max=2**40, help="Of the generated inputs.")] = 0,
    gamma: Annotated[bool, typer.Option(help="Scale x by a gamma before the projection.")] = True,
    impl: Annotated[str, typer.Option(help="auto, reference, torch, cpu, triton or npu.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32 or hf32.")] = "fp32",
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")] = "cpu",
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each variant.")] = 5,
    as_json: JsonFlag = False,
) -> int:
    """Run MhcPre and MhcPreBackward on seeded data; check, time and show what comes out."""
    if dtype not in DTYPES:
        raise ArgumentError(f"unknown dtype {dtype!r}; known are {', '.join(DTYPES)}.")
    inputs = make_pre_inputs(
        tokens,
        streams,
        dim,
        dtype=DTYPES[dtype],
        gamma=gamma,
        grad_x_post=False,
        seed=seed,
        device=parse_device(device),
    )
    options: dict[str, Any] = {"impl": impl, "precision": precision}
    with torch.no_grad(), progress(5 + 2 * repeats, "running") as step:
        forward = mhc_pre_forward(*inputs.forward_args, **options)
        backward = backward_from(inputs, forward, **options)
        step("checking against float64")
        checks = [*check_forward(inputs, forward, precision)]
        step()
        checks += check_backward(inputs, forward, backward, precision)
        step("timing")
        times = _time(inputs, options, repeats, step)
    socs = accepting_socs(inputs, forward, backward, precision)
    chosen = resolve("mhc_pre_forward", Impl(impl), inputs.x).value
    good = all(check.good for check in checks)

    setting = {
        "tokens": tokens,
        "streams": streams,
        "dim": dim,
        "dtype": dtype,
        "seed": seed,
        "gamma": gamma,
        "impl": chosen,
        "precision": precision,
        "device": device,
        "threads": torch.get_num_threads(),
    }
    if as_json:
        print_json(
            {
                "good": good,
                "setting": setting,
                "bound": bound_in_words(precision),
                "outputs": [check._asdict() for check in checks],
                "seconds": times._asdict(),
                "repeats": repeats,
                "socs": [soc._asdict() for soc in socs],
                "first_values": {name: values for name, _, values in _first_values(backward)},
            }
        )
    else:
        _print(setting, impl, checks, times, repeats, socs, backward)
    return GOOD if good else NOT_EQUAL


def _time(
    inputs: PreInputs, options: dict[str, Any], repeats: int, step: Callable[[], None]
) -> Times:
    """Time the operators beside eager autograd of the same equations, taking turns."""
    leaves = inputs.map(lambda t: t.detach().clone().requires_grad_())
    wanted = [t for t in leaves.forward_args if t is not None]
    given = [inputs.grad_h_in, inputs.grad_h_post, inputs.grad_h_res]
    seconds: list[list[float]] = [[], [], [], []]

    def timed(slot: int, call: Callable[[], Any]) -> Any:
        _finish(inputs.x)
        begin = time.perf_counter()
        result = call()
        _finish(inputs.x)
        seconds[slot].append(time.perf_counter() - begin)
        return result

    for _ in range(repeats + 1):
        saved = timed(0, lambda: mhc_pre_forward(*inputs.forward_args, **options))
        timed(1, partial(backward_from, inputs, saved, **options))
        step()
        with torch.enable_grad():
            outputs = timed(2, lambda: mhc_pre(*leaves.forward_args, impl="reference"))[:3]
            timed(3, partial(torch.autograd.grad, outputs, wanted, given))
        step()
    return Times(*(median(runs[1:]) for runs in seconds))  # the first run of each warms up


def _finish(x: torch.Tensor) -> None:
    """Wait until the device of x has done its work."""
    if x.device.type != "cpu":
        torch.accelerator.synchronize(x.device)


def _first_values(gradients: MhcPreBackward) -> Iterator[tuple[str, str, list[float]]]:
    for name, gradient in gradients._asdict().items():
        if gradient is not None:
            yield name, shape_name(gradient), gradient.flatten()[:_SHOWN].tolist()


def _print(
    setting: dict[str, Any],
    impl: str,
    checks: list[Checked],
    times: Times,
    repeats: int,
    socs: list[Acceptance],
    gradients: MhcPreBackward,
) -> None:
    out = console()
    s = setting
    gamma = "with" if s["gamma"] else "without"
    chosen = f"{s['impl']} (chosen by auto)" if impl == "auto" else s["impl"]
    out.print(
        f"MhcPre and MhcPreBackward on T={s['tokens']} N={s['streams']} D={s['dim']} {s['dtype']},"
        f" {gamma} gamma, seed {s['seed']}"
    )
    out.print(f"impl {chosen}, precision {s['precision']}, {s['device']}, {s['threads']} threads")

    out.print()
    errors = [
        (
            c.name,
            c.shape,
            c.dtype,
            f"{c.error:.2e}",
            f"{c.bound:.2e}",
            f"{c.eager_error:.2e}",
            mark(c.good),
        )
        for c in checks
    ]
    columns = ("output", "shape", "dtype", ">error", ">bound", ">float32 eager", "")
    out.print(table(columns, errors))
    out.print(f"Against float64: {bound_in_words(s['precision'])}")

    out.print()
    ours, eager = times[:2], times[2:]
    pairs = zip(("forward", "backward"), ours, eager, strict=True)
    durations = [
        (what, f"{a * 1e3:.2f} ms", f"{b * 1e3:.2f} ms", f"{b / a:.2f}x")
        for what, a, b in (*pairs, ("both", sum(ours), sum(eager)))
    ]
    out.print(table(("", ">this", ">eager autograd", ">ratio"), durations))
    out.print(f"Median of {repeats} interleaved runs, outputs allocated by every call")

    out.print()
    answers = ((a.soc, a.op, mark(a.accepts, ("accepts", "refuses")), a.refusal) for a in socs)
    out.print(table(("soc", "operator", "", ""), answers))

    out.print()
    values = (
        (name, shape, "  ".join(f"{value: .6e}" for value in first))
        for name, shape, first in _first_values(gradients)
    )
    out.print(table(("gradient", "shape", "first values"), values))

    out.print()
    failures = [check.failure for check in checks if not check.good]
    for failure in failures:
        out.print(failure)
    total = len(checks)
    out.print(
        f"{len(failures)} of {total} outputs outside their bound"
        if failures
        else f"all {total} outputs within their bound"
    )
