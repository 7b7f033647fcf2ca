"""mhc-ops conform: what it prints and which status it ends with; the cases have their own tests."""

import json

import pytest

GOOD_CASE = {
    "name": "small_shapes",
    "op": "MhcPre",
    "layer": "infershape",
    "soc": "default",
    "rule": "shape",
    "inputs": {
        "x": {"dtype": "BFLOAT16", "shape": [8, 4, 128]},
        "phi": {"dtype": "FLOAT", "shape": [24, 512]},
        "alpha": {"dtype": "FLOAT", "shape": [3]},
        "bias": {"dtype": "FLOAT", "shape": [24]},
        "gamma": None,
    },
    "attrs": {},
    "outputs": {},
    "expect": "GRAPH_SUCCESS",
    "expect_outputs": {},
}
BAD_CASE = {**GOOD_CASE, "name": "must_fail", "expect": "GRAPH_FAILED"}
UNKNOWN_CASE = {**GOOD_CASE, "name": "from_the_future", "op": "MhcTomorrow"}


@pytest.fixture
def cases(folder):
    def store(*cases, name="cases.json"):
        (folder / name).write_text(json.dumps(cases))
        return name

    return store


def test_all_pass(mhc_ops, cases):
    done = mhc_ops("conform", cases(GOOD_CASE), cases(GOOD_CASE, UNKNOWN_CASE, name="more.json"))
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "2 passed, 0 failed, 1 skipped"
    assert "MhcTomorrow" in done.out


def test_a_failure_has_a_line(mhc_ops, cases):
    done = mhc_ops("conform", cases(GOOD_CASE, BAD_CASE))
    assert done.status == 1
    failure, summary = done.out.splitlines()
    assert "must_fail" in failure
    assert summary == "1 passed, 1 failed, 0 skipped"


def test_json(mhc_ops, cases):
    report = mhc_ops("conform", cases(GOOD_CASE, BAD_CASE, UNKNOWN_CASE), "--json").json
    assert (report["passed"], report["failed"], report["skipped"]) == (1, 1, 1)


def test_verbose_names_what_was_skipped(mhc_ops, cases):
    name = cases(GOOD_CASE, UNKNOWN_CASE)
    assert "from_the_future" not in mhc_ops("conform", name).out
    assert "from_the_future" in mhc_ops("conform", name, "-v").out


@pytest.mark.parametrize("content", [(), (UNKNOWN_CASE,)])
def test_no_case_ran(mhc_ops, cases, content):
    done = mhc_ops("conform", cases(*content))
    assert done.status == 2
    assert done.out.splitlines()[-1] == f"0 passed, 0 failed, {len(content)} skipped"
    assert done.err == "mhc-ops: no case ran in cases.json.\n"


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", '[{"name": "x"}]', "\x00"])
def test_not_a_case_file(mhc_ops, folder, text):
    (folder / "bad.json").write_text(text)
    assert "bad.json" in mhc_ops("conform", "bad.json").complaint


def test_missing_file_folder_and_nothing(mhc_ops, folder):
    assert "no.json" in mhc_ops("conform", "no.json").complaint
    assert str(folder) in mhc_ops("conform", folder).complaint
    assert "FILES" in mhc_ops("conform").complaint
