"""MhcPreSinkhorn: first phase, infershape, tiling, hand values, and the chain of its two parts."""

import math

import pytest
import torch

from mhc_ops import aclnn
from mhc_ops.aclnn import GRAPH_FAILED, GRAPH_SUCCESS, infer_shape
from mhc_ops.ops.sinkhorn.iterates import sinkhorn_iterates

from .calls import (
    BF16,
    FP16,
    FP32,
    T,
    pre,
    pre_sinkhorn,
    prepare,
    run,
    same,
    spread,
    status,
    tensors,
    tile,
)
from .calls import sinkhorn as sinkhorn_values

NULL, INVALID, RUNTIME, OK = 161001, 161002, 361001, 0
SOCS = ("ascend950", "ascend910b", "ascend910_93")
A2 = SOCS[1:]
API = "aclnnMhcPreSinkhorn"
RESULTS = ("hin", "h_post", "h_res")
SAVED = ("h_pre", "hc_before_norm", "inv_rms", "sum_out", "norm_out")


@pytest.mark.parametrize(
    "values",
    [
        pre_sinkhorn(),
        pre_sinkhorn(d=7, x=FP16),
        pre_sinkhorn(saved=False),
        pre_sinkhorn(d=200000, lead=(1, 1)),
        pre_sinkhorn() | {"need_backward": False, "h_pre": T(BF16, (5,))},
        pre_sinkhorn() | {"hin": T(FP16, (2, 4, 128))},
    ],
)
@pytest.mark.parametrize("soc", SOCS)
def test_good_calls(values, soc):
    with aclnn.soc(soc):
        code, size, executor = prepare(API, values)
    assert code == OK, aclnn.aclGetRecentErrMsg()
    assert size >= 16 * 2**20
    assert executor.soc == soc


def test_packed_tokens_are_for_950_alone():
    values = pre_sinkhorn(lead=(9,))
    assert status(API, values) == OK
    for soc in A2:
        with aclnn.soc(soc):
            assert status(API, values) == INVALID
            assert "x must have 4 dimensions" in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize("name", ["x", "phi", "alpha", "bias", *RESULTS, *SAVED])
def test_required_tensors(name):
    assert prepare(API, pre_sinkhorn(lead=(0, 4)) | {name: None}) == (NULL, 0, None)
    without = pre_sinkhorn() | {"need_backward": False, name: None}
    assert status(API, without) == (OK if name in SAVED else NULL)


def test_null_handles():
    for handle in ("workspaceSize", "executor"):
        assert status(API, pre_sinkhorn(), **{handle: None}) == NULL


BAD = {
    "x FP32": (pre_sinkhorn(x=FP32), "x must be BFLOAT16"),
    "hin FP32": (pre_sinkhorn() | {"hin": T(FP32, (2, 4, 128))}, "hin must be BFLOAT16"),
    "phi BF16": (pre_sinkhorn() | {"phi": T(BF16, (24, 512))}, "phi must be FLOAT"),
    "norm_out BF16": (
        pre_sinkhorn() | {"norm_out": T(BF16, (40, 2, 4, 4, 4))},
        "normOut must be FLOAT",
    ),
    "rank 2": (pre_sinkhorn(lead=()), "x must have"),
    "h_res unflattened": (
        pre_sinkhorn() | {"h_res": T(FP32, (2, 4, 4, 4))},
        "hRes must have 3 dimensions",
    ),
    "inv_rms as in MhcPre": (
        pre_sinkhorn() | {"inv_rms": T(FP32, (2, 4))},
        "invRms must have 3 dimensions",
    ),
    "sum_out rank": (pre_sinkhorn() | {"sum_out": T(FP32, (40, 8, 4))}, "sumOut must have 4"),
    "norm_out rank": (pre_sinkhorn() | {"norm_out": T(FP32, (40, 8, 4, 4))}, "normOut must have 5"),
    "hcMult": (pre_sinkhorn() | {"hc_mult": 6}, "hcMult must be 4 here, got 6"),
    "n 6": (pre_sinkhorn(n=6) | {"hc_mult": 4}, "x must satisfy n == 4"),
    "numIters": (pre_sinkhorn(num_iters=19), "numIters must be 20 here, got 19"),
    "hin": (pre_sinkhorn() | {"hin": T(BF16, (2, 4, 64))}, "hin must be"),
    "phi": (pre_sinkhorn() | {"phi": T(FP32, (24, 511))}, "phi must be"),
    "phi rows": (pre_sinkhorn() | {"phi": T(FP32, (32, 512))}, "phi must be"),
    "alpha": (pre_sinkhorn() | {"alpha": T(FP32, (2,))}, "alpha must be"),
    "bias": (pre_sinkhorn() | {"bias": T(FP32, (23,))}, "bias must be"),
    "h_post": (pre_sinkhorn() | {"h_post": T(FP32, (2, 4, 5))}, "hPost must be"),
    "h_res": (pre_sinkhorn() | {"h_res": T(FP32, (2, 4, 15))}, "hRes must be"),
    "h_pre": (pre_sinkhorn() | {"h_pre": T(FP32, (4, 2, 4))}, "hPre must be"),
    "hc_before_norm": (
        pre_sinkhorn() | {"hc_before_norm": T(FP32, (2, 4, 25))},
        "hcBeforeNorm must be",
    ),
    "inv_rms": (pre_sinkhorn() | {"inv_rms": T(FP32, (2, 4, 4))}, "invRms must be"),
    "sum_out": (pre_sinkhorn() | {"sum_out": T(FP32, (20, 2, 4, 4))}, "sumOut must be"),
    "norm_out": (pre_sinkhorn() | {"norm_out": T(FP32, (39, 2, 4, 4, 4))}, "normOut must be"),
}


