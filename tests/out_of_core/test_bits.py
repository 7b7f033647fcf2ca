"""Streamed results are those of one call in memory, bit for bit."""

import json
import sys
from pathlib import Path

import pytest
import torch

from mhc_ops.cli import main
from mhc_ops.tensorfile import TensorSet, read, write

from . import cases
from .commands import PATIENCE, command, finish, same_bits, same_tensors, scratch_of


def run(content: TensorSet, folder: Path, target: str, *options: object) -> Path:
    """Run a case from a file in the folder, in this process."""
    source = folder / f"in{(folder / target).suffix}"
    if not source.exists():
        write(source, content)
    words = ["run", content.op, "--in", source, "--out", folder / target, *options]
    assert main([str(word) for word in words]) == 0
    assert not scratch_of(folder / target).exists()
    return folder / target


@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("name", cases.ALL)
def test_every_operator(tmp_path, name, layout):
    content = cases.ALL[name](layout)
    whole = read(run(content, tmp_path, "whole")).tensors
    for chunk in (512, 1024):
        parts = read(run(content, tmp_path, f"parts{chunk}", "--chunk", chunk)).tensors
        assert parts.keys() == whole.keys()
        for output in whole:
            got, want = parts[output], whole[output]
            if output == "sum_out" and content.op == "MhcSinkhorn":  # its row 0 holds nothing
                got, want = (t.view(6, -1)[1:].clone() for t in (got, want))
            assert same_bits(got, want), (chunk, output)


OPTIONS = {
    "no gamma": {"gamma": False},
    "no grad_x_post": {"grad_x_post": False},
    "permutations": {"residual": "permutation"},
    "no residual": {"residual": "none"},
    "float32": {"dtype": torch.float32},
}


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
@pytest.mark.parametrize("impl", ["cpu", "torch"])
@pytest.mark.parametrize("options", OPTIONS)
def test_backward_in_every_form(tmp_path, options, impl, precision):
    content = cases.pre_backward(**OPTIONS[options])
    flags = ("--impl", impl, "--precision", precision)
    whole = run(content, tmp_path, "whole.safetensors", *flags)
    parts = run(content, tmp_path, "parts.safetensors", *flags, "--chunk", 768)
    assert same_tensors(parts, whole)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("name", "chunk"), [("pre_backward", 256), ("pre_sinkhorn_backward", 512)])
def test_ranks(tmp_path, name, chunk, ranks):
    content = cases.ALL[name]()
    whole = run(content, tmp_path, "whole.safetensors")
    parts = run(content, tmp_path, "parts.safetensors", "--nproc", ranks, "--chunk", chunk)
    assert same_tensors(parts, whole)


def test_more_ranks_than_chunks_and_a_chunk_past_the_end(tmp_path):
    content = cases.pre_backward(tokens=257)
    whole = run(content, tmp_path, "whole.safetensors")
    parts = run(content, tmp_path, "parts.safetensors", "--nproc", 2, "--chunk", 4096)
    assert same_tensors(parts, whole)


def test_one_token(tmp_path):
    content = cases.pre_backward(tokens=1)
    whole = run(content, tmp_path, "whole.safetensors")
    assert same_tensors(run(content, tmp_path, "parts.safetensors", "--threads", 2), whole)


def test_torchrun(tmp_path):
    content = cases.pre_backward()
    whole = run(content, tmp_path, "whole.safetensors")
    target = tmp_path / "parts.safetensors"
    _, *words = command(tmp_path / "in.safetensors", target, "--chunk", 256)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    status, said = finish([*launcher, "--nproc-per-node", "2", *words])
    assert status == 0, said
    assert same_tensors(target, whole)


def test_misaligned_tensors_are_read_all_the_same(tmp_path):
    """The format asks for no alignment: here a header is one byte longer than ours."""
    content = cases.pre_backward()
    whole = run(content, tmp_path, "whole.safetensors")
    source = tmp_path / "in.safetensors"
    raw = source.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    longer = raw[8 : 8 + length] + b" "
    source.write_bytes(len(longer).to_bytes(8, "little") + longer + raw[8 + length :])
    assert same_tensors(run(content, tmp_path, "parts.safetensors", "--chunk", 512), whole)


def test_report(tmp_path, capsys):
    content = cases.pre_backward()
    run(content, tmp_path, "out.safetensors", "--chunk", 512, "--threads", 1, "--json")
    said = json.loads(capsys.readouterr().out)
    want = {"tokens": cases.TOKENS, "resumed_at": 0, "chunk": 512, "nproc": 1, "threads": 1}
    assert {key: said[key] for key in want} == want
    assert said["impl"] == "cpu"
    assert said["outputs"]["grad_x"] == {"dtype": "bfloat16", "shape": [cases.TOKENS, 4, 24]}
    assert 0 < said["seconds"] < PATIENCE
