"""The Triton kernels compiled for GPUs that are not here, in processes of their own.

No spilled register and no more shared memory than the target has, in any launch of plans.py.
docs/gpu.md has the table that compile_all.py writes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs the extra [gpu]")

ROOT = Path(__file__).parents[2]
TARGETS = ["sm_80", "sm_90", "sm_100", "gfx942"]


def compiled(target, *options):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.triton.compile_all", target, "--json", *options],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return json.loads(done.stdout)


def check(target, rows):
    for row in rows:
        assert row["spilled"] == 0, row
        assert row["shared"] <= row["shared_limit"], row
        if row["kernel"] in ("pre_mix_fwd_kernel", "pre_main_bwd_kernel", "lite_fwd_kernel"):
            assert row["matrix"], row


def test_every_kernel_compiles_for_hopper():
    rows = compiled("sm_90", "--quick")
    check("sm_90", rows)
    kernels = {row["kernel"] for row in rows}
    assert {"pre_mix_fwd_kernel", "pre_main_bwd_kernel", "post_bwd_kernel"} <= kernels
    assert "wgmma" in next(r["matrix"] for r in rows if r["kernel"] == "pre_mix_fwd_kernel")


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_every_launch_compiles_without_spills(target):
    """Every launch of plans.py, and every tile that `mhc-ops tune` may choose."""
    rows = compiled(target)
    check(target, rows)
    assert len(rows) > 150
