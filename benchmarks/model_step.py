"""Time a whole DeepSeek-V4 of transformers before and after `accelerate`, and mHC's share of it.

    python benchmarks/model_step.py [--hidden 1024] [--layers 4] [--tokens 512] [--threads 2]
                                    [--repeats 9] [--dtypes float32 bfloat16] [--page]

The model is DeepSeek-V4's default configuration with its widths divided by 4096 / hidden and 16
experts. One model in one process, unpatched and patched by turns. `step` is forward, loss and
backward; `prefill` a forward without gradients. Writes one JSON line a row; with --page the tables
of docs/performance.md.

mHC's part of a forward is what passes inside the hyper-connections and the head, between a
sublayer's end and the next hyper-connection, and between the last sublayer's end and its layer's.
Its part of a backward is the share of the autograd nodes made there, in profiled steps.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers
from torch import nn
from torch.autograd import _get_sequence_nr
from torch.profiler import ProfilerActivity, profile
from transformers.models.deepseek_v4 import DeepseekV4Config, DeepseekV4ForCausalLM

from mhc_ops import __version__, _native
from mhc_ops.integrations.transformers import accelerate, restore

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import page
from benchmarks.measure import ROOT, commit, extra_megabytes

VOCABULARY = 32000
FORMS = {"unpatched": restore, "patched": accelerate}


def main() -> int:
    options = _options()
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=1024, help="a multiple of 256")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


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
    """Median time, mHC's time and share, and the peak of memory, of both forms of the model."""
    tokens = torch.randint(VOCABULARY, (1, options.tokens))
    training = mode == "step"
    model.train(training)
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    inside: dict[str, list[float]] = {form: [] for form in FORMS}
    backward_shares, memory = {}, {}

    def forward() -> torch.Tensor | None:
        with torch.set_grad_enabled(training):
            loss: torch.Tensor | None = model(tokens, labels=tokens if training else None).loss
        return loss

    def step() -> None:
        model.zero_grad()
        loss = forward()
        if loss is not None:
            loss.backward()

    for form, change in FORMS.items():
        change(model)
        step()
        backward_shares[form] = backward_share(model, forward) if training else 0.0
        model.zero_grad()
        memory[form] = extra_megabytes(step)
    for _ in range(options.repeats):
        for form, change in FORMS.items():
            change(model)
            model.zero_grad()
            with Marks(model) as marks:
                begin = time.perf_counter()
                loss = forward()
                middle = time.perf_counter()
                if loss is not None:
                    loss.backward()
                end = time.perf_counter()
            times[form].append((end - begin) * 1e3)
            backward = backward_shares[form] * (end - middle)
            inside[form].append((marks.seconds + backward) * 1e3)
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
        "peak_extra_mb": memory,
        "load": os.getloadavg()[0],
        "kernels": _native.describe(),
        "threads": options.threads,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "mhc_ops": __version__,
        "commit": commit(),
    }


class Marks:
    """While active: the seconds of mHC's parts of a forward, and the autograd nodes made there."""

    def __init__(self, model: nn.Module) -> None:
        self.seconds = 0.0
        self.nodes: set[int] = set()
        self._model = model
        self._handles: list[Any] = []

    def __enter__(self) -> "Marks":
        def begin(*_: Any) -> None:
            self._first, self._begin = _get_sequence_nr(), time.perf_counter()

        def end(*_: Any) -> None:
            self.seconds += time.perf_counter() - self._begin
            self.nodes.update(range(self._first, _get_sequence_nr()))

        for layer in (m for m in self._model.modules() if hasattr(m, "attn_hc")):
            self._handles += [
                layer.attn_hc.register_forward_pre_hook(begin),
                layer.attn_hc.register_forward_hook(end),
                layer.self_attn.register_forward_hook(begin),
                layer.ffn_hc.register_forward_hook(end),
                layer.mlp.register_forward_hook(begin),
                layer.register_forward_hook(end),
            ]
        for head in (m for m in self._model.modules() if hasattr(m, "hc_fn")):
            self._handles += [
                head.register_forward_pre_hook(begin),
                head.register_forward_hook(end),
            ]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()


def backward_share(model: nn.Module, forward: Callable[[], Any]) -> float:
    """The part of the time of all autograd nodes that mHC's take: the median of three backwards."""
    shares = []
    for _ in range(3):
        with Marks(model) as marks:
            loss = forward()
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            loss.backward()
        nodes = [e for e in profiler.events() if e.name.startswith("autograd::engine::evaluate")]
        ours = sum(e.cpu_time_total for e in nodes if e.sequence_nr in marks.nodes)
        shares.append(ours / sum(e.cpu_time_total for e in nodes))
    return median(shares)


if __name__ == "__main__":
    sys.exit(main())
