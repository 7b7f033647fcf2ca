"""Files that are no case files: one sentence that says where and what."""

import pytest

from mhc_ops.conformance import CaseFileError, load_cases, parse_case

GOOD = {"name": "a", "op": "MhcPre", "layer": "op_api", "inputs": {}, "expect": "PARAM_NULLPTR"}


def tensor(**change):
    return {"inputs": {"x": {"dtype": "FLOAT", "shape": [1]} | change}}


def test_the_least_a_case_needs():
    case = parse_case(GOOD)
    assert (case.soc, case.api, case.attrs, case.outputs) == ("default", "", {}, {})
    assert case.null_handles == ()
    handles = parse_case(GOOD | {"executor": None, "workspaceSize": "given"})
    assert handles.null_handles == ("executor",)


@pytest.mark.parametrize("key", list(GOOD))
def test_missing_keys(key):
    entry = {k: v for k, v in GOOD.items() if k != key}
    with pytest.raises(CaseFileError, match=f"the key '{key}' is missing"):
        parse_case(entry)


WRONG = {
    "not an object": ([1], "expected an object, got a list"),
    "name": (GOOD | {"name": None}, "'name' must be a text, got null"),
    "op": (GOOD | {"op": 7}, "'op' must be a text, got 7"),
    "layer": (GOOD | {"layer": "ut"}, "'layer' must be one of op_api, infershape, tiling, st"),
    "expect": (GOOD | {"expect": "FINE"}, "'expect' must be one of SUCCESS"),
    "expect_by_code": (GOOD | {"expect_by_code": "FINE"}, "'expect_by_code' must be one of"),
    "inputs": (GOOD | {"inputs": []}, "'inputs' must be an object, got a list"),
    "stale": (GOOD | {"stale": "yes"}, "'stale' must be true or false, got a text"),
    "attrs": (GOOD | {"attrs": [1]}, "'attrs' must be an object, got a list"),
    "tensor": (GOOD | {"inputs": {"x": [1]}}, "inputs x: expected an object or null, got a list"),
    "dtype": (GOOD | tensor(dtype="FLOAT8"), "'dtype' must be one of FLOAT, FLOAT16"),
    "no dtype": (GOOD | {"inputs": {"x": {"shape": [1]}}}, "the key 'dtype' is missing"),
    "shape": (GOOD | tensor(shape=3), "'shape' must be a list, got 3"),
    "sizes": (GOOD | tensor(shape=[1, "a"]), "'shape' must hold integers of at least 0"),
    "unknown size": (GOOD | tensor(shape=[-1]), "'shape' must hold integers of at least 0"),
    "true size": (GOOD | tensor(shape=[True]), "'shape' must hold integers"),
    "format": (GOOD | tensor(format="XY"), "'format' must be one of UNDEFINED, NCHW"),
    "tensor name": (GOOD | {"inputs": {"y": None}}, "'y' is no input of MhcPre; they are x, phi"),
    "output name": (GOOD | {"outputs": {"x": None}}, "'x' is no output of MhcPre; they are hin"),
    "attribute": (GOOD | {"attrs": {"eps": 1}}, "'eps' is no attribute of MhcPre"),
    "attribute type": (
        GOOD | {"attrs": {"hcEps": "1"}},
        "attribute 'hcEps' must be a double number, got a text",
    ),
    "mode type": (
        GOOD | {"attrs": {"opImplMode": 0.5}},
        "attribute 'opImplMode' must be a int64_t number, got 0.5",
    ),
    "api": (GOOD | {"api": "aclnnMhcPreV3"}, "'api' must be one of aclnnMhcPre, aclnnMhcPreV2"),
    "mode of V1": (
        GOOD | {"api": "aclnnMhcPre", "attrs": {"opImplMode": 1}},
        "aclnnMhcPre does not take 'opImplMode'",
    ),
}


@pytest.mark.parametrize(("entry", "text"), WRONG.values(), ids=list(WRONG))
def test_wrong_cases(entry, text):
    with pytest.raises(CaseFileError, match=r"^case.*\.$") as error:
        parse_case(entry)
    assert text in str(error.value)


def test_unknown_dims_are_for_shapes_alone():
    for layer in ("infershape", "tiling"):
        assert parse_case(GOOD | tensor(shape=[-2]) | {"layer": layer, "expect": "GRAPH_FAILED"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[1,", "is not JSON"),
        ("{}", "expected a list of cases, got an object"),
        ("5", "expected a list of cases, got 5"),
        ("[5]", "case 0: expected an object, got 5"),
    ],
)
def test_wrong_files(case_file, text, message):
    with pytest.raises(CaseFileError) as error:
        load_cases(case_file(text=text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CaseFileError, match="cannot be read: No such file"):
        load_cases(tmp_path / "none.json")
    with pytest.raises(CaseFileError, match="cannot be read: Is a directory"):
        load_cases(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CaseFileError, match="is not JSON"):
        load_cases(tmp_path / "binary")


def test_an_empty_file_has_no_cases(case_file):
    assert load_cases(case_file(text="[]")) == []
