"""mhc-ops convert: what it prints, its exit statuses, and one line for every mistake."""

import os
from dataclasses import asdict, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from mhc_ops import Convention
from mhc_ops.integrations.checkpoints import convert_checkpoint, read_convention

TENSORS = {
    "layers.0.attn_hc.mapping_proj.weight": torch.randn(24, 64),
    "layers.0.attn_hc.bias": torch.randn(24),
    **{f"layers.0.attn_hc.alpha_{part}": torch.randn(1) for part in ("pre", "post", "res")},
    "layers.0.attn.weight": torch.randn(8, 8).bfloat16(),
}
OURS = replace(Convention.megatron(), res_rows="from_to")
BASE = ("convert", "--in", "a.safetensors", "--out", "b.safetensors", "--to", "ours")


@pytest.fixture
def checkpoint(folder):
    save_file(TENSORS, "a.safetensors")
    return folder


def test_text_and_result(mhc_ops, checkpoint):
    done = mhc_ops(*BASE, "--from", "megatron-main")
    assert done.status == 0, done.err
    assert done.err == ""
    assert "1, megatron_main to ours" in done.out
    assert "b.safetensors, b.convention.json" in done.out
    convert_checkpoint("a.safetensors", "c.safetensors", source="megatron_main", target="ours")
    got, want = load_file("b.safetensors"), load_file("c.safetensors")
    assert got.keys() == want.keys()
    assert all(torch.equal(got[name], want[name]) for name in want)
    assert read_convention("b.safetensors") == OURS


def test_json_and_settings(mhc_ops, checkpoint):
    settings = ("--set", "num_iters=10", "--rename", "attn_hc$=mixer", "--json")
    done = mhc_ops(*BASE, "--from", "megatron_main", *settings)
    assert done.status == 0, done.err
    facts = done.json
    assert facts["convention"] == asdict(replace(OURS, num_iters=10))
    assert (facts["connections"], facts["heads"], facts["passed"]) == (1, 0, 1)
    assert facts["bytes"] == sum(t.nbytes for t in TENSORS.values())
    assert (facts["in"], facts["out"]) == ("a.safetensors", "b.safetensors")
    assert "layers.0.mixer.phi" in load_file("b.safetensors")


def test_mismatch_must_be_accepted(mhc_ops, checkpoint):
    arguments = ("--from", "megatron_main", "--to", "deepseek")
    done = mhc_ops(*BASE[:-2], *arguments)
    assert "no exact counterpart of norm_eps_outside True (there False)" in done.complaint
    assert sorted(os.listdir(checkpoint)) == ["a.safetensors"]
    done = mhc_ops(*BASE[:-2], *arguments, "--accept-mismatch", "--json")
    assert done.status == 0
    assert done.json["changed"]["order"] == "rows_last"
    closest = replace(Convention.deepseek_v4(), hc_eps=0.0, sinkhorn_eps=0.0)
    assert done.json["convention"] == asdict(closest)


MISTAKES = {
    "no source": ((), "name the source"),
    "source": (("--from", "megatron"), "did you mean megatron_dev or megatron_main?"),
    "another": (("--from", "liger"), "layers.0.attn_hc.phi is missing beside it"),
    "yet another": (("--from", "deepseek"), "fit the layouts megatron_main and megatron_dev"),
    "field": (("--from", "megatron_main", "--set", "iters=1"), "has no 'iters'"),
    "value": (("--from", "megatron_main", "--set", "num_iters=ten"), "num_iters must be"),
    "form": (("--from", "megatron_main", "--set", "num_iters"), "--set expects A=B"),
    "fixed": (("--from", "megatron_main", "--set", "order=columns_last"), "contradicts"),
    "gamma": (("--from", "megatron_main", "--gamma", "unfold"), "cannot be unfolded"),
    "file": (("--from", "megatron_main", "--in", "gone"), "no such file"),
    "place": (("--from", "megatron_main", "--out", "no/b.safetensors"), "not a folder"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_one_line(mhc_ops, checkpoint, mistake):
    arguments, text = MISTAKES[mistake]
    assert text in mhc_ops(*BASE, *arguments).complaint
    assert os.listdir(checkpoint) == ["a.safetensors"]
