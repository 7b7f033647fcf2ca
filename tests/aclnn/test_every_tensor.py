"""What holds for each tensor of each operator on each chip: null, rank, size, dtype, format."""

import pytest

from mhc_ops import aclnn
from mhc_ops.aclnn import GRAPH_FAILED, GRAPH_SUCCESS
from mhc_ops.aclnn.spec import OPERATORS

from . import calls
from .calls import FP32, T, prepare, status, tile

NULL, INVALID, RUNTIME, OK = 161001, 161002, 361001, 0
MAKE = {
    "MhcPost": calls.post,
    "MhcPostBackward": calls.post_backward,
    "MhcSinkhorn": calls.sinkhorn,
    "MhcSinkhornBackward": calls.sinkhorn_backward,
    "MhcPreSinkhorn": calls.pre_sinkhorn,
    "MhcPreSinkhornBackward": calls.pre_sinkhorn_backward,
}
ON = [(op, soc) for op in MAKE for soc in OPERATORS[op].op_api]
TENSORS = [(op, t.name, soc) for op, soc in ON for t in OPERATORS[op].tensors]
TILED = {"MhcPreSinkhorn": {"d": 4096}}
"""Sizes that tiling accepts on every chip."""

# Sizes that no check of the layer looks at: tiling's in the calls, the outputs in tiling.
FREE_IN_CALL = {("MhcSinkhornBackward", "norm"), ("MhcSinkhornBackward", "sum")}
FREE_IN_TILING = {("MhcSinkhorn", name) for name in ("norm_out", "sum_out")} | {
    ("MhcPreSinkhorn", t.name) for t in OPERATORS["MhcPreSinkhorn"].tensors if t.kind == "output"
}
FORMATS_CHECKED = {"MhcPost": ("x", "y"), "MhcSinkhorn": ("h_res", "y")}
RANKS_FIRST = ("MhcPostBackward", "MhcPreSinkhorn", "MhcPreSinkhornBackward")
DTYPES_FREE_IN_TILING = tuple(op for op in MAKE if "Sinkhorn" in op)


def api(op):
    return OPERATORS[op].apis[0].name


def wider(value):
    return value._replace(shape=(*value.shape[:-1], value.shape[-1] + 1))


def deeper(value):
    return value._replace(shape=(1, *value.shape))


@pytest.mark.parametrize(("op", "soc"), ON)
def test_the_case_itself_is_good(op, soc):
    with aclnn.soc(soc):
        assert status(api(op), MAKE[op]()) == OK, aclnn.aclGetRecentErrMsg()
    result = tile(op, MAKE[op](**TILED.get(op, {})), soc)
    assert result.status == GRAPH_SUCCESS, result.message


@pytest.mark.parametrize("handle", ["workspaceSize", "executor"])
@pytest.mark.parametrize(("op", "soc"), ON)
def test_null_handles(op, soc, handle):
    with aclnn.soc(soc):
        assert prepare(api(op), MAKE[op](), **{handle: None}) == (NULL, 0, None)
    assert handle in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize(("op", "name", "soc"), TENSORS)
def test_null_tensors(op, name, soc):
    optional = name == "h_res" and op in ("MhcPost", "MhcPostBackward") and soc == "ascend950"
    expected = {
        ("MhcPost", "h_res"): OK if optional else RUNTIME,
        ("MhcPostBackward", "h_res"): OK if optional else NULL,
        ("MhcSinkhorn", "norm_out"): INVALID,
        ("MhcSinkhorn", "sum_out"): INVALID,
    }.get((op, name), NULL)
    with aclnn.soc(soc):
        assert status(api(op), MAKE[op]() | {name: None}) == expected
    good = optional or (OPERATORS[op].tensor(name).optional and name != "h_res")
    result = tile(op, MAKE[op](**TILED.get(op, {})) | {name: None}, soc)
    assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED)


@pytest.mark.parametrize("change", [wider, deeper])
@pytest.mark.parametrize(("op", "name", "soc"), TENSORS)
def test_a_size_or_a_dimension_more(op, name, soc, change):
    values = MAKE[op]()
    with aclnn.soc(soc):
        got = status(api(op), values | {name: change(values[name])})
    free = (op, name) in FREE_IN_CALL
    assert got == (OK if free else INVALID), aclnn.aclGetRecentErrMsg()
    if change is deeper and op in RANKS_FIRST:
        assert "dimensions, got" in aclnn.aclGetRecentErrMsg()
    values = MAKE[op](**TILED.get(op, {}))
    result = tile(op, values | {name: change(values[name])}, soc)
    free = (op, name) in FREE_IN_TILING
    assert result.status == (GRAPH_SUCCESS if free else GRAPH_FAILED), result.message


@pytest.mark.parametrize(("op", "name", "soc"), TENSORS)
def test_another_dtype(op, name, soc):
    values = MAKE[op](**TILED.get(op, {}))
    other = FP32 if values[name].dtype != FP32 else aclnn.ACL_DOUBLE
    changed = values | {name: values[name]._replace(dtype=other)}
    with aclnn.soc(soc):
        assert status(api(op), changed) == INVALID
    free = op in DTYPES_FREE_IN_TILING
    assert tile(op, changed, soc).status == (GRAPH_SUCCESS if free else GRAPH_FAILED)


@pytest.mark.parametrize(("op", "name", "soc"), TENSORS)
def test_a_private_format(op, name, soc):
    values = MAKE[op]()
    values[name] = T(*values[name][:2], aclnn.ACL_FORMAT_NC1HWC0_C04)
    checked = name in FORMATS_CHECKED.get(op, (name,))
    with aclnn.soc(soc):
        assert status(api(op), values) == (INVALID if checked else OK)


@pytest.mark.parametrize("lead", [(), (1, 2, 3)])
@pytest.mark.parametrize(("op", "soc"), ON)
def test_neither_packed_nor_batched(op, soc, lead):
    with aclnn.soc(soc):
        assert status(api(op), MAKE[op](lead=lead)) == INVALID
    assert tile(op, MAKE[op](lead=lead, **TILED.get(op, {})), soc).status == GRAPH_FAILED


@pytest.mark.parametrize(("op", "soc"), ON)
def test_no_tokens(op, soc):
    empty = op in ("MhcPostBackward", "MhcSinkhorn")
    with aclnn.soc(soc):
        code, size, _ = prepare(api(op), MAKE[op](lead=(2, 0)))
    assert (code, size) == ((INVALID if empty else OK), 0)
