"""How streamed runs scale from 1 to 2 processes, with one thread each.

    python -m benchmarks.out_of_core [--tokens 24576] [--dim 2560] [--repeats 5] [--folder DIR]

Runs of 1 and 2 processes alternate on one bfloat16 case with every optional tensor; the time is
`seconds` of `mhc-ops run --json`: from when all processes are ready until all tokens are finished,
without start-up and without waiting for the disk at the end. The files lie in memory (/dev/shm)
where there is such a place, so that no disk decides. Another program on the machine makes the ratio
smaller: the load is printed too.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from mhc_ops import mhc_pre_forward
from mhc_ops.tensorfile import TensorSet, write
from mhc_ops.testing import make_pre_inputs

OPERATORS = ("MhcPre", "MhcPreBackward")
_MEMORY = Path("/dev/shm")


def write_cases(folder: Path, tokens: int, dim: int) -> None:
    """One file for each operator."""
    inputs = make_pre_inputs(tokens, 4, dim)
    names = ("x", "phi", "alpha", "bias", "gamma")
    forward = dict(zip(names, inputs.forward_args, strict=True))
    write(folder / "MhcPre.safetensors", TensorSet(forward, "MhcPre"))
    saved = mhc_pre_forward(*inputs.forward_args)._asdict()
    kept = {name: saved[name] for name in ("inv_rms", "h_mix", "h_pre", "h_post")}
    backward = {name: t for name, t in inputs._asdict().items() if name != "bias"}
    write(folder / "MhcPreBackward.safetensors", TensorSet({**backward, **kept}, "MhcPreBackward"))


def seconds(folder: Path, operator: str, processes: int) -> float:
    """The time of one run."""
    target = folder / "out.safetensors"
    source = folder / f"{operator}.safetensors"
    options = ["--nproc", str(processes), "--threads", "1", "--json"]
    words = ["run", operator, "--in", str(source), "--out", str(target), *options]
    done = subprocess.run(
        [sys.executable, "-m", "mhc_ops", *words], check=True, stdout=subprocess.PIPE
    )
    target.unlink()
    return float(json.loads(done.stdout)["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=24576)
    parser.add_argument("--dim", type=int, default=2560)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=_MEMORY if _MEMORY.is_dir() else None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        write_cases(folder, given.tokens, given.dim)
        for operator in OPERATORS:
            times: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(given.repeats):
                for processes, found in times.items():
                    found.append(seconds(folder, operator, processes))
            one, two = median(times[1]), median(times[2])
            print(
                f"{operator}: {one:.2f} s by 1 process, {two:.2f} s by 2: {one / two:.2f}x "
                f"(fastest {min(times[1]) / min(times[2]):.2f}x); load {os.getloadavg()[0]:.1f}"
            )


if __name__ == "__main__":
    main()
