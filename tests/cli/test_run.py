"""mhc-ops run: every format in and out, the library's bits, and whatever users get wrong."""

import json
import os
import shutil

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhc_ops import mhc_pre_backward, mhc_pre_forward
from mhc_ops.cli import main
from mhc_ops.tensorfile import TensorSet, read, write

FORMATS = ["case.safetensors", "case.npz", "case"]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    same = a.dtype == b.dtype and a.shape == b.shape
    return same and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def assert_results(path, expected) -> None:
    got = read(path).tensors
    want = {name: t for name, t in expected._asdict().items() if t is not None}
    assert got.keys() == want.keys()
    assert all(same_bits(got[name], want[name]) for name in want)


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", ["grads.safetensors", "grads.npz", "grads"])
def test_backward_from_and_to_every_format(mhc_ops, folder, backward_case, source, target):
    write(source, TensorSet(backward_case, "MhcPreBackward", {"hc_eps": 1e-3}))
    done = mhc_ops("run", "MhcPreBackward", "--in", source, "--out", target)
    assert done.status == 0, done.err
    assert "grad_gamma" in done.out
    assert_results(target, mhc_pre_backward(**backward_case, hc_eps=1e-3))
    written = read(target)
    assert (written.op, written.attrs) == ("MhcPreBackward", {"hc_eps": 1e-3})
    assert sorted(os.listdir(folder)) == sorted([source, target])


@pytest.mark.parametrize("target", ["out.safetensors", "out.npz", "out"])
def test_forward(mhc_ops, folder, forward_case, target):
    write("in.npz", TensorSet(forward_case))
    attrs = ("--attr", "norm_eps=1e-2", "--attr", "hc_eps=0.5", "--attr", "post_eps=0.25")
    assert mhc_ops("run", "MhcPre", "--in", "in.npz", "--out", target, *attrs).status == 0
    assert_results(
        target, mhc_pre_forward(**forward_case, norm_eps=1e-2, hc_eps=0.5, post_eps=0.25)
    )


def test_forward_without_residual_part(mhc_ops, folder, forward_case):
    few = {**forward_case, "alpha": torch.ones(2)}
    few["phi"], few["bias"] = few["phi"][:8], few["bias"][:8]
    write("in.npz", TensorSet(few))
    assert mhc_ops("run", "MhcPre", "--in", "in.npz", "--out", "out").status == 0
    assert_results("out", mhc_pre_forward(**few))


@pytest.mark.parametrize(("flag", "count"), [(0, 3), (1, 6)])
def test_out_flag(mhc_ops, folder, forward_case, flag, count):
    write("in.npz", TensorSet(forward_case, None, {"out_flag": flag}))
    assert mhc_ops("run", "MhcPre", "--in", "in.npz", "--out", "out").status == 0
    assert len(read("out").tensors) == count


def test_what_run_writes_run_can_chain(mhc_ops, folder, forward_case):
    """The outputs of MhcPre beside its inputs are a case of MhcPreBackward; strangers are left."""
    write("in.npz", TensorSet(forward_case))
    mhc_ops("run", "MhcPre", "--in", "in.npz", "--out", "out.npz")
    forward = read("out.npz").tensors
    upstream = {f"grad_{n}": torch.ones_like(forward[n]) for n in ("h_in", "h_post", "h_res")}
    write("both", TensorSet({**forward_case, **forward, **upstream}))
    done = mhc_ops("run", "MhcPreBackward", "--in", "both", "--out", "grads")
    assert done.status == 0
    assert done.err == "mhc-ops: not inputs of MhcPreBackward, left alone: bias, h_in, h_res.\n"


