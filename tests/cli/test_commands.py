"""demo, describe, info, and the door they share."""

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch

from mhc_ops import __version__
from mhc_ops.cli import main
from mhc_ops.cli.demo import DTYPES

SMALL = ("--tokens", "33", "--streams", "4", "--dim", "128", "--repeats", "1")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gamma", ["--gamma", "--no-gamma"])
def test_demo_is_good_in_every_dtype(mhc_ops, dtype, gamma):
    done = mhc_ops("demo", *SMALL, "--dtype", dtype, gamma)
    assert done.status == 0, done.out
    assert done.err == ""
    outputs = 11 if gamma == "--gamma" else 10
    assert done.out.splitlines()[-1] == f"all {outputs} outputs within their bound"


@pytest.mark.parametrize("impl", ["reference", "torch"])
@pytest.mark.parametrize("precision", ["fp32", "hf32"])
def test_demo_json(mhc_ops, impl, precision):
    done = mhc_ops("demo", *SMALL, "--json", "--impl", impl, "--precision", precision)
    assert done.status == 0
    report = done.json
    assert report["good"]
    assert report["setting"]["impl"] == impl
    assert len(report["outputs"]) == 11
    assert all(o["error"] <= o["bound"] for o in report["outputs"])
    assert len(report["first_values"]["grad_x"]) == 4
    assert min(report["seconds"].values()) > 0
    refusing = {(s["soc"], s["op"]) for s in report["socs"] if not s["accepts"]}
    a2_and_a3 = {("ascend910b", "MhcPre"), ("ascend910_93", "MhcPre")}  # FP32 alone there
    assert refusing == (a2_and_a3 if precision == "hf32" else set())


def test_demo_says_which_chips_refuse_and_why(mhc_ops):
    done = mhc_ops("demo", "--tokens", 3, "--streams", 5, "--dim", 7, "--repeats", 1, "--json")
    assert done.status == 0
    assert len(done.json["socs"]) == 6
    assert all("n" in s["refusal"] and not s["accepts"] for s in done.json["socs"])


def test_demo_is_seeded(mhc_ops):
    first, again, other = (
        mhc_ops("demo", *SMALL, "--json", "--seed", seed).json["first_values"] for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_demo_fails_when_an_output_is_off(mhc_ops, monkeypatch):
    """A gradient with a wrong factor must not pass for a demonstration."""
    module = importlib.import_module("mhc_ops.cli.demo_checks")
    real = module.mhc_pre_backward

    def wrong(*args, **options):
        result = real(*args, **options)
        if options["impl"] == "reference":
            return result
        return result._replace(grad_alpha=result.grad_alpha * 1.001)

    monkeypatch.setattr(module, "mhc_pre_backward", wrong)
    done = mhc_ops("demo", *SMALL)
    assert done.status == 1
    assert "grad_alpha: element" in done.out
    assert done.out.splitlines()[-1] == "1 of 11 outputs outside their bound"
    assert mhc_ops("demo", *SMALL, "--json").json["good"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tokens", "0"), "--tokens"),
        (("--tokens", "many"), "--tokens"),
        (("--dtype", "int8"), "known are bf16"),
        (("--precision", "tf32"), "tf32"),
        (("--impl", "triton"), "triton"),
        (("--device", "cuda:99"), "cuda:99"),
        (("--tokens", 10**15), "memory"),
        (("--tokens", 10**18), "memory"),
        (("--seed", -1), "--seed"),
    ],
)
def test_demo_bad_input(mhc_ops, arguments, message):
    assert message in mhc_ops("demo", *arguments).complaint


def test_describe_lists_operators(mhc_ops):
    done = mhc_ops("describe")
    assert done.status == 0
    assert "MhcPre " in done.out
    assert "MhcPreBackward" in done.out
    assert {"MhcPre", "MhcPreBackward"} <= mhc_ops("describe", "--json").json.keys()


@pytest.mark.parametrize("name", ["MhcPreBackward", "mhc_pre_backward", "aclnnMhcPreBackwardV2"])
def test_describe(mhc_ops, name):
    done = mhc_ops("describe", name)
    assert done.status == 0
    for part in (
        "aclnnMhcPreBackwardV2GetWorkspaceSize(x, phi, alpha, gradHIn,",
        "gradXPostOptional",
        "[*lead, n, D]",
        "BFLOAT16 or FLOAT16",
        "ascend910b, ascend910_93",
        "161001 PARAM_NULLPTR",
        "hc_eps",
    ):
        assert part in done.out
    described = mhc_ops("describe", name, "--json").json
    assert described["name"] == "MhcPreBackward"
    assert described["op_api"]["ascend950"][0]["words"]


def test_describe_unknown(mhc_ops):
    complaint = mhc_ops("describe", "MhcPst").complaint
    assert "'MhcPst'" in complaint
    assert "MhcPreBackward" in complaint


def test_info(mhc_ops):
    done = mhc_ops("info")
    assert done.status == 0
    assert torch.__version__ in done.out
    assert "impl='auto' takes" in done.out
    facts = mhc_ops("info", "--json").json
    assert facts["mhc_ops"] == __version__
    assert facts["threads"]["intra_op"] == torch.get_num_threads()
    works = {i["impl"]: i["obstacle"] is None for i in facts["implementations"]}
    assert works["reference"]
    assert works["torch"]
    assert "never run on an NPU" in done.out
    assert "aclnnMhcPost  " in done.out
    assert len(facts["operators"]) == 8
    assert facts["operators"]["MhcSinkhorn"] == {
        "calls": ["aclnnMhcSinkhorn"],
        "socs": ["ascend950"],
    }


def test_the_door(mhc_ops):
    assert mhc_ops("--version").out == f"mhc-ops {__version__}\n"
    assert "give a command: demo, run" in mhc_ops().complaint
    assert "frob" in mhc_ops("frob").complaint
    for command in ("demo", "run", "compare", "conform", "describe", "info"):
        done = mhc_ops(command, "--help")
        assert done.status == 0
        assert "--json" in done.out


def test_a_closed_pipe_ends_quietly():
    """`mhc-ops describe ... | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mhc_ops.cli", "describe", "MhcPre"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_there_is_one_line(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["info"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"mhc-ops: the command line needs the package {package};"
        " install it with: pip install '.[cli]'\n"
    )


def test_as_a_program():
    """One real process: JSON alone on stdout, the status handed to the shell."""
    command = [sys.executable, "-m", "mhc_ops.cli", "describe", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "MhcPre" in json.loads(done.stdout)
