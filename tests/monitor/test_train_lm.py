"""examples/train_lm.py in its quick mode."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from mhc_ops.monitor import read_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_lm.py"


@pytest.fixture
def example():
    spec = importlib.util.spec_from_file_location("train_lm", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quick(example, tmp_path, capsys):
    curves = example.main(["--quick", "--out", str(tmp_path)])
    assert list(curves) == ["plain", "mhc", "mhc-lite"]
    assert json.loads((tmp_path / "losses.json").read_text()) == curves
    for losses in curves.values():
        assert len(losses) == 13
        assert losses[-1] < losses[0]
    for name in ("mhc", "mhc-lite"):
        assert curves[name][0] == pytest.approx(curves["plain"][0], abs=1e-3)
        run = read_run(tmp_path / name)
        assert [s.step for s in run.steps] == [0, 3, 6, 9]
        assert len(run.steps[0].layers) == 4
        for step in run.steps:
            assert step.values["loss"] == pytest.approx(curves[name][step.step], rel=1e-6)
        assert (tmp_path / name / "report.html").stat().st_size > 10_000
    assert "plain     training loss" in capsys.readouterr().out


def test_plain_lines_without_rich(example, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    example.main(["--quick", "--only", "plain", "--out", str(tmp_path)])
    assert "12/12 plain     loss" in capsys.readouterr().out


def test_the_model_looks_at_no_later_byte(example):
    torch.manual_seed(0)
    model = example.LanguageModel("mhc", 16, 2, 2, 32).eval()
    tokens = torch.randint(256, (1, 20))
    changed = tokens.clone()
    changed[0, 12:] = (changed[0, 12:] + 1) % 256
    with torch.no_grad():
        one, other = model(tokens), model(changed)
    assert torch.equal(one[0, :12], other[0, :12])
    assert not torch.equal(one[0, 12:], other[0, 12:])
