"""Liger-Kernel's Triton kernels under the interpreter, in float32, beside our operators."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from ..libraries import LIBRARIES, draw, liger
from ..steps import normal, our_gradients, their_gradients
from .peer import STDS, judge

ROOT = Path(__file__).parents[4]
T, D = 13, 24
CASES = [(n, std) for n in (2, 4) for std in STDS]  # n must be a power of two there


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What Liger computes for each of the cases, by one run of its kernels in another process."""
    if find_spec("liger_kernel") is None or find_spec("triton") is None:
        pytest.skip("needs the extra: pip install '.[peers]'")
    folder = tmp_path_factory.mktemp("liger")
    torch.save([drawn(n, std) for n, std in CASES], folder / "in.pt")
    program = "tests.integrations.checkpoints.peers.liger_program"
    subprocess.run(
        [sys.executable, "-m", program, folder / "in.pt", folder / "out.pt"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
        capture_output=True,
    )
    return dict(zip(CASES, torch.load(folder / "out.pt"), strict=True))


def drawn(n, std):
    tensors = draw(LIBRARIES["liger"], std, dtype=torch.float32, n=n, d=D)
    return normal(0, T, n, D), tensors, (normal(1, T, n, D), normal(2, T, D))


@pytest.mark.long
@pytest.mark.parametrize(("n", "std"), CASES)
def test_forward_and_every_gradient(theirs, n, std):
    x, tensors, upstream = drawn(n, std)
    truth = their_gradients(
        liger,
        x.double(),
        {name: t.double() for name, t in tensors.items()},
        torch.tanh,
        tuple(t.double() for t in upstream),
    )
    got = our_gradients(x, tensors, "liger", torch.tanh, upstream)
    judge(got, theirs[n, std], truth, terms=T * n * D)
