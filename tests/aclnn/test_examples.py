"""The sample programs of the six other operators give the numbers that they derive."""

import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def results(monkeypatch):
    """Run the program of that name in this process; its outputs."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return lambda name: importlib.import_module(f"aclnn_mhc_{name}").main()


def assert_numbers(tensor, expected):
    want = torch.as_tensor(expected, dtype=torch.float64).expand(tensor.shape)
    assert tensor.double().flatten().tolist() == pytest.approx(want.flatten().tolist(), abs=1e-6)


def by_stream(*values):
    return torch.tensor(values)[:, None]


CENTRED = torch.tensor([[9, -3, -3, -3], *[[-3, 1, 1, 1]] * 3]) / 64


def test_post(results):
    assert_numbers(results("post")["out"], by_stream(11.0, 1.0, 1.0, 1.0))


def test_post_backward(results):
    found = results("post_backward")
    assert_numbers(found["gradX"], 2.5)
    assert_numbers(found["gradHres"], [32.0, 64.0, 96.0, 128.0])
    assert_numbers(found["gradHout"], 5.0)
    assert_numbers(found["gradHpost"], [48.0, 96.0, 144.0, 192.0])


def test_sinkhorn(results):
    found = results("sinkhorn")
    assert_numbers(found["output"], 32 / 169)
    entries = torch.tensor([1 / 4, 2 / 9, 8 / 41, 32 / 169]).view(4, 1, 1, 1)
    norm = found["normOut"].view(4, 4, 2, 8)
    assert_numbers(norm[..., :4], entries)
    assert not norm[..., 4:].any()
    assert_numbers(found["sumOut"].view(4, 2, 8)[1:, :, 0], by_stream(9 / 4, 41 / 36, 169 / 164))


def test_sinkhorn_backward(results):
    assert_numbers(results("sinkhorn_backward")["out"], CENTRED)


def test_pre_sinkhorn(results):
    found = results("pre_sinkhorn")
    expected = {
        "hin": 6,
        "hPost": 1.5,
        "hRes": 0.25,
        "hPre": 0.75,
        "hcBeforeNorm": 2,
        "invRms": 0.5,
    }
    for name, value in expected.items():
        assert_numbers(found[name], value)
    assert_numbers(found["normOut"], 0.25)
    assert_numbers(found["sumOut"][0], 4)
    assert_numbers(found["sumOut"][1:], 1)


def test_pre_sinkhorn_backward(results):
    found = results("pre_sinkhorn_backward")
    bias = torch.cat([torch.zeros(4), torch.full((4,), 0.375), CENTRED.flatten()])
    assert_numbers(found["gradX"], 0)
    assert_numbers(found["gradAlpha"], [0, 1.5, 0])
    assert_numbers(found["gradBias"], bias)
    assert_numbers(found["gradPhi"], bias[:, None] * math.log(3))


def runs_on_its_own(path, folder):
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_program_runs_from_anywhere_and_prints(tmp_path):
    printed = runs_on_its_own(EXAMPLES / "aclnn_mhc_post.py", tmp_path).splitlines()
    assert printed[0] == "out result (first 10 elements):"
    assert printed[1:] == [f"  [{i}] = 11.000000" for i in range(10)]


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("aclnn_*.py")), ids=lambda path: path.stem)
def test_every_program_runs_on_its_own(path, tmp_path):
    assert "result (first 10 elements):" in runs_on_its_own(path, tmp_path)
