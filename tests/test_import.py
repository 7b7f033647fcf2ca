"""`import mhc_ops` in a fresh interpreter needs torch and takes no kernel or extra with it."""

import subprocess
import sys
from pathlib import Path

import pytest

import mhc_ops

OPTIONAL = ["numpy", "typer", "rich", "safetensors", "triton", "hypothesis", "pytest"]


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_brings_nothing_that_torch_does_not():
    code = (
        "import sys, torch\n"
        "import torch.utils.flop_counter\n"  # our formulas need it; it imports triton where it can
        "before = set(sys.modules)\n"
        "import mhc_ops\n"
        "print(*sorted(m for m in set(sys.modules) - before))"
    )
    new = fresh(code).split()
    assert "mhc_ops" in new
    assert not {name.partition(".")[0] for name in new} & set(OPTIONAL)
    for part in ("testing", "cli", "conformance", "aclnn", "ops.pre.triton", "ops.pre.cpu"):
        assert f"mhc_ops.{part}" not in new, part


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the list of mappings")
def test_import_loads_no_library_of_ours():
    code = "import mhc_ops\nprint('libmhc_ops' in open('/proc/self/maps').read())"
    assert fresh(code).split() == ["False"]


def test_the_operators_run_without_the_optional_packages():
    """The import of each is made to fail before anything else happens."""
    code = (
        "import sys\n"
        f"for name in {OPTIONAL!r}: sys.modules[name] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "import torch, mhc_ops\n"
        "from mhc_ops.testing import make_pre_inputs\n"
        "c = make_pre_inputs(3, 4, 8)\n"
        "c.x.requires_grad_()\n"
        "out = mhc_ops.mhc_pre(*c.forward_args)\n"
        "out.h_in.float().sum().backward()\n"
        "print(out.h_in.shape)"
    )
    assert "torch.Size([3, 8])" in fresh(code)


def test_public_names_exist():
    for name in ("mhc_pre", "mhc_pre_forward", "mhc_pre_backward", "explain", "Convention"):
        assert callable(getattr(mhc_ops, name)), name
    assert mhc_ops.__version__
