"""mhc-ops judge: verdicts, hints, refusals, and the page."""

import shutil

import pytest
import torch

from mhc_ops.conformance.goldens import FORMATS
from mhc_ops.tensorfile import TensorSet, read, write

SIZES = ("--shape", "T=37,n=4,D=128")


@pytest.fixture
def golden(mhc_ops, folder):
    """A golden of MhcPost and, beside it, what this library computes from it."""
    done = mhc_ops("golden", "MhcPost", *SIZES, "--out", "goldens", "--json")
    (path,) = done.json["goldens"]
    shutil.move(path, "golden")
    assert mhc_ops("run", "MhcPost", "--in", "golden/inputs", "--out", "npu").status == 0
    return folder / "golden"


def spoil(change):
    content = read("npu")
    write("npu", content._replace(tensors={"y": change(content.tensors["y"])}))


def transposed(y):
    inputs = read("golden/inputs").tensors
    streams = torch.einsum("tji,tid->tjd", inputs["h_res"].double(), inputs["x"].double())
    return (streams + inputs["h_post"][..., None] * inputs["h_out"].double()[:, None]).to(y.dtype)


def test_a_right_result(mhc_ops, golden):
    done = mhc_ops("judge", "npu", "golden")
    assert done.status == 0, done.out
    assert done.err == ""
    assert done.out.splitlines()[-1] == "1 of 1 outputs passed"
    assert "known mistake" not in done.out


def test_a_known_mistake(mhc_ops, golden):
    spoil(transposed)
    done = mhc_ops("judge", "npu", "golden")
    assert done.status == 1
    assert "known mistake: transposed h_res" in done.out
    assert "stream 3" in done.out
    assert done.out.splitlines()[-1] == "0 of 1 outputs passed: y failed"


def test_json(mhc_ops, golden):
    spoil(transposed)
    found = mhc_ops("judge", "npu", "golden", "--json").json
    assert (found["passed"], found["hint"], found["op"]) == (False, "transposed h_res", "MhcPost")
    (output,) = found["outputs"]
    assert set(output["three_way"]["max_error"]) == {"got", "eager", "ours"}
    assert output["three_way"]["max_error"]["got"] > 10 * output["three_way"]["bound"]
    assert output["three_way"]["max_error"]["ours"] <= output["three_way"]["bound"]
    assert output["worst"][0]["at"].startswith("t=")
    assert [group["name"] for group in output["by_stream"]] == [f"stream {i}" for i in range(4)]
    assert output["by_tokens"][-1]["name"] == "36..36"


def test_an_output_under_two_names(mhc_ops, golden, folder):
    y = read("npu").tensors["y"]
    write("npu.npz", TensorSet({"y": y, "out": y}))
    (folder / "bare").mkdir()
    for name in ("y.bin", "out.bin"):
        shutil.copy(folder / "npu" / "y.bin", folder / "bare" / name)
    for results in ("npu.npz", "bare"):
        complaint = mhc_ops("judge", results, "golden").complaint
        assert "MhcPost: the results hold y twice, as" in complaint


def test_nan_in_the_wrong_place(mhc_ops, golden):
    def one_nan(y):
        y[3, 1, 7] = torch.nan
        return y

    spoil(one_nan)
    done = mhc_ops("judge", "npu", "golden")
    assert done.status == 1
    assert "NaN: 1 here, 0 wanted, 1 misplaced" in done.out
    assert "[t=3, i=1, d=7]" in done.out
    assert "no known pattern" in done.out


def test_within_the_criterion_but_worse_than_float32(mhc_ops, golden):
    spoil(lambda y: torch.nextafter(y, torch.full_like(y, torch.inf)))
    done = mhc_ops("judge", "npu", "golden", "--criterion", "default")
    assert done.status == 1
    assert "passes" in done.out
    assert "outside the float32 bound" in done.out


@pytest.mark.parametrize("criterion", ["published", "default", "ascend-st", "framework"])
def test_criteria_by_name(mhc_ops, golden, criterion):
    done = mhc_ops("judge", "npu", "golden", "--criterion", criterion, "--json")
    assert done.status == 0
    named = "framework" if criterion == "published" else criterion
    assert done.json["criterion"] == done.json["outputs"][0]["criterion"]["criterion"] == named


