"""Time the operators against eager torch, torch.compile and the machine's limits.

    python benchmarks/run.py [--only pre post ..] [--quick] [--repeats 9] [--threads 2]
                             [--skip-tests] [--page]

Variants are interleaved in one process, and every row carries the limits probed in the same run:
FMA throughput of the instruction set in use, and reading bandwidth of memory and of one core's L2.
Runs the operators' tests first and prints no speed on red. Writes one JSON line a row; with --page
the tables and the picture of docs/performance.md, from the results of all operators.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

from mhc_ops import _native

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import page
from benchmarks.measure import ROOT, measure
from benchmarks.registry import OPERATORS


def main() -> int:
    options = _options()
    missing = _native.obstacle()
    if missing is not None:
        print(f"benchmarks: nothing to measure here: {missing}")
        return 2
    torch.set_num_threads(options.threads)
    if not options.skip_tests:
        tests = [path for name in options.only for path in OPERATORS[name].tests]
        red = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not long", *tests],
            cwd=ROOT,
            check=False,
        ).returncode
        if red:
            print("the operators' tests are red: no speed is reported")
            return 1
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        load = os.getloadavg()[0]
        rows = []
        for shape in OPERATORS[name].shapes:
            for direction in OPERATORS[name].costs:
                row = measure(
                    name,
                    direction,
                    shape,
                    repeats=options.repeats,
                    threads=options.threads,
                    compiled=not options.quick,
                )
                rows.append({**row, "load": load})
                print(page.line(row), flush=True)
                torch.compiler.reset()
        with _results(options, name).open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    if options.page:
        page.write(options.out, f"{platform.machine()}-{options.threads}", ROOT / "docs")
    return 0


def _results(options: argparse.Namespace, name: str) -> Path:
    path: Path = options.out / f"{name}-{platform.machine()}-{options.threads}.jsonl"
    return path


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=OPERATORS, default=list(OPERATORS))
    parser.add_argument("--quick", action="store_true", help="without torch.compile")
    parser.add_argument("--skip-tests", action="store_true", help="the tests ran a moment ago")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
