"""Measures the Triton kernels' candidate tiles on the GPU at hand; the command is `mhc-ops tune`.

Imported by that command and by benchmarks alone; needs the extra [gpu].
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from triton import OutOfResources

from . import (
    mhc_post_backward,
    mhc_post_forward,
    mhc_post_pre_backward,
    mhc_post_pre_forward,
    mhc_pre_backward,
    mhc_pre_forward,
)
from .ops.common.triton_host import Tile, target
from .ops.common.triton_table import Key, candidates, key, trying
from .testing import make_post_inputs, make_post_pre_inputs, make_pre_inputs

Call = Callable[[], Any]
Timer = Callable[[Call], float]


class Shape(NamedTuple):
    """What is tuned: N streams of D channels in one dtype. T is measured with, not tuned for."""

    streams: int
    dim: int
    dtype: torch.dtype


class Tuned(NamedTuple):
    """The best tile of one kernel at one shape, and the microseconds of every tile tried.

    None stands for the tile that the rule chooses.
    """

    key: Key
    tile: Tile | None
    times: dict[Tile | None, float]


class Stopwatch:
    """Median microseconds of a call by GPU events, the L2 cache flushed before each run."""

    def __init__(self, device: torch.device | str, runs: int = 20) -> None:
        self.runs = runs
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device=device)

    def __call__(self, call: Call) -> float:
        for _ in range(3):
            call()
        times = []
        for _ in range(self.runs):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flush.zero_()
            begin.record()
            call()
            end.record()
            times.append((begin, end))
        torch.cuda.synchronize()
        return float(median(begin.elapsed_time(end) for begin, end in times)) * 1e3


def tune(shape: Shape, tokens: int, device: torch.device, timer: Timer) -> Iterator[Tuned]:
    """The best of the rule's tile and each kernel's candidates, by the time of the operator that
    launches it.

    A kernel tuned before keeps its best tile while the next one is measured. A candidate that takes
    more shared memory than the device has is passed over.
    """
    best: dict[Key, Tile] = {}
    for kernel, x, rows, call in _calls(shape, tokens, device):
        entry = key(kernel, x, shape.streams, rows)
        times: dict[Tile | None, float] = {}
        with trying(best):
            times[None] = timer(call)
        for tile in candidates(kernel, target(device)):
            with suppress(OutOfResources), trying({**best, entry: tile}):
                times[tile] = timer(call)
        fastest = min(times, key=lambda tile: times[tile])
        if fastest is not None:
            best[entry] = fastest
        yield Tuned(entry, fastest, times)


def _calls(
    shape: Shape, tokens: int, device: torch.device
) -> Iterator[tuple[str, Tensor, int, Call]]:
    """Kernel, leading tensor, rows of phi, and a call that launches the kernel."""
    sizes = (tokens, shape.streams, shape.dim)
    pre = make_pre_inputs(*sizes, dtype=shape.dtype, device=device)
    rows = len(pre.phi)
    fwd = mhc_pre_forward(*pre.forward_args, impl="triton")
    yield (
        *("pre_mix_fwd_kernel", pre.x, rows),
        lambda: mhc_pre_forward(*pre.forward_args, impl="triton"),
    )
    upstream = (pre.grad_h_in, pre.grad_h_post, pre.grad_h_res)
    saved = (fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post)
    yield (
        *("pre_main_bwd_kernel", pre.x, rows),
        lambda: mhc_pre_backward(
            pre.x, pre.phi, pre.alpha, *upstream, *saved, pre.gamma, pre.grad_x_post, impl="triton"
        ),
    )
    post = make_post_inputs(*sizes, dtype=shape.dtype, device=device)
    yield (
        *("post_fwd_kernel", post.x, 0),
        lambda: mhc_post_forward(*post.forward_args, impl="triton"),
    )
    yield (
        *("post_bwd_kernel", post.x, 0),
        lambda: mhc_post_backward(*post.backward_args, impl="triton"),
    )
    both: Any = make_post_pre_inputs(*sizes, dtype=shape.dtype, device=device)
    made = mhc_post_pre_forward(*both[:8], out_bias=both.out_bias, impl="triton")
    grads = (both.grad_x_next, both.grad_h_in, both.grad_h_post_next, both.grad_h_res_next)
    kept = (made.x_next, made.inv_rms, made.h_mix, made.h_pre, made.h_post)
    args: Any = (*both[:7], *grads, *kept, both.gamma)
    yield (
        *("post_pre_bwd_kernel", both.x, rows),
        lambda: mhc_post_pre_backward(*args, out_bias=both.out_bias, impl="triton"),
    )