@pytest.mark.parametrize(("values", "told"), BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("soc", SOCS)
def test_invalid_calls(values, told, soc):
    with aclnn.soc(soc):
        assert prepare(API, values) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith(f"{API}: {told}")


@pytest.mark.parametrize("name", ["x", "phi", "alpha", "bias", *RESULTS, *SAVED])
def test_private_formats(name):
    values = pre_sinkhorn()
    values[name] = values[name]._replace(format=aclnn.ACL_FORMAT_FRACTAL_NZ)
    assert status(API, values) == INVALID
    assert "private format" in aclnn.aclGetRecentErrMsg()
    unasked = values | {"need_backward": False}
    assert status(API, unasked) == (OK if name in SAVED else INVALID)


def test_dtypes_come_before_shapes_and_the_empty_way_out_is_last():
    status(API, pre_sinkhorn(x=FP32, lead=()))
    assert "must be BFLOAT16" in aclnn.aclGetRecentErrMsg()
    t = tensors(pre_sinkhorn(lead=(0, 4)))
    code, size, executor = prepare(API, t)
    assert (code, size) == (OK, 0)
    assert aclnn.aclnnMhcPreSinkhorn(None, 0, executor, None) == OK
    assert status(API, pre_sinkhorn(lead=(0, 4)) | {"hc_mult": 5}) == INVALID


def test_attributes_of_the_wrong_type():
    for name, value in (("need_backward", 2), ("num_iters", True), ("num_iters", 20.0)):
        with pytest.raises(TypeError, match="must be of type"):
            prepare(API, pre_sinkhorn() | {name: value})


def by_hand(hc_eps):
    """x of 2, so that inv_rms is 1/2; phi such that every normalised logit is 1; alpha ln 3."""
    t = tensors(pre_sinkhorn(d=8, lead=(1, 1))) | {"hc_eps": hc_eps, "norm_eps": 0.0}
    t["x"].fill_(2.0)
    t["phi"].fill_(1 / 32)
    t["alpha"].fill_(math.log(3))
    t["bias"].zero_()
    return t


@pytest.mark.parametrize("hc_eps", [0.0, 0.25])
def test_by_hand(hc_eps):
    t = by_hand(hc_eps)
    assert run(API, t) == OK
    assert t["hc_before_norm"].flatten().tolist() == [2.0] * 24  # 32 products of 2 / 32
    assert t["inv_rms"].item() == 0.5
    assert t["h_pre"].flatten().tolist() == pytest.approx([0.75 + hc_eps] * 4, rel=1e-6)
    assert t["h_post"].flatten().tolist() == pytest.approx([1.5] * 4, rel=1e-6)
    assert t["hin"].flatten().tolist() == [4 * 2 * (0.75 + hc_eps)] * 8
    entry, total = 0.25 + hc_eps, 4 + hc_eps  # equal logits: 4 exponentials of 1
    for step in range(40):
        if step:
            total = 4 * entry + hc_eps
            entry /= total
        assert t["norm_out"][step].flatten().tolist() == pytest.approx([entry] * 16, rel=1e-5)
        assert t["sum_out"][step].flatten().tolist() == pytest.approx([total] * 4, rel=1e-5)
    assert t["h_res"].flatten().tolist() == pytest.approx([entry] * 16, rel=1e-5)


@pytest.mark.parametrize("lead", [(2, 4), (9,)])
@pytest.mark.parametrize("x", [BF16, FP16])
def test_it_is_mhc_pre_then_mhc_sinkhorn(lead, x):
    fused = tensors(pre_sinkhorn(d=48, lead=lead, x=x)) | {"hc_eps": 1e-3, "norm_eps": 1e-2}
    assert run(API, fused) == OK
    parts = tensors(pre(d=48, lead=lead, x=x)) | {"gamma": None, "hc_eps": 1e-3, "norm_eps": 1e-2}
    parts |= {name: fused[name] for name in ("x", "phi", "alpha", "bias")}
    assert run("aclnnMhcPre", parts) == OK
    after = tensors(sinkhorn_values(lead=lead, num_iters=20)) | {"eps": 1e-3}
    after["h_res"] = parts["h_res"]
    assert run("aclnnMhcSinkhorn", after) == OK
    assert same(fused["hin"], parts["hin"])
    assert same(fused["h_post"], parts["h_post"])
    assert same(fused["h_pre"], parts["h_pre"])
    assert same(fused["hc_before_norm"], parts["h_mix"])
    assert same(fused["inv_rms"], parts["inv_rms"].unsqueeze(-1))
    assert same(fused["h_res"], after["y"].flatten(-2))
    norm, sums = sinkhorn_iterates(parts["h_res"], eps=1e-3)
    assert same(fused["norm_out"][0], norm[0] + 1e-3)
    assert same(fused["norm_out"][1:-1], norm[1:-1])
    assert same(fused["norm_out"][-1], after["y"])
    assert same(fused["sum_out"][0], sums[0] + 1e-3)
    assert same(fused["sum_out"][1:], sums[1:])


def test_without_need_backward_the_saved_tensors_stay_and_the_bits_are_the_same():
    t = tensors(pre_sinkhorn())
    assert run(API, t) == OK
    u = tensors(pre_sinkhorn()) | {"need_backward": False}
    assert run(API, u) == OK
    assert all(same(u[name], t[name]) for name in RESULTS)
    assert all(u[name].isnan().all() for name in SAVED)
    assert run(API, tensors(pre_sinkhorn(saved=False))) == OK


def test_hin_of_the_other_16_bit_type_is_rounded_once():
    t = tensors(pre_sinkhorn(x=FP16))
    t["hin"] = torch.full((2, 4, 128), torch.nan, dtype=torch.bfloat16)
    assert run(API, t) == OK
    exact = (t["h_pre"].double().unsqueeze(-1) * t["x"].double()).sum(-2)
    spacing = 2.0**-8 * exact.abs() + 2.0**-24 * 8
    assert ((t["hin"].double() - exact).abs() <= spacing).all()
    assert (t["hin"] == exact.to(torch.bfloat16)).double().mean() > 0.99


def test_strided_tensors():
    dense = tensors(pre_sinkhorn(d=24))
    assert run(API, dense) == OK
    strided, memories = {}, {}
    for name, value in tensors(pre_sinkhorn(d=24)).items():
        strided[name] = value
        if isinstance(value, torch.Tensor):
            strided[name], memories[name] = spread(value)
    assert run(API, strided) == OK
    for name in (*RESULTS, *SAVED):
        assert same(strided[name], dense[name]), name
        assert (memories[name][..., [0, 2]] == -7.0).all()


def test_nan_stays_in_its_token():
    t = tensors(pre_sinkhorn(lead=(1, 5)))
    t["x"][0, 2, 1, 3] = torch.nan
    assert run(API, t) == OK
    others = [0, 1, 3, 4]
    for name in (*RESULTS, *SAVED):
        by_token = t[name].movedim(2 if name in ("sum_out", "norm_out") else 1, 0)
        assert by_token[others].isfinite().all(), name
        assert by_token[2].isnan().any(), name


PROTO = {"x": [2, 8, 4, 128], "phi": [24, 512], "alpha": [3], "bias": [24]}


@pytest.mark.parametrize(
    ("change", "attrs", "expected"),
    [
        (
            {},
            {},
            {
                "hin": [2, 8, 128],
                "h_post": [2, 8, 4],
                "h_res": [2, 8, 16],
                "h_pre": [2, 8, 4],
                "hc_before_norm": [2, 8, 24],
                "inv_rms": [2, 8, 1],
                "sum_out": [40, 2, 8, 4],
                "norm_out": [40, 2, 8, 4, 4],
            },
        ),
        (
            {"x": [9, 4, 64]},
            {"need_backward": False},
            {"hin": [9, 64], "h_res": [9, 16], **{name: [0] for name in SAVED}},
        ),
        ({"x": [-1, 4, 64]}, {"num_iters": 3}, {"hin": [-1, 64], "norm_out": [6, -1, 4, 4]}),
        ({"x": [-2]}, {}, {"hin": [-2], "norm_out": [-2], "h_res": [-2]}),
        ({"x": [4, 64]}, {}, None),
        ({"x": [1, 2, 3, 4, 5]}, {}, None),
        ({"x": None}, {}, None),
    ],
)
def test_infershape(change, attrs, expected):
    result = infer_shape("MhcPreSinkhorn", PROTO | change, attrs)
    assert result.status == (GRAPH_FAILED if expected is None else GRAPH_SUCCESS), result.message
    assert {name: list(result.shapes[name]) for name in expected or ()} == (expected or {})


def test_dtypes_that_are_inferred():
    x = {"dtype": "FLOAT16", "shape": [2, 8, 4, 128]}
    result = infer_shape("MhcPreSinkhorn", PROTO | {"x": x})
    assert (result.dtypes["hin"], result.dtypes["h_res"]) == ("FLOAT16", "FLOAT")


@pytest.mark.parametrize(
    ("values", "on_950", "on_a2"),
    [
        (pre_sinkhorn(d=4096), True, True),
        (pre_sinkhorn(d=7168, lead=(3,)), True, True),
        (pre_sinkhorn(d=128), False, True),
        (pre_sinkhorn(d=64), False, False),
        (pre_sinkhorn(d=99968, lead=(1, 1)), False, True),
        (pre_sinkhorn(d=100096, lead=(1, 1)), False, False),
        (pre_sinkhorn(d=4096, n=6), False, False),
        (pre_sinkhorn(d=4096, n=6) | {"hc_mult": 4}, False, False),
        (pre_sinkhorn(d=4096) | {"hc_mult": 6}, True, False),
        (pre_sinkhorn(d=4096, num_iters=19), False, False),
        (pre_sinkhorn(d=4096) | {"h_res": T(FP32, (2, 4, 4, 4))}, True, True),
        (pre_sinkhorn(d=4096) | {"phi": T(FP32, (24, 16383))}, False, False),
        (pre_sinkhorn(d=4096) | {"bias": T(FP32, (23,))}, False, False),
        (pre_sinkhorn(d=4096) | {"alpha": T(FP32, (2,))}, False, False),
        (pre_sinkhorn(d=4096) | {"hin": None}, False, False),
    ],
)
def test_tiling(values, on_950, on_a2):
    for soc, good in (("ascend950", on_950), *((name, on_a2) for name in A2)):
        result = tile("MhcPreSinkhorn", values, soc)
        assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED), (soc, result.message)


@pytest.mark.parametrize(
    ("tokens", "saved", "key", "aic", "workspace"),
    [
        (256, False, 1000, 64, 18415616),  # the published row about ub_size
        (256, True, 2000, 32, 16 * 2**20 + 4 * 256 * 25 * 32),
        (5376, False, 1001, 32, 16 * 2**20),
        (16384, True, 2001, 64, 16 * 2**20),
    ],
)
def test_tiling_key_and_workspace_on_950(tokens, saved, key, aic, workspace):
    result = tile(
        "MhcPreSinkhorn",
        pre_sinkhorn(d=4096, lead=(tokens,), saved=saved),
        platform={"aic_cores": aic},
    )
    assert result.status == GRAPH_SUCCESS, result.message
    assert (result.tiling_key, result.workspace) == (key, workspace)
    assert result.workspace_rule == "exact"
