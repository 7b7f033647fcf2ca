"""Running `mhc-ops` in this process, and small cases for it to run on."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from mhc_ops import mhc_pre_forward
from mhc_ops.cli import main
from mhc_ops.testing import make_pre_inputs


class Finished(NamedTuple):
    """A finished command."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line of an unhappy command; fails when there is more or less than one."""
        assert self.status == 2
        assert self.out == ""
        lines = self.err.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("mhc-ops: ")
        assert "Traceback" not in self.err
        return lines[0]


@pytest.fixture
def mhc_ops(capsys):
    """Call the command with these arguments; everything becomes text."""

    def call(*arguments: object) -> Finished:
        capsys.readouterr()
        status = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Finished(status, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def backward_case() -> dict[str, torch.Tensor]:
    """Inputs of MhcPreBackward by name, bfloat16, T = 5, N = 4, D = 24."""
    inputs = make_pre_inputs(5, 4, 24)
    saved = mhc_pre_forward(*inputs.forward_args)
    names = ("inv_rms", "h_mix", "h_pre", "h_post")
    tensors = {**inputs._asdict(), **{name: getattr(saved, name) for name in names}}
    del tensors["bias"]
    return tensors


@pytest.fixture(scope="session")
def forward_case() -> dict[str, torch.Tensor]:
    """Inputs of MhcPre by name."""
    inputs = make_pre_inputs(5, 4, 24)
    return {name: getattr(inputs, name) for name in ("x", "phi", "alpha", "bias", "gamma")}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
