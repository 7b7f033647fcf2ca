"""infer_shape and tiling."""

import pytest
import torch

from mhc_ops import aclnn
from mhc_ops.aclnn import GRAPH_FAILED, GRAPH_SUCCESS, infer_shape, tiling

from .calls import FP32, T, backward, pre, tile

PRE = {"x": [2, 8, 4, 128], "phi": [24, 512], "alpha": [3], "bias": [24]}
BACKWARD = {
    "phi": [24, 512],
    "grad_h_in": [2, 8, 128],
    "grad_h_post": [2, 8, 4],
    "grad_h_res": [2, 8, 4, 4],
}


def shapes(op, inputs):
    result = infer_shape(op, inputs)
    assert result.status == GRAPH_SUCCESS, result.message
    return {name: list(shape) for name, shape in result.shapes.items()}


def test_shapes_of_mhc_pre():
    assert shapes("MhcPre", PRE) == {
        "hin": [2, 8, 128],
        "h_post": [2, 8, 4],
        "h_res": [2, 8, 4, 4],
        "inv_rms": [2, 8],
        "h_mix": [2, 8, 24],
        "h_pre": [2, 8, 4],
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"alpha": [2], "phi": [8, 512]}, {"h_res": [0], "h_mix": [2, 8, 8]}),
        ({"phi": [32, 512]}, {"h_res": [2, 8, 24], "h_mix": [2, 8, 32]}),
        ({"phi": [7, 512]}, {"h_res": [2, 8, 4, 4], "h_mix": [2, 8, 7]}),
        ({"x": [-1, 4, 128]}, {"hin": [-1, 128], "h_res": [-1, 4, 4], "inv_rms": [-1]}),
        ({"x": [-1, -1, -1, -1]}, {"hin": [-1, -1, -1], "h_mix": [-1, -1, 24]}),
        ({"x": [-2]}, {"hin": [-2], "h_post": [-2], "h_res": [-2], "inv_rms": [-2]}),
        ({"x": [-2], "alpha": [2]}, {"h_res": [0]}),
        ({"phi": [-2]}, {"h_mix": [2, 8, -1], "hin": [2, 8, 128]}),
        ({"phi": [-1, -1], "alpha": [-1]}, {"h_mix": [2, 8, -1], "h_res": [2, 8, 4, 4]}),
        ({"alpha": [-2]}, {"h_res": [2, 8, 4, 4]}),
        ({"x": [0, 8, 4, 128]}, {"hin": [0, 8, 128]}),
    ],
)
def test_shapes_of_mhc_pre_follow_what_is_known(change, expected):
    got = shapes("MhcPre", PRE | change)
    assert {name: got[name] for name in expected} == expected


@pytest.mark.parametrize(
    "change",
    [
        {"x": [4, 128]},
        {"x": [1, 2, 3, 4, 5]},
        {"phi": [512]},
        {"phi": [1, 24, 512]},
        {"alpha": [4]},
        {"alpha": [1]},
        {"alpha": [3, 1]},
        {"alpha": []},
        {"x": None},
        {"phi": None},
        {"alpha": None},
    ],
)
def test_shapes_of_mhc_pre_that_cannot_be_inferred(change):
    result = infer_shape("MhcPre", PRE | change)
    assert result.status == GRAPH_FAILED == 0xFFFFFFFF
    assert result.shapes == {}
    assert result.message.startswith("MhcPre: ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {},
            {
                "grad_x": [2, 8, 4, 128],
                "grad_phi": [24, 512],
                "grad_alpha": [3],
                "grad_bias": [24],
                "grad_gamma": [4, 128],
            },
        ),
        ({"phi": [32, 512], "grad_h_res": [2, 8, 24]}, {"grad_phi": [32, 512], "grad_bias": [32]}),
        ({"grad_h_in": [-1, -1, 128]}, {"grad_x": [-1, -1, 4, 128], "grad_phi": [24, 512]}),
        ({"grad_h_in": [2, 8, -1]}, {"grad_x": [2, 8, 4, -1], "grad_phi": [24, -1]}),
        ({"grad_h_post": [2, 8, -1]}, {"grad_gamma": [-1, 128], "grad_phi": [24, -1]}),
        ({"grad_h_in": [-2]}, {"grad_x": [-2], "grad_gamma": [4, -1]}),
        ({"phi": [-2]}, {"grad_phi": [-1, 512], "grad_bias": [-1]}),
        ({"grad_h_res": [-2]}, {"grad_x": [2, 8, 4, 128]}),
        (
            {"grad_h_in": [9, 128], "grad_h_post": [9, 4], "grad_h_res": [9, 24]},
            {"grad_x": [9, 4, 128]},
        ),
    ],
)
def test_shapes_of_mhc_pre_backward(change, expected):
    got = shapes("MhcPreBackward", BACKWARD | change)
    assert {name: got[name] for name in expected} == expected


