"""The table of docs/nn.md is what benchmarks/saved_bytes.py prints."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_table():
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/saved_bytes.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "recompute_every=8" in done.stdout
    assert done.stdout in (ROOT / "docs/nn.md").read_text()
