"""What a recorded step costs: the language model of examples/train_lm.py, watched every other step.

    python benchmarks/monitor_overhead.py [--pairs 30]

A step is forward, loss, backward and optimizer, on one thread. Recorded and unrecorded steps
alternate in one process; times are CPU time, and each ratio is of two neighbours. Prints the
median ratio and its quartiles for both kinds of hyper-connections, as docs/monitor.md states them.
"""

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from mhc_ops.monitor import Monitor

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_lm.py"


def load_example() -> Any:
    spec = importlib.util.spec_from_file_location("train_lm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ratios(connection: str, pairs: int) -> tuple[list[float], float]:
    """Time of a recorded step over that of its unrecorded neighbour; and the latter's, in ms."""
    example = load_example()
    torch.manual_seed(0)
    sizes = example.options_of([])
    model = example.LanguageModel(connection, sizes.dim, sizes.heads, sizes.blocks, sizes.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    source = example.batches(example.load_text()[0], sizes.batch, sizes.context, seed=0)
    times = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Monitor(model, folder, every=2, tensorboard=False) as monitor,
    ):
        for _ in range(2 * pairs + 2):
            tokens, following = next(source)
            begin = time.thread_time()
            loss = example.loss_of(model, tokens, following)
            loss.backward()
            monitor.step(loss=loss)
            optimizer.step()
            optimizer.zero_grad()
            times.append(time.thread_time() - begin)
    recorded, others = times[2::2], times[3::2]
    return [a / b for a, b in zip(recorded, others, strict=True)], 1e3 * median(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    torch.set_num_threads(1)
    for connection in ("mhc", "mhc-lite"):
        found, plain = ratios(connection, pairs)
        low, _, high = quantiles(found)
        print(
            f"{connection}: a recorded step takes {median(found):.2f} times an unrecorded one "
            f"(quartiles {low:.2f} to {high:.2f}; {plain:.0f} ms of CPU time), so every=10 costs "
            f"{(median(found) - 1) / 10:.1%}"
        )


if __name__ == "__main__":
    main()