@pytest.mark.parametrize(
    "change",
    [
        {"grad_h_post": [8, 4]},
        {"grad_h_in": [128]},
        {"grad_h_in": [1, 2, 8, 128], "grad_h_post": [1, 2, 8, 4]},
        {"grad_h_res": [8, 4]},
        {"grad_h_res": [1, 2, 8, 4, 4]},
        {"grad_h_res": None},
        {"grad_h_in": None},
    ],
)
def test_shapes_of_mhc_pre_backward_that_cannot_be_inferred(change):
    assert infer_shape("MhcPreBackward", BACKWARD | change).status == GRAPH_FAILED


def test_dtypes_and_every_way_to_describe_a_tensor():
    x = torch.zeros(8, 4, 128, dtype=torch.bfloat16)
    described = {"dtype": "FLOAT", "shape": [24, 512]}
    by_number = {"dtype": aclnn.ACL_FLOAT, "shape": [3]}
    result = infer_shape("MhcPre", {"x": x, "phi": described, "alpha": by_number})
    assert result.shapes["hin"] == (8, 128)
    assert result.dtypes["hin"] == "BFLOAT16"
    assert result.dtypes["h_mix"] == "FLOAT"
    handle = aclnn.from_torch(torch.zeros(8, 128, dtype=torch.float16))
    mixed = {"gradHIn": handle, "gradHPost": [8, 4], "gradHRes": [8, 4, 4], "phi": [24, 512]}
    result = infer_shape("MhcPreBackward", mixed)
    assert result.dtypes["grad_x"] == "FLOAT16"


def test_names_that_an_operator_does_not_have():
    with pytest.raises(ValueError, match=r"op must be one of MhcPre, .*, got 'Mhc'"):
        infer_shape("Mhc", {})
    with pytest.raises(ValueError, match="'y' is no input; inputs are x, phi, alpha, bias, gamma"):
        infer_shape("MhcPre", {"y": [1]})
    with pytest.raises(ValueError, match="'eps' is no attribute"):
        infer_shape("MhcPre", PRE, {"eps": 1})
    with pytest.raises(ValueError, match="hc_eps must be a number, got '1'"):
        infer_shape("MhcPre", PRE, {"hc_eps": "1"})
    with pytest.raises(ValueError, match=r"num_iters must be an integer, got 2\.5"):
        infer_shape("MhcSinkhorn", {"x": [2, 4, 4]}, {"num_iters": 2.5})
    with pytest.raises(ValueError, match="need_backward must be true or false, got 2"):
        infer_shape("MhcPreSinkhorn", PRE, {"need_backward": 2})
    with pytest.raises(ValueError, match="soc must be one of"):
        tiling("MhcPre", PRE, {}, soc="ascend310p")
    with pytest.raises(ValueError, match="platform may set aic_cores"):
        tiling("MhcPre", PRE, {}, platform={"cores": 3})
    with pytest.raises(ValueError, match="aic_cores must be an integer of at least 1, got 0"):
        tiling("MhcPre", PRE, {}, platform={"aic_cores": 0})


@pytest.mark.parametrize(
    ("values", "platform", "key"),
    [
        (pre(lead=(8192,)), None, 2),
        (pre(lead=(8193,)), None, 0),
        (pre(lead=(10240,)), {"aic_cores": 40}, 2),
        (pre(lead=(10241,)), {"aic_cores": 64}, 0),
        (pre(lead=(257,)), {"aic_cores": 1}, 0),
        (pre(lead=(16, 16)), {"aic_cores": 1}, 2),
        (pre(n=4, d=112, lead=(64,)), None, 0),
        (pre(n=8, d=64, lead=(64,)), None, 2),
        (pre(alpha=2, lead=(64,)), None, 6),
        (pre(alpha=2, lead=(8193,)), None, 4),
    ],
)
def test_tiling_key_of_mhc_pre(values, platform, key):
    result = tile("MhcPre", values, platform=platform)
    assert result.status == GRAPH_SUCCESS, result.message
    assert result.tiling_key == key
    lead, f = values["inv_rms"].shape, values["phi"].shape[0]
    tokens = torch.Size(lead).numel()
    assert result.workspace > 20 * 2**20 + 4 * tokens * f
    assert result.workspace_rule == "bound"
    assert set(result.data) == (set() if key in (0, 4) else {"m_dim", "k_dim"})


@pytest.mark.parametrize(("tokens", "m_dim"), [(2561, 15), (16, 1), (17, 2), (256, 16), (257, 9)])
def test_split_of_mhc_pre(tokens, m_dim):
    assert tile("MhcPre", pre(lead=(tokens,))).data == {"m_dim": m_dim, "k_dim": 2}


