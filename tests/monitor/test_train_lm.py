"""examples/train_lm.py in its quick mode."""

import importlib.util
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

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
    losses = example.main(["--quick", "--out", str(tmp_path)])
    assert list(losses) == ["plain", "mhc", "mhc-lite"]
    assert json.loads((tmp_path / "losses.json").read_text()) == losses
    first = {name: runs["0"]["training"] for name, runs in losses.items()}
    for name, training in first.items():
        assert len(training) == 12
        assert losses[name]["0"]["validation"] < training[0]
    for name in ("mhc", "mhc-lite"):
        assert first[name][0] == pytest.approx(first["plain"][0], abs=1e-3)
        assert first[name] != first["plain"]
        run = read_run(tmp_path / f"{name}-0")
        assert [s.step for s in run.steps] == [0, 3, 6, 9]
        assert len(run.steps[0].layers) == 4
        for step in run.steps:
            assert step.values["loss"] == pytest.approx(first[name][step.step], rel=1e-6)
        assert (tmp_path / f"{name}-0" / "report.html").stat().st_size > 10_000
    held_out = losses["plain"]["0"]["validation"]
    row = f"| {held_out:.4f} ({held_out:.4f} to {held_out:.4f}) |"
    assert row in capsys.readouterr().out.splitlines()[-4]
    picture = ElementTree.parse(tmp_path / "losses.svg").getroot()
    shown = [node.text for node in picture.iter() if node.tag.endswith("text")]
    assert {"plain", "mhc", "mhc-lite", "step"} <= set(shown)


def test_seeds_share_nothing_but_the_held_out_text(example, tmp_path):
    run = ["--quick", "--only", "plain", "--out"]
    one = example.main([*run, str(tmp_path / "1"), "--seeds", "1"])["plain"]["1"]
    again = example.main([*run, str(tmp_path / "1"), "--seeds", "1"])["plain"]["1"]
    other = example.main([*run, str(tmp_path / "2"), "--seeds", "2"])["plain"]["2"]
    assert one == again
    assert one["training"] != other["training"]


def test_plain_lines_without_rich(example, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    example.main(["--quick", "--only", "plain", "--out", str(tmp_path)])
    assert "12/12 plain     seed 0 loss" in capsys.readouterr().out


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
