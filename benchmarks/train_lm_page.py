"""The results in docs/train_lm.md and its picture, from a folder that examples/train_lm.py wrote.

    python examples/train_lm.py --out runs && python benchmarks/train_lm_page.py runs

Replaces what stands between the page's two marks; the rest of the page is written by hand.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from mhc_ops.monitor import Run, read_run

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.measure import ROOT, commit
from benchmarks.monitor_overhead import load_example

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
GAINS = (
    ("forward gain of all layers, last step", lambda run: _total(run, -1, "gain_forward")),
    ("backward gain of all layers, last step", lambda run: _total(run, 0, "gain_backward")),
    ("largest backward gain of all layers, any step", lambda run: _most_total(run)),
    ("largest sum of one layer's row off 1, any step", lambda run: _most(run, "defect_row")),
    ("smallest mean entry of h_res's diagonal, last step", lambda run: min(_diagonals(run))),
    ("mean std of h_pre, last step", lambda run: _gate(run, "h_pre", "std")),
    ("mean std of h_post, last step", lambda run: _gate(run, "h_post", "std")),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path, help="the example's --out")
    folder = parser.parse_args().runs
    losses = json.loads((folder / "losses.json").read_text())
    page = ROOT / "docs" / "train_lm.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{results(folder, losses)}{END}{after}")
    shutil.copy(folder / "losses.svg", ROOT / "docs" / "train_lm.svg")


def results(folder: Path, losses: dict[str, Any]) -> str:
    seeds = list(next(iter(losses.values())))
    steps = len(losses[next(iter(losses))][seeds[0]]["training"])
    watched = [name for name in losses if name != "plain"]
    rows = [f"| at seeds {', '.join(seeds)} | {' | '.join(watched)} |", "|---" * 3 + "|"]
    for title, number in GAINS:
        cells = (
            _range([number(read_run(folder / f"{name}-{seed}")) for seed in seeds])
            for name in watched
        )
        rows.append(f"| {title} | {' | '.join(cells)} |")
    return f"""
{steps} steps, seeds {", ".join(seeds)}, torch {torch.__version__}, commit {commit()}. Losses
are nats a byte, means over the seeds with the lowest and the highest.

{load_example().table(losses)}

![training loss over steps](train_lm.svg)

What the monitor recorded, the lowest and the highest over the seeds:

{chr(10).join(rows)}

"""


def _range(values: list[float]) -> str:
    low, high = (f"{v:.3g}" if abs(v) < 0.1 else f"{v:.4f}" for v in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _total(run: Run, layer: int, what: str) -> float:
    return float(run.steps[-1].layers[layer][what])


def _most_total(run: Run) -> float:
    return max(float(step.layers[0]["gain_backward"]) for step in run.steps)


def _most(run: Run, what: str) -> float:
    return max(float(layer[what]) for step in run.steps for layer in step.layers)


def _diagonals(run: Run) -> list[float]:
    maps = [layer["h_res"] for layer in run.steps[-1].layers]
    return [h_res[i][i] for h_res in maps for i in range(len(h_res))]


def _gate(run: Run, gate: str, what: str) -> float:
    return mean(layer[gate][what] for layer in run.steps[-1].layers)


if __name__ == "__main__":
    main()