BAD_TILING_950 = {
    "D 8": pre(d=8),
    "D 24": pre(d=24),
    "D above 16384": pre(d=16400),
    "n 5": pre(n=5),
    "alpha 4": pre() | {"alpha": T(FP32, (4,))},
    "rows of the permutation form": pre(rows=32),
    "rows without residual": pre(rows=8),
    "bias": pre() | {"bias": T(FP32, (23,))},
    "no tokens": pre(lead=(0,)),
    "no hin": pre() | {"hin": None},
    "no bias": pre() | {"bias": None},
    "x FP32": pre(x=FP32),
    "h_mix": pre() | {"h_mix": T(FP32, (2, 4, 32))},
    "out_flag": pre() | {"out_flag": 2},
    "mode": pre() | {"op_impl_mode": 2},
}


@pytest.mark.parametrize("values", BAD_TILING_950.values(), ids=list(BAD_TILING_950))
def test_tiling_of_mhc_pre_refuses_on_950(values):
    result = tile("MhcPre", values)
    assert (result.status, result.tiling_key, result.workspace) == (GRAPH_FAILED, None, 0)
    assert result.message.startswith("MhcPre: ")


@pytest.mark.parametrize("d", [16, 16384])
def test_limits_of_d_in_tiling_of_mhc_pre(d):
    assert tile("MhcPre", pre(d=d)).status == GRAPH_SUCCESS
    flat = pre(d=d) | {"gamma": T(FP32, (4 * d,)), "op_impl_mode": 1, "out_flag": 1}
    assert tile("MhcPre", flat).status == GRAPH_SUCCESS


@pytest.mark.parametrize(
    ("values", "good"),
    [
        (pre(), True),
        (pre(rows=32), True),
        (pre(alpha=2), True),
        (pre(d=99968), True),
        (pre(d=100096), False),
        (pre(d=64), False),
        (pre(n=6), False),
        (pre(rows=23), False),
        (pre() | {"op_impl_mode": 1}, False),
        (pre() | {"gamma": T(FP32, (3, 128))}, False),
    ],
)
@pytest.mark.parametrize("soc", ["ascend910b", "ascend910_93"])
def test_tiling_of_mhc_pre_on_a2_and_a3(values, good, soc):
    result = tile("MhcPre", values, soc)
    assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED)
    with aclnn.soc(soc):
        assert tile("MhcPre", values) == result


@pytest.mark.parametrize(
    ("n", "d", "tokens", "aic", "aiv"), [(4, 512, 1024, 32, 64), (8, 64, 7, 24, 48)]
)
def test_workspace_of_mhc_pre_backward(n, d, tokens, aic, aiv):
    f = n * n + 2 * n
    result = tile(
        "MhcPreBackward",
        backward(n, d, (tokens,)),
        platform={"aic_cores": aic, "aiv_cores": aiv},
    )
    elements = tokens * f + 24 * aiv + aiv * f + tokens
    elements += -elements % 32 + 2 * 512 * 128 * aic * 2 + 2 * 2**20
    assert result.workspace == 40 * 2**20 + 4 * elements
    assert result.workspace_rule == "exact"
    assert result.tiling_key is None


@pytest.mark.parametrize(
    ("values", "on_950", "on_a2"),
    [
        (backward(), True, True),
        (backward(d=64), True, False),
        (backward(d=192), True, False),
        (backward(d=96), False, False),
        (backward(n=6), True, False),
        (backward(n=8), True, False),
        (backward(n=5), False, False),
        (backward(d=16384), True, True),
        (backward(d=16448), False, False),
        (backward(d=99968), False, True),
        (backward(d=100096), False, False),
        (backward(rows=32), False, True),
        (backward(rows=32, h_res=(24,)), False, True),
        (backward(h_res=(24,)), False, True),
        (backward() | {"op_impl_mode": 1}, True, True),
        (backward() | {"op_impl_mode": 2}, False, True),
        (backward() | {"gamma": T(FP32, (512,)), "grad_gamma": T(FP32, (512,))}, True, True),
        (backward() | {"h_mix": T(FP32, (2, 4, 25))}, False, False),
        (backward() | {"grad_bias": T(FP32, (25,))}, False, False),
        (backward() | {"h_post": T(FP32, (2, 4, 5))}, False, True),
        (backward() | {"h_post": None}, False, False),
    ],
)
def test_tiling_of_mhc_pre_backward(values, on_950, on_a2):
    for soc, good in (("ascend950", on_950), ("ascend910b", on_a2), ("ascend910_93", on_a2)):
        result = tile("MhcPreBackward", values, soc)
        assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED), (soc, result.message)