def test_options_win_over_the_file(mhc_ops, folder, backward_case):
    write("in.npz", TensorSet(backward_case, None, {"hc_eps": 0.5, "op_impl_mode": 1}))
    run = ("run", "mhc_pre_backward", "--in", "in.npz", "--json")
    done = mhc_ops(*run, "--out", "a.npz", "--attr", "hc_eps=0.25", "--precision", "fp32")
    assert done.json["attrs"] == {"hc_eps": 0.25, "precision": "fp32"}
    assert done.json["op"] == "MhcPreBackward"
    assert done.json["outputs"]["grad_x"] == {"dtype": "bfloat16", "shape": [5, 4, 24]}
    assert_results("a.npz", mhc_pre_backward(**backward_case, hc_eps=0.25))
    mhc_ops(*run, "--out", "b.npz", "--impl", "reference")
    expected = mhc_pre_backward(**backward_case, hc_eps=0.5, precision="hf32", impl="reference")
    assert_results("b.npz", expected)


def test_optional_tensors_may_be_absent(mhc_ops, folder, backward_case):
    few = {k: t for k, t in backward_case.items() if k not in ("gamma", "grad_x_post")}
    write("in.npz", TensorSet(few))
    assert mhc_ops("run", "MhcPreBackward", "--in", "in.npz", "--out", "out.npz").status == 0
    assert "grad_gamma" not in read("out.npz").tensors


def test_no_tokens(mhc_ops, folder, forward_case):
    write("in.npz", TensorSet({**forward_case, "x": forward_case["x"][:0]}))
    assert mhc_ops("run", "MhcPre", "--in", "in.npz", "--out", "out.safetensors").status == 0
    assert read("out.safetensors").tensors["h_res"].shape == (0, 4, 4)


def test_input_may_be_replaced_by_the_output(mhc_ops, folder, forward_case):
    for name in FORMATS:
        write(name, TensorSet(forward_case))
        assert mhc_ops("run", "MhcPre", "--in", name, "--out", name).status == 0
        assert_results(name, mhc_pre_forward(**forward_case))


def without(case, name):
    return {key: t for key, t in case.items() if key != name}


MISTAKES = {
    "missing": (lambda c: without(c, "phi"), "missing phi"),
    "misspelled": (lambda c: {**without(c, "gamma"), "gama": c["gamma"]}, "did you mean gamma"),
    "unknown": (lambda c: {**c, "q": c["x"]}, "unknown tensor 'q'"),
    "transposed": (lambda c: {**c, "phi": c["phi"].t()}, "phi"),
    "dtype": (lambda c: {**c, "phi": c["phi"].bfloat16()}, "phi"),
    "no residual gradient": (lambda c: without(c, "grad_h_res"), "grad_h_res"),
    "integers": (lambda c: {**c, "x": c["x"].to(torch.int32)}, "x"),
    "empty": (lambda c: {}, "missing"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_tensors(mhc_ops, folder, backward_case, mistake):
    spoil, message = MISTAKES[mistake]
    write("in.npz", TensorSet(spoil(backward_case)))
    done = mhc_ops("run", "MhcPreBackward", "--in", "in.npz", "--out", "out.npz")
    assert message in done.complaint
    assert os.listdir(folder) == ["in.npz"]


ARGUMENT_MISTAKES = {
    "operator": (("run", "MhcPost2", "--in", "in.npz", "--out", "o.npz"), "known are MhcPre"),
    "file": (("run", "MhcPreBackward", "--in", "no.npz", "--out", "o.npz"), "no such file"),
    "ending": (("run", "MhcPreBackward", "--in", "in.npz", "--out", "o.pt"), "unknown format .pt"),
    "place": (("run", "MhcPreBackward", "--in", "in.npz", "--out", "a/o.npz"), "not a folder"),
    "no out": (("run", "MhcPreBackward", "--in", "in.npz"), "--out"),
    "attr": (("--attr", "hc_esp=1"), "did you mean hc_eps"),
    "attr value": (("--attr", "hc_eps=big"), "must be a number, got 'big'"),
    "attr nan": (("--attr", "hc_eps=NaN"), "must be finite"),
    "attr bool": (("--attr", "hc_eps=true"), "must be a number"),
    "attr form": (("--attr", "hc_eps"), "NAME=VALUE"),
    "mode": (("--attr", "op_impl_mode=2"), "op_impl_mode must be 0 or 1"),
    "mode bool": (("--attr", "op_impl_mode=true"), "op_impl_mode must be 0 or 1"),
    "long": (("run", "MhcPre", "--in", "in.npz", "--out", "o" * 999), "cannot be written"),
    "long in": (("run", "MhcPre", "--in", "i" * 999, "--out", "o"), "iii"),
    "modes": (("--attr", "op_impl_mode=1", "--attr", "precision=fp32"), "contradicts"),
    "norm_eps": (("--attr", "norm_eps=1"), "unknown attribute 'norm_eps'"),
    "impl": (("--impl", "magic"), "magic"),
    "impl not here": (("--impl", "triton"), "triton"),
    "precision": (("--precision", "fp8"), "fp8"),
    "device": (("--device", "abacus"), "abacus"),
    "meta": (("--device", "meta"), "holds no values"),
    "option": (("--frobnicate",), "--frobnicate"),
}


@pytest.mark.parametrize("mistake", ARGUMENT_MISTAKES)
def test_wrong_arguments(mhc_ops, folder, backward_case, mistake):
    write("in.npz", TensorSet(backward_case))
    arguments, message = ARGUMENT_MISTAKES[mistake]
    if arguments[0] != "run":
        arguments = ("run", "MhcPreBackward", "--in", "in.npz", "--out", "o.npz", *arguments)
    assert message in mhc_ops(*arguments).complaint
    assert os.listdir(folder) == ["in.npz"]


def test_a_file_of_the_other_operator_is_refused(mhc_ops, folder, backward_case):
    write("in.npz", TensorSet(backward_case, "MhcPre"))
    done = mhc_ops("run", "MhcPreBackward", "--in", "in.npz", "--out", "o.npz")
    assert "for MhcPre, not MhcPreBackward" in done.complaint


def test_a_failed_run_keeps_the_old_output(mhc_ops, folder, backward_case):
    write("out", TensorSet({"x": torch.ones(2)}))
    write("in.npz", TensorSet(without(backward_case, "x")))
    assert mhc_ops("run", "MhcPreBackward", "--in", "in.npz", "--out", "out").status == 2
    assert list(read("out").tensors) == ["x"]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), name=st.sampled_from(["in.safetensors", "in.npz", "in/manifest.json"]))
