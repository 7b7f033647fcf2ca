"""The Triton kernels compiled for GPUs that are not here, in processes of their own.

No spilled register and no more shared memory than the target has, in any launch of plans.py.
docs/gpu.md has the table that compile_all.py prints.
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
    rows = compiled(target)
    check(target, rows)


def test_tiles_do_not_depend_on_the_number_of_tokens():
    code = (
        "from tests.triton import offline, plans\n"
        "def seen(tokens):\n"
        "    found = offline.launches('sm_90', lambda: plans.run_pre(4, 4096, tokens=tokens))\n"
        "    found += offline.launches('sm_90', lambda: plans.run_post(4, 4096, tokens=tokens))\n"
        "    found += offline.launches('sm_90', lambda: plans.run_sinkhorn(4, tokens=tokens))\n"
        "    for launch in found:\n"
        "        free = {p.name for p in launch.kernel.params if p.do_not_specialize}\n"
        "        assert free & {'T', 'count', 'superblocks'}, launch.kernel.__name__\n"
        "        assert 0 < launch.grid[0] < 2**31 and len(launch.grid) == 1, launch.kernel\n"
        "    return [(l.kernel.__name__, l.warps, l.stages, {k: v for k, v in l.constants.items() "
        "if k != 'WALK'}) for l in found if 'final' not in l.kernel.__name__]\n"
        "assert seen(1) == seen(300) == seen(8192) == seen(2**26)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
