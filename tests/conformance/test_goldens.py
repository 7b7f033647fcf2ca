"""Goldens: what is drawn, what is expected of it, and that only complete ones are ever seen."""

import json

import pytest
import torch

from mhc_ops import aclnn
from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.conformance import CaseFileError, load_cases, parse_case
from mhc_ops.conformance.goldens import FORMATS, case_of_sizes, make_golden, write_golden
from mhc_ops.errors import ArgumentError
from mhc_ops.tensorfile import read
from mhc_ops.testing.budgets import round_to
from tests.aclnn import calls

SIZES = {op: {"B": 2, "S": 3, "n": 4, "D": 128} for op in OPERATORS}
for name in ("MhcSinkhorn", "MhcSinkhornBackward"):
    del SIZES[name]["D"]


def golden_of(op, seed=0, **more):
    return make_golden(case_of_sizes(op, SIZES[op] | more, seed=seed))


@pytest.mark.parametrize("op", OPERATORS)
def test_the_operator_gives_what_the_golden_expects(op):
    golden = golden_of(op)
    table, attrs = OPERATORS[op], golden.inputs.attrs
    values = {t.name: None for t in table.tensors} | dict(attrs) | golden.inputs.tensors
    for name, tensor in golden.expected.tensors.items():
        values[name] = torch.full_like(tensor, torch.nan)
    assert calls.run(table.apis[0].name, values) == 0, aclnn.aclGetRecentErrMsg()
    assert set(golden.expected.tensors) == set(table.names("output"))
    for name, want in golden.expected.tensors.items():
        got = values[name]
        if name == "sum_out" and op == "MhcSinkhorn":  # its first vector is not written
            got, want = got[6 * 8 :], want[6 * 8 :]
        scale = float(want.double().abs().max())
        rounding = 2.0**-7 if want.dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(got, want, rtol=rounding, atol=1e-5 * scale)


@pytest.mark.parametrize("op", OPERATORS)
def test_expected_is_the_truth_rounded_once(op):
    golden = golden_of(op)
    for name, tensor in golden.truth.tensors.items():
        assert tensor.dtype == torch.float64
        expected = golden.expected.tensors[name]
        assert torch.equal(expected, round_to(tensor, expected.dtype))


def test_a_seed_draws_the_same_numbers_and_another_one_others():
    first, again, other = (golden_of("MhcPre", seed).inputs.tensors["x"] for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_distributions_are_the_published_ones():
    drawn = golden_of("MhcPreSinkhorn").inputs.tensors
    assert 1 <= drawn["x"].min() < 10000
    assert drawn["x"].max() > 90000
    bound = (4 * 128) ** -0.5
    assert 0.9 * bound < drawn["phi"].abs().max() <= bound
    assert golden_of("MhcPre").inputs.tensors["alpha"].eq(0.5).all()
    post = golden_of("MhcPost").inputs.tensors
    assert all(0 <= t.min() and t.max() <= 1 for t in post.values())


@pytest.mark.parametrize(
    ("more", "h_res", "rows"),
    [({"f": 32}, [2, 3, 24], 32), ({"A": 2}, None, 8), ({}, [2, 3, 4, 4], 24)],
)
def test_forms_of_phi(more, h_res, rows):
    golden = golden_of("MhcPre", **more)
    assert list(golden.inputs.tensors["phi"].shape) == [rows, 512]
    found = golden.expected.tensors.get("h_res")
    assert h_res == (None if found is None else list(found.shape))


@pytest.mark.parametrize("form", FORMATS)
def test_files_hold_the_golden(form, tmp_path):
    golden = golden_of("MhcSinkhorn")
    write_golden(golden, tmp_path / "deep" / "golden", form)
    ending = "" if form == "folder" else f".{form}"
    for name, content in golden._asdict().items():
        back = read(tmp_path / "deep" / "golden" / f"{name}{ending}")
        assert back.op == "MhcSinkhorn"
        assert back.attrs["num_iters"] == 20
        assert set(back.tensors) == set(content.tensors)
        for tensor, values in content.tensors.items():
            assert torch.equal(back.tensors[tensor], values)


def test_an_interrupted_write_leaves_nothing_that_reads_as_a_golden(tmp_path, monkeypatch):
    golden = golden_of("MhcPost")
    write_golden(golden, tmp_path / "golden")
    kept = (tmp_path / "golden" / "inputs" / "x.bin").read_bytes()
    real, written = torch.Tensor.cpu, []

    def stop(tensor, *args, **options):
        written.append(tensor)
        if len(written) == 6:  # inputs are there, expected is not
            raise KeyboardInterrupt
        return real(tensor, *args, **options)

    monkeypatch.setattr(torch.Tensor, "cpu", stop)
    other = golden_of("MhcPost", seed=1)
    for folder in ("golden", "new"):
        written.clear()
        with pytest.raises(KeyboardInterrupt):
            write_golden(other, tmp_path / folder)
    assert (tmp_path / "golden" / "inputs" / "x.bin").read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["golden"]


@pytest.mark.parametrize(
    ("op", "sizes", "word"),
    [
        ("MhcPre", {"n": 4, "D": 128}, "sizes must be n, D and T"),
        ("MhcPre", {"T": 4, "n": 4}, "sizes must be n, D and T"),
        ("MhcPre", {"T": 4, "S": 4, "B": 1, "n": 4, "D": 16}, "sizes must be"),
        ("MhcPre", {"B": 4, "n": 4, "D": 16}, "sizes must be|B goes with S"),
        ("MhcPre", {"S": 4, "n": 4, "D": 16}, "B goes with S"),
        ("MhcPre", {"T": 0, "n": 4, "D": 16}, "at least 1"),
        ("MhcPre", {"T": 4, "n": 4, "D": 16, "q": 1}, "got T, n, D, q"),
        ("MhcPre", {"T": 4, "n": 4, "D": 16, "f": 23}, "got A = 3 and f = 23"),
        ("MhcPre", {"T": 4, "n": 4, "D": 16, "A": 4}, "A must be 3"),
        ("MhcPrae", {"T": 4, "n": 4, "D": 16}, "op must be one of"),
    ],
)
def test_sizes_that_make_no_case(op, sizes, word):
    with pytest.raises(ArgumentError, match=word):
        case_of_sizes(op, sizes)


def test_goldens_are_made_of_numeric_cases_with_a_finite_truth(shared_file):
    checks = next(c for c in load_cases(shared_file) if c.layer == "op_api")
    with pytest.raises(CaseFileError, match="numeric"):
        make_golden(checks)
    case = case_of_sizes("MhcPost", SIZES["MhcPost"])
    entry = {"name": "inf", "op": "MhcPost", "layer": "st", "expect": "SUCCESS"}
    tensors = {
        kind: {n: d and {"dtype": d.dtype, "shape": list(d.shape)} for n, d in group.items()}
        for kind, group in (("inputs", case.inputs), ("outputs", case.outputs))
    }
    wild = parse_case(entry | tensors | {"value_range": {"hPost": float("inf")}})
    with pytest.raises(CaseFileError, match="y is not finite"):
        make_golden(wild)


def test_every_numeric_case_of_the_files_makes_a_golden(family_file):
    small = [
        c
        for c in load_cases(family_file)
        if c.layer == "st"
        and c.expect == "SUCCESS"
        and all(d is None or torch.Size(d.shape).numel() < 1 << 20 for d in c.inputs.values())
    ]
    assert small
    for case in small:
        golden = make_golden(case)
        assert json.dumps(dict(golden.inputs.attrs))
        assert golden.expected.tensors