def test_damaged_input_is_one_line_or_a_result(data, name, folder, forward_case, capsys):
    """Bytes changed or cut off: status 0 or 2, at most one line, no traceback, no leftovers."""
    path = folder / name
    source = folder / name.partition("/")[0]
    (folder / "out.npz").unlink(missing_ok=True)
    shutil.rmtree(folder / "in", ignore_errors=True)
    if "/" in name:
        write(source, TensorSet({k: t[:1] for k, t in forward_case.items()}))
    else:
        write(source, TensorSet(forward_case, "MhcPre", {"hc_eps": 1e-6}))
    damaged = bytearray(path.read_bytes())
    # The head of .safetensors and the end of .npz describe the rest: aim there as well.
    places = st.one_of(
        st.integers(0, len(damaged) - 1),
        st.integers(0, min(400, len(damaged) - 1)),
        st.integers(max(0, len(damaged) - 400), len(damaged) - 1),
    )
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(places)] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.one_of(st.just(len(damaged)), places)) :]
    path.write_bytes(damaged)
    capsys.readouterr()
    status = main(["run", "MhcPre", "--in", str(source), "--out", str(folder / "out.npz")])
    captured = capsys.readouterr()
    assert status in (0, 2)
    assert len(captured.err.splitlines()) == (1 if status else 0)
    assert (folder / "out.npz").exists() == (status == 0)
    assert not [n for n in os.listdir(folder) if n.startswith(".")]


def test_corrupt_manifest_by_hand(mhc_ops, folder, forward_case):
    write("in", TensorSet(forward_case))
    manifest = json.loads((folder / "in/manifest.json").read_text())
    manifest["tensors"]["x"]["file"] = "../../etc/passwd"
    (folder / "in/manifest.json").write_text(json.dumps(manifest))
    assert "outside the folder" in mhc_ops("run", "MhcPre", "--in", "in", "--out", "o").complaint
