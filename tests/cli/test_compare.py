"""mhc-ops compare: what is equal, what is not, and how it says so."""

import pytest
import torch

from mhc_ops.tensorfile import TensorSet, write


@pytest.fixture
def base() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        "grad_x": torch.randn(7, 4, 24, generator=generator).bfloat16(),
        "grad_phi": torch.randn(24, 96, generator=generator),
        "grad_alpha": torch.tensor([float("nan"), float("inf"), -1.0]),
    }


def changed(base, name, at, value):
    copy = {key: t.clone() for key, t in base.items()}
    copy[name][at] = value
    return copy


@pytest.mark.parametrize("criterion", ["default", "ascend-st", "framework", "pre-sinkhorn"])
@pytest.mark.parametrize(("a", "b"), [("a.npz", "b.safetensors"), ("a", "b.npz"), ("a", "b")])
def test_equal_sets_in_different_formats(mhc_ops, folder, base, criterion, a, b):
    write(a, TensorSet(base))
    write(b, TensorSet(base))
    done = mhc_ops("compare", a, b, "--criterion", criterion)
    assert done.status == 0
    assert done.err == ""
    assert done.out.splitlines()[-1] == "3 of 3 tensors equal"


def test_one_element_off_is_found(mhc_ops, folder, base):
    write("a", TensorSet(changed(base, "grad_phi", (3, 17), 100.0)))
    write("b", TensorSet(base))
    done = mhc_ops("compare", "a", "b")
    assert done.status == 1
    assert "[3,17] 100, wanted" in done.out
    assert "grad_phi: 1 of 2304 elements outside the bound" in done.out
    assert done.out.splitlines()[-1] == "2 of 3 tensors equal"


def test_json(mhc_ops, folder, base):
    write("a", TensorSet(changed(base, "grad_alpha", 0, 1.0), "MhcPreBackward"))
    write("b", TensorSet(base, "MhcPreBackward"))
    done = mhc_ops("compare", "a", "b", "--json", "--criterion", "framework")
    assert done.status == 1
    assert (done.json["equal"], done.json["op"]) == (False, "MhcPreBackward")
    by_name = {t["name"]: t for t in done.json["tensors"]}
    assert by_name["grad_alpha"]["worst"]["want"] == "nan"
    assert by_name["grad_alpha"]["nan_misplaced"] == 1
    assert by_name["grad_x"]["passed"]


def test_missing_and_extra_tensors_are_not_equal(mhc_ops, folder, base):
    write("a", TensorSet({**base, "more": torch.zeros(1)}))
    write("b", TensorSet({**base, "lost": torch.zeros(1)}))
    done = mhc_ops("compare", "a", "b")
    assert done.status == 1
    assert "MISSING" in done.out
    assert "EXTRA" in done.out
    assert done.out.splitlines()[-1] == "3 of 5 tensors equal"
    done = mhc_ops("compare", "a", "b", "--json")
    assert (done.json["missing"], done.json["extra"]) == (["lost"], ["more"])


def test_one_missing_or_one_extra_tensor_is_enough(mhc_ops, folder, base):
    write("a", TensorSet(base))
    write("b", TensorSet({**base, "more": torch.zeros(1)}))
    assert mhc_ops("compare", "a", "b").status == 1
    assert mhc_ops("compare", "b", "a").status == 1


def test_shape_and_dtype_differences_are_not_equal(mhc_ops, folder, base):
    write("a", TensorSet({"x": torch.zeros(2, 3), "y": torch.zeros(2).half()}))
    write("b", TensorSet({"x": torch.zeros(3, 2), "y": torch.zeros(2)}))
    done = mhc_ops("compare", "a", "b")
    assert done.status == 1
    assert "x: shape is [2, 3], expected [3, 2]" in done.out
    assert "y: dtype is float16, expected float32" in done.out


def test_both_spellings_of_a_name_meet(mhc_ops, folder, base):
    write("a", TensorSet({"gradX": base["grad_x"], "hin": base["grad_phi"]}))
    write("b", TensorSet({"grad_x": base["grad_x"], "h_in": base["grad_phi"]}))
    assert mhc_ops("compare", "a", "b").status == 0


def test_criteria_differ_where_they_should(mhc_ops, folder):
    """1.01 against 1 in grad_x: within 2^-7 + 2^-7, within nothing else."""
    write("a", TensorSet({"grad_x": torch.full((9,), 1.01)}))
    write("b", TensorSet({"grad_x": torch.ones(9)}))
    verdicts = {
        criterion: mhc_ops("compare", "a", "b", "--criterion", criterion).status
        for criterion in ("default", "ascend-st", "framework", "pre-sinkhorn")
    }
    assert verdicts == {"default": 1, "ascend-st": 0, "framework": 1, "pre-sinkhorn": 1}


def test_framework_tolerances_by_operator_and_by_hand(mhc_ops, folder):
    write("a", TensorSet({"grad_x": torch.full((9,), 1.005)}))
    write("b", TensorSet({"grad_x": torch.ones(9)}))
    call = ("compare", "a", "b", "--criterion", "framework")
    assert mhc_ops(*call).status == 1
    assert mhc_ops(*call, "--op", "MhcPreBackward").status == 0
    assert mhc_ops(*call, "--op", "mhc_pre_backward").status == 0
    assert mhc_ops(*call, "--tolerance", "gradX=0.0078125").status == 0
    assert mhc_ops(*call, "--tolerance", "0.0078125").status == 0
    assert mhc_ops(*call, "--op", "MhcPreBackward", "--tolerance", "1e-4").status == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "nowhere"), "no such file"),
        (("a",), "B"),
        (("a", "b", "--criterion", "strict"), "known are default, ascend-st"),
        (("a", "b", "--tolerance", "grad_x=much"), "NAME=P"),
        (("a", "b", "--tolerance", "-1"), "tolerance"),
        (("a", "b", "--op", "MhcPst"), "unknown operator 'MhcPst'"),
        (("a", "b", "--tolerance", "q=1"), "'q'"),
        (("empty", "empty"), "nothing to compare"),
        (("broken.npz", "b"), "broken.npz"),
    ],
)
def test_bad_input(mhc_ops, folder, base, arguments, message):
    write("a", TensorSet(base))
    write("b", TensorSet(base))
    write("empty", TensorSet({}))
    (folder / "broken.npz").write_bytes(b"PK")
    assert message in mhc_ops("compare", *arguments).complaint


def test_names_with_brackets_are_printed_as_they_are(mhc_ops, folder):
    write("a", TensorSet({"[red]x[/red]": torch.zeros(1)}))
    assert "[red]x[/red]" in mhc_ops("compare", "a", "a").out
