"""Time a whole DeepSeek-V4 of transformers before and after `accelerate`, and mHC's share of it.

    python benchmarks/model_step.py [--hidden 1024] [--layers 4] [--tokens 512] [--threads 2]
                                    [--repeats 9] [--dtypes float32 bfloat16] [--page]

The model is DeepSeek-V4's default configuration with its widths divided by 4096 / hidden and 16
experts. One model in one process, unpatched and patched by turns. `step` is forward, loss and
backward; `prefill` a forward without gradients. Writes one JSON line a row; with --page the tables
of docs/performance.md.

mHC's part is timed where it is entered and left: in a forward by hooks of the modules (the first
hyper-connection, the end of a sublayer; the end of a hyper-connection, of the head), in a backward
by hooks of the tensors that cross there, which run when autograd comes to the node that made them.
Memory is the most that torch's allocator holds at once during a call, without parameters and input.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers.models.deepseek_v4 import DeepseekV4Config, DeepseekV4ForCausalLM

from mhc_ops import __version__, _native
from mhc_ops.integrations.transformers import accelerate, restore

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import page
from benchmarks.measure import ROOT, commit

VOCABULARY = 32000
FORMS = {"unpatched": restore, "patched": accelerate}
SECONDS = 60.0  # for the repetitions of a row, beyond the first three


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for dtype in options.dtypes:
        model = build(options, dtype)
        for mode in ("step", "prefill"):
            rows.append(measure(model, mode, dtype, options))
            print(page.model_line(rows[-1]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / f"model-{platform.machine()}-{options.threads}.jsonl").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    if options.page:
        page.write(options.out, f"{platform.machine()}-{options.threads}", ROOT / "docs")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=1024, help="a multiple of 256")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args(arguments)


def build(options: argparse.Namespace, dtype: str) -> nn.Module:
    torch.manual_seed(0)
    width = options.hidden / 4096
    config = DeepseekV4Config(
        vocab_size=VOCABULARY,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        moe_intermediate_size=int(2048 * width),
        num_attention_heads=int(64 * width),
        q_lora_rank=int(1024 * width),
        o_lora_rank=int(1024 * width),
        o_groups=4,
        n_routed_experts=16,
        index_n_heads=int(64 * width),
    )
    return DeepseekV4ForCausalLM._from_config(config, dtype=getattr(torch, dtype))


def measure(model: nn.Module, mode: str, dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """Median time, mHC's part of it, and the peak of memory, of both forms of the model."""
    tokens = torch.randint(VOCABULARY, (1, options.tokens))
    training = mode == "step"
    model.train(training)
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    inside: dict[str, list[float]] = {form: [] for form in FORMS}
    memory = {}

    def step() -> None:
        with torch.set_grad_enabled(training):
            loss = model(tokens, labels=tokens if training else None).loss
        if training:
            loss.backward()

    for form, change in FORMS.items():
        change(model)
        step()
        model.zero_grad()
        memory[form] = peak_megabytes(step)
    begin_row = time.perf_counter()
    for repeat in range(options.repeats):
        if repeat >= 3 and time.perf_counter() - begin_row > SECONDS:
            break
        for form, change in FORMS.items():
            change(model)
            model.zero_grad()
            with Marks(model) as marks:
                begin = time.perf_counter()
                step()
                times[form].append((time.perf_counter() - begin) * 1e3)
            inside[form].append((marks.forward.seconds + marks.backward.seconds) * 1e3)
    restore(model)
    return {
        "model": "DeepSeek-V4",
        "mode": mode,
        "dtype": dtype,
        "hidden": options.hidden,
        "layers": options.layers,
        "tokens": options.tokens,
        "ms": {form: median(t) for form, t in times.items()},
        "spread_ms": {form: [min(t), max(t)] for form, t in times.items()},
        "mhc_ms": {form: median(t) for form, t in inside.items()},
        "mhc_spread_ms": {form: [min(t), max(t)] for form, t in inside.items()},
        "repeats": len(times["patched"]),
        "peak_mb": memory,
        "load": os.getloadavg()[0],
        "kernels": _native.describe(),
        "threads": options.threads,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "mhc_ops": __version__,
        "commit": commit(),
    }


def peak_megabytes(run: Callable[[], None]) -> float:
    """The highest sum of what torch's allocator has handed out and not got back during one call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    return max(accumulate(e.nbytes() for e in events)) / 2**20


class Clock:
    """Seconds between `enter` and `leave`."""

    def __init__(self) -> None:
        self.seconds, self._since = 0.0, 0.0

    def enter(self, *_: Any) -> None:
        self._since = self._since or time.perf_counter()

    def leave(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self._since if self._since else 0.0
        self._since = 0.0


class Marks:
    """While active: the seconds that a forward and a backward spend in mHC's parts."""

    def __init__(self, model: nn.Module) -> None:
        self.forward, self.backward = Clock(), Clock()
        self._model = model
        self._handles: list[Any] = []

    def __enter__(self) -> "Marks":
        layers = [m for m in self._model.modules() if hasattr(m, "attn_hc")]
        connections = [hc for layer in layers for hc in (layer.attn_hc, layer.ffn_hc)]
        sublayers = [part for layer in layers for part in (layer.self_attn, layer.mlp)]
        heads = [m for m in self._model.modules() if hasattr(m, "hc_fn")]
        self._handles = [
            connections[0].register_forward_pre_hook(self._into),
            *(part.register_forward_hook(self._into) for part in sublayers),
            *(part.register_forward_hook(self._out_of) for part in (*connections, *heads)),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def _into(self, *seen: Any) -> None:
        for tensor in _differentiable(seen[-1]):
            tensor.register_hook(self.backward.leave)
        self.forward.enter()

    def _out_of(self, *seen: Any) -> None:
        self.forward.leave()
        for tensor in _differentiable(seen[-1]):
            tensor.register_hook(self.backward.enter)


def _differentiable(given: Any) -> list[torch.Tensor]:
    tensors = given if isinstance(given, tuple) else (given,)
    return [t for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad]


if __name__ == "__main__":
    sys.exit(main())
