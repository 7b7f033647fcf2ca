"""mhc-ops golden: what it writes, and what it refuses."""

import json
import signal
import subprocess
import sys

import pytest
import torch

from mhc_ops.tensorfile import TensorSet, read, write

SIZES = ("--shape", "T=8,n=4,D=128")


def test_a_golden_of_sizes(mhc_ops, tmp_path):
    done = mhc_ops("golden", "MhcPreBackward", *SIZES, "--out", tmp_path, "--attr", "hc_eps=0.5")
    assert done.status == 0
    (folder,) = tmp_path.iterdir()
    assert done.out.split() == [str(folder)]
    manifest = json.loads((folder / "inputs" / "manifest.json").read_text())
    assert manifest["op"] == "MhcPreBackward"
    assert manifest["attrs"]["hc_eps"] == 0.5
    assert (folder / "inputs" / "x.bin").stat().st_size == 8 * 4 * 128 * 2
    assert read(folder / "expected").tensors["grad_x"].dtype == torch.bfloat16
    assert read(folder / "truth").tensors["grad_x"].dtype == torch.float64


def test_goldens_of_other_attributes_lie_beside_each_other(mhc_ops, tmp_path):
    for eps in ("1e-6", "0.5"):
        done = mhc_ops("golden", "MhcPre", *SIZES, "--out", tmp_path, "--attr", f"hc_eps={eps}")
        assert done.status == 0
    first, second = sorted(tmp_path.iterdir())
    assert read(first / "inputs").attrs["hc_eps"] == 0.5
    assert read(second / "inputs").attrs["hc_eps"] == 1e-6


def test_a_place_that_cannot_hold_a_golden(mhc_ops, tmp_path):
    (tmp_path / "file").write_text("kept")
    done = mhc_ops("golden", "MhcPost", *SIZES, "--out", tmp_path / "file")
    assert "cannot be written" in done.complaint
    assert (tmp_path / "file").read_text() == "kept"


def test_what_it_writes_can_be_run_and_compared(mhc_ops, tmp_path):
    options = ("--dtype", "fp16", "--format", "safetensors", "--seed", 5, "--json")
    done = mhc_ops("golden", "MhcPost", *SIZES, "--out", tmp_path / "goldens", *options)
    (folder,) = done.json["goldens"]
    results = tmp_path / "results.safetensors"
    ran = mhc_ops("run", "MhcPost", "--in", f"{folder}/inputs.safetensors", "--out", results)
    assert ran.status == 0, ran.err
    same = mhc_ops("compare", results, f"{folder}/expected.safetensors")
    assert same.status == 0, same.out


@pytest.mark.parametrize("format_", ["folder", "npz", "safetensors"])
def test_goldens_of_a_case_file(mhc_ops, tmp_path, format_, case_file):
    done = mhc_ops(
        "golden", "mhc_post", "--cases", case_file, "--out", tmp_path, "--format", format_
    )
    assert done.status == 0, done.err
    names = {path.name for path in tmp_path.iterdir() if path != case_file}
    assert names == {"first", "second_of_two"}


@pytest.fixture
def case_file(tmp_path):
    tensor = {"dtype": "BFLOAT16", "shape": [2, 4, 8]}
    gate = {"dtype": "FLOAT", "shape": [2, 4]}
    case = {
        "op": "MhcPost",
        "layer": "st",
        "inputs": {"x": tensor, "hRes": None, "hOut": {**tensor, "shape": [2, 8]}, "hPost": gate},
        "outputs": {"out": tensor},
        "expect": "SUCCESS",
    }
    other = {**case, "name": "checks", "layer": "op_api"}
    cases = [{**case, "name": "first"}, {**case, "name": "second/of two"}, other]
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(cases))
    return path


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("MhcPost",), "either --cases or --shape"),
        (("MhcPost", *SIZES, "--cases", "cases.json"), "either --cases or --shape"),
        (("MhcPost", "--shape", "T=8,n"), "--shape expects"),
        (("MhcPost", "--shape", "T=8,n=4"), "sizes must be"),
        (("MhcPost", "--shape", "T=8,n=4,D=8,D=16"), "gives D twice"),
        (("MhcPost", *SIZES, "--dtype", "fp32"), "bf16 or fp16"),
        (("MhcPost", *SIZES, "--format", "zip"), "format must be one of"),
        (("MhcPost", *SIZES, "--attr", "eps=1"), "with one of none"),
        (("MhcPst", *SIZES), "MhcPst"),
    ],
)
def test_what_it_refuses(mhc_ops, tmp_path, arguments, word):
    assert word in mhc_ops("golden", *arguments, "--out", tmp_path / "out").complaint
    assert not (tmp_path / "out").exists()


def test_a_file_without_a_numeric_case_of_the_operator(mhc_ops, tmp_path, case_file):
    done = mhc_ops("golden", "MhcPre", "--cases", case_file, "--out", tmp_path / "out")
    assert "holds no numeric (st) case of MhcPre" in done.complaint


def test_a_run_killed_midway_leaves_nothing_that_reads_as_complete(mhc_ops, tmp_path):
    out = tmp_path / "goldens"
    command = (sys.executable, "-m", "mhc_ops.cli", "golden", "MhcPost", "--out", str(out))
    running = subprocess.Popen([*command, "--shape", "T=2048,n=4,D=256"])
    while not list(out.glob(".*.part/inputs/x.bin")):  # it has begun to write
        assert running.poll() is None
    running.kill()
    assert running.wait() == -signal.SIGKILL
    (left,) = out.iterdir()  # the temporary folder alone: no golden under its own name
    assert left.name.endswith(".part")
    write(tmp_path / "npu", TensorSet({"y": torch.zeros(1)}))
    assert "no complete golden" in mhc_ops("judge", tmp_path / "npu", left).complaint
    again = mhc_ops("golden", "MhcPost", *SIZES, "--out", out)
    assert again.status == 0
    assert set(read(f"{again.out.strip()}/truth").tensors) == {"y"}
