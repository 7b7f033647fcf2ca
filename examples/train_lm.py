"""A small language model trained with plain residuals, mHC and mHC-lite, at equal depth.

The text is Python's own help topics, which every installation ships, read as bytes. Runs of one
seed share data, the sublayers' initial values and the optimizer; what differs is how a sublayer is
connected. Writes into a folder: losses.json, losses.svg, and for each run with hyper-connections a
folder with the monitor's JSONL and report.html.

    python examples/train_lm.py --out runs       # minutes on two cores
    python examples/train_lm.py --quick          # seconds, to see that all works
"""

import argparse
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from pydoc_data.topics import topics
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from mhc_ops.monitor import Line, Monitor, line_picture, read_run, render_page
from mhc_ops.nn import ExpandStreams, HyperConnection, StreamHead

CONNECTIONS = ("plain", "mhc", "mhc-lite")
BYTES = 256
Losses = dict[str, dict[str, dict[str, Any]]]  # connection, seed, what


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm(h)).chunk(3, -1)
        )
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(-2))


class Mlp(nn.Sequential):
    def __init__(self, dim: int) -> None:
        super().__init__(
            nn.RMSNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )


class PlainResidual(nn.Module):
    def forward(self, h: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return h + sublayer(h)


class LanguageModel(nn.Module):
    """Bytes in, logits of the next byte out; `connection` is one of CONNECTIONS."""

    def __init__(self, connection: str, dim: int, heads: int, blocks: int, context: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(BYTES, dim)
        self.place = nn.Embedding(context, dim)
        self.sublayers = nn.ModuleList(
            layer for _ in range(blocks) for layer in (Attention(dim, heads), Mlp(dim))
        )
        self.norm = nn.RMSNorm(dim)
        self.logits = nn.Linear(dim, BYTES, bias=False)
        # Last, so that all that is above draws the same initial values in every run.
        self.expand: nn.Module = nn.Identity()
        self.head: nn.Module = nn.Identity()
        if connection == "plain":
            self.connections = nn.ModuleList(PlainResidual() for _ in self.sublayers)
        else:
            streams, residual = 4, "lite" if connection == "mhc-lite" else "sinkhorn"
            self.expand, self.head = ExpandStreams(streams), StreamHead(dim, streams)
            self.connections = nn.ModuleList(
                HyperConnection(dim, streams, residual=residual) for _ in self.sublayers
            )

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.expand(self.embed(tokens) + self.place(places))
        for connection, sublayer in zip(self.connections, self.sublayers, strict=True):
            x = connection(x, sublayer)
        return self.logits(self.norm(self.head(x)))


def load_text() -> tuple[Tensor, Tensor]:
    """The help topics as bytes: nine tenths to train on, the rest to validate."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode()
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    cut = len(data) * 9 // 10
    return data[:cut], data[cut:]


def batches(data: Tensor, batch: int, context: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    random = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(data) - context, (batch,), generator=random)
        rows = torch.stack([data[s : s + context + 1] for s in starts.tolist()])
        yield rows[:, :-1], rows[:, 1:]


def loss_of(model: nn.Module, tokens: Tensor, following: Tensor) -> Tensor:
    return cross_entropy(model(tokens).flatten(0, 1), following.flatten())


def train(
    connection: str, seed: int, options: argparse.Namespace, tell: Callable[[str], None]
) -> dict[str, Any]:
    """One run: the loss of each step, the loss on the held-out text, the number of parameters."""
    torch.manual_seed(seed)
    model = LanguageModel(connection, options.dim, options.heads, options.blocks, options.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    training, validation = load_text()
    folder = options.out / f"{connection}-{seed}"
    watched = connection != "plain"
    losses = []
    with (
        Monitor(model, folder, every=options.every, tensorboard=False)
        if watched
        else nullcontext() as monitor
    ):
        source = batches(training, options.batch, options.context, seed)
        for step in range(options.steps):
            warm = min(1.0, (step + 1) / max(1, options.steps // 20))
            rate = options.lr * warm * (0.55 + 0.45 * math.cos(math.pi * step / options.steps))
            optimizer.param_groups[0]["lr"] = rate
            loss = loss_of(model, *next(source))
            loss.backward()
            if monitor is not None:
                monitor.step(loss=loss)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            tell(f"{connection:9} seed {seed} loss {losses[-1]:.3f}")
    model.eval()
    source = batches(validation, options.batch, options.context, seed=0)  # the same for every run
    with torch.no_grad():
        held_out = [loss_of(model, *next(source)).item() for _ in range(options.validation)]
    if watched:
        page = render_page(read_run(folder), f"{connection}: {options.blocks} blocks, seed {seed}")
        (folder / "report.html").write_text(page, encoding="utf-8")
    size = sum(p.numel() for p in model.parameters())
    return {"training": losses, "validation": mean(held_out), "parameters": size}


def picture(losses: Losses) -> str:
    """An SVG of the training losses: means over 20 steps and all seeds, within their extremes."""
    lines = []
    for colour, (connection, runs) in enumerate(losses.items(), 1):
        each = [run["training"] for run in runs.values()]
        starts = range(0, len(each[0]), 20)
        points = [[mean(losses[i : i + 20]) for losses in each] for i in starts]
        middle = [(i + min(i + 19, len(each[0]) - 1)) / 2 for i in starts]
        band = [(min(point), max(point)) for point in points]
        lines.append(Line(connection, middle, [mean(p) for p in points], colour, band=band))
    return line_picture(lines, "step", "training loss (nats a byte)")


def table(losses: Losses) -> str:
    """Mean over seeds, and in brackets the lowest and the highest."""
    rows = ["| connection | parameters | training loss, last 5 % of steps | held-out loss |"]
    rows.append("|---|---|---|---|")
    for connection, runs in losses.items():
        tails = [mean(r["training"][-max(1, len(r["training"]) // 20) :]) for r in runs.values()]
        held_out = [run["validation"] for run in runs.values()]
        size = next(iter(runs.values()))["parameters"]
        rows.append(f"| {connection} | {size:,} | {_spread(tails)} | {_spread(held_out)} |")
    return "\n".join(rows)


def _spread(values: list[float]) -> str:
    return f"{mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A function to call after each step: rich's bar where rich is installed, else plain lines."""
    try:
        from rich.progress import Progress
    except ModuleNotFoundError:
        done = 0

        def tell(what: str) -> None:
            nonlocal done
            done += 1
            if done % max(1, total // 30) == 0:
                print(f"{done}/{total} {what}", flush=True)

        yield tell
        return
    with Progress() as bar:
        task = bar.add_task("training", total=total)
        yield lambda what: bar.update(task, advance=1, description=what)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder to write into")
    parser.add_argument("--quick", action="store_true", help="a tiny model, a few steps: seconds")
    parser.add_argument("--only", choices=CONNECTIONS, action="append", help="a run; repeatable")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    sizes = {"dim": 64, "heads": 4, "blocks": 8, "context": 64, "batch": 16, "steps": 500}
    for name, size in {**sizes, "every": 10, "validation": 20}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--lr", type=float, default=2e-3)
    options = parser.parse_args(arguments)
    if options.quick:
        vars(options).update(dim=16, heads=2, blocks=2, context=32, batch=4, steps=12, every=3)
        options.validation, options.seeds = 2, options.seeds[:1]
    return options


def main(arguments: list[str] | None = None) -> Losses:
    options = options_of(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names = options.only or list(CONNECTIONS)
    losses: Losses = {name: {} for name in names}
    with progress(len(names) * len(options.seeds) * options.steps) as tell:
        for seed in options.seeds:
            for name in names:
                losses[name][str(seed)] = train(name, seed, options, tell)
    (options.out / "losses.json").write_text(json.dumps(losses))
    (options.out / "losses.svg").write_text(picture(losses))
    print(table(losses))
    print(f"losses.json, losses.svg and the reports are in {options.out}")
    return losses


if __name__ == "__main__":
    main()