@pytest.mark.parametrize("form", FORMATS)
def test_goldens_of_every_format(mhc_ops, folder, form):
    mhc_ops("golden", "MhcSinkhorn", "--shape", "T=9,n=4", "--out", "all", "--format", form)
    (path,) = (folder / "all").iterdir()
    ending = "" if form == "folder" else f".{form}"
    mhc_ops("run", "MhcSinkhorn", "--in", path / f"inputs{ending}", "--out", "npu.npz")
    done = mhc_ops("judge", "npu.npz", path)
    assert done.status == 0, done.out
    assert "norm_out: not judged" in done.out


def test_bare_files_as_a_device_program_writes_them(mhc_ops, folder):
    mhc_ops("golden", "MhcPre", *SIZES, "--out", "all")
    (path,) = (folder / "all").iterdir()
    results = read(path / "expected").tensors
    (folder / "npu").mkdir()
    spelled = {"hin": "hIn", "h_post": "hPost", "h_res": "h_res", "inv_rms": "invRms"}
    for name, tensor in results.items():
        bits = tensor.contiguous().view(torch.uint8).numpy()
        (folder / "npu" / f"{spelled.get(name, name)}.bin").write_bytes(bits.tobytes())
    assert mhc_ops("judge", "npu", path).status == 0
    (folder / "npu" / "hPost.bin").write_bytes(b"123")
    assert (
        "hPost.bin has 3 bytes, but h_post [37, 4] in float32 takes 592"
        in mhc_ops("judge", "npu", path).complaint
    )
    (folder / "npu" / "hPost.bin").unlink()
    done = mhc_ops("judge", "npu", path)
    assert done.status == 1
    assert "MISSING" in done.out
    assert "h_post failed" in done.out


def test_spellings_of_an_output(mhc_ops, golden):
    y = read("npu").tensors["y"]
    write("out.npz", TensorSet({"out": y}))
    done = mhc_ops("judge", "out.npz", "golden")
    assert done.status == 0
    assert done.out.splitlines()[-1] == "1 of 1 outputs passed"


def test_other_shapes_and_dtypes_are_told(mhc_ops, golden):
    spoil(lambda y: y[:-1])
    done = mhc_ops("judge", "npu", "golden", "--html", "page.html")
    assert done.status == 1
    assert "y: shape is [36, 4, 128], expected [37, 4, 128]" in done.out
    write("npu", TensorSet({"y": read("golden/expected").tensors["y"].float()}))
    assert "y: dtype is float32, expected bfloat16" in mhc_ops("judge", "npu", "golden").out


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        ("expected/manifest.json", "is a folder without a manifest.json"),
        ("truth", "holds none of truth, truth.npz, truth.safetensors; write it again"),
        ("inputs", "is no complete golden: it holds none of inputs"),
        ("inputs/x.bin", "x.bin of x is missing"),
        ("", "is no folder; a golden is one"),
    ],
)
def test_half_a_golden_is_refused(mhc_ops, golden, spoiled, message):
    target = golden / spoiled
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    assert message in mhc_ops("judge", "npu", "golden").complaint


def test_a_golden_of_changed_parts_is_refused(mhc_ops, golden):
    inputs, truth = read(golden / "inputs"), read(golden / "truth")
    write(golden / "truth", truth._replace(tensors={"y": truth.tensors["y"].float()}))
    assert "the truth of y must be float64" in mhc_ops("judge", "npu", "golden").complaint
    write(golden / "truth", truth._replace(tensors={}))
    assert "hold different outputs" in mhc_ops("judge", "npu", "golden").complaint
    write(golden / "truth", truth._replace(op="MhcPre"))
    assert "must name one known operator" in mhc_ops("judge", "npu", "golden").complaint
    write(golden / "truth", truth)
    fewer = {name: t for name, t in inputs.tensors.items() if name != "h_out"}
    write(golden / "inputs", inputs._replace(tensors=fewer))
    assert "h_out is missing among the inputs" in mhc_ops("judge", "npu", "golden").complaint
    write(golden / "inputs", inputs._replace(tensors={**inputs.tensors, "q": fewer["x"]}))
    assert "q is unknown among the inputs" in mhc_ops("judge", "npu", "golden").complaint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("npu", "golden", "--criterion", "strict"), "known are published, default"),
        (("nowhere", "golden"), "no such file"),
        (("golden", "golden"), "holds neither a manifest.json nor a .bin file of an output"),
        (("npu", "golden", "--html", "no/page.html"), "cannot write no/page.html"),
        (("other", "golden"), "holds results of MhcPre, the golden is MhcPost"),
    ],
)
def test_bad_input(mhc_ops, golden, arguments, message):
    write("other", TensorSet({"y": torch.zeros(1)}, "MhcPre"))
    assert message in mhc_ops("judge", *arguments).complaint
