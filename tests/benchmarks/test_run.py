"""benchmarks/run.py: the tests that it runs first, and a machine without kernels."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.registry import OPERATORS

ROOT = Path(__file__).parents[2]


def test_the_kernels_own_tests_run_first():
    tests = OPERATORS["pre"].tests
    assert "tests/ops/pre/test_pre_cpu.py" in tests
    assert all((ROOT / path).is_file() for path in tests)


def test_without_kernels_it_says_so_in_one_line():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "benchmarks" / "run.py", "--quick"],
        capture_output=True,
        text=True,
        env={**os.environ, "MHC_OPS_ISA": "sse9"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout.splitlines() == [done.stdout.strip()]
    assert done.stdout.startswith("benchmarks: nothing to measure here: MHC_OPS_ISA=sse9")
    assert "Traceback" not in done.stderr
