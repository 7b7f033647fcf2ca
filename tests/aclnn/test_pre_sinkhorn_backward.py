"""MhcPreSinkhornBackward: first phase, tiling, hand values, the chain, the true gradient."""

import math

import pytest
import torch

from mhc_ops import aclnn, mhc_pre, sinkhorn
from mhc_ops.aclnn import GRAPH_FAILED, GRAPH_SUCCESS, infer_shape
from mhc_ops.testing import assert_within_budget

from .calls import (
    BF16,
    FP16,
    FP32,
    T,
    backward,
    pre_sinkhorn,
    pre_sinkhorn_backward,
    prepare,
    run,
    same,
    spread,
    status,
    tensors,
    tile,
)
from .calls import sinkhorn as sinkhorn_values
from .calls import sinkhorn_backward as sinkhorn_backward_values

NULL, INVALID, RUNTIME, OK = 161001, 161002, 361001, 0
SOCS = ("ascend950", "ascend910b", "ascend910_93")
A2 = SOCS[1:]
API = "aclnnMhcPreSinkhornBackward"
SAVED = ("h_pre", "hc_before_norm", "inv_rms", "sum_out", "norm_out")
PARAMETERS = ("phi", "alpha", "bias")
INPUTS = ("grad_hin", "grad_h_post", "grad_h_res", "x", *PARAMETERS, *SAVED)
OUTPUTS = ("grad_x", "grad_phi", "grad_alpha", "grad_bias")


@pytest.mark.parametrize(
    "values",
    [
        pre_sinkhorn_backward(),
        pre_sinkhorn_backward(flat=True, x=FP16),
        pre_sinkhorn_backward(d=99968, lead=(1, 1)),
        pre_sinkhorn_backward(num_iters=3),
        pre_sinkhorn_backward() | {"norm_out": T(FP32, (7, 2, 4, 4, 4))},
        pre_sinkhorn_backward() | {"x": T(FP16, (2, 4, 4, 128))},
    ],
)
@pytest.mark.parametrize("soc", SOCS)
def test_good_calls(values, soc):
    with aclnn.soc(soc):
        code, size, executor = prepare(API, values)
    assert code == OK, aclnn.aclGetRecentErrMsg()
    tokens, width = math.prod(values["x"].shape[:2]), math.prod(values["x"].shape[2:])
    assert size >= 4 * tokens * (24 + width)
    assert executor is not None


@pytest.mark.parametrize(
    ("values", "on_950", "on_a2"),
    [
        (pre_sinkhorn_backward(lead=(9,)), OK, INVALID),
        (pre_sinkhorn_backward(n=1), OK, INVALID),
        (pre_sinkhorn_backward(n=8), OK, INVALID),
        (pre_sinkhorn_backward(n=9), INVALID, INVALID),
        (pre_sinkhorn_backward(d=64), INVALID, INVALID),
        (pre_sinkhorn_backward(d=100096, lead=(1, 1)), INVALID, INVALID),
    ],
)
def test_limits_by_chip(values, on_950, on_a2):
    for soc, code in (("ascend950", on_950), *((name, on_a2) for name in A2)):
        with aclnn.soc(soc):
            assert status(API, values) == code


@pytest.mark.parametrize("name", [*INPUTS, *OUTPUTS])
def test_required_tensors_come_before_the_empty_way_out(name):
    empty = pre_sinkhorn_backward(lead=(0, 4))
    assert prepare(API, empty | {name: None}) == (NULL, 0, None)
    assert status(API, empty, executor=None) == NULL


@pytest.mark.parametrize("name", INPUTS)
def test_an_empty_input_is_a_success_before_all_ranks_but_for_parameters(name):
    values = pre_sinkhorn_backward() | {name: T(BF16, (0,)), "grad_phi": T(BF16, ())}
    assert status(API, values) == (INVALID if name in PARAMETERS else OK)


def test_nothing_is_written_for_an_empty_call():
    t = tensors(pre_sinkhorn_backward(lead=(2, 0)))
    code, size, executor = prepare(API, t)
    assert (code, size) == (OK, 0)
    assert aclnn.aclnnMhcPreSinkhornBackward(None, 0, executor, None) == OK
    assert t["grad_phi"].isnan().all()


BAD = {
    "rank 2": ({"x": T(BF16, (8, 512))}, "x must have"),
    "grad_hin rank": ({"grad_hin": T(BF16, (8, 128))}, "gradHin must have 3"),
    "grad_h_res rank": ({"grad_h_res": T(FP32, (8, 4))}, "gradHRes must have 3 or 4"),
    "inv_rms rank": ({"inv_rms": T(FP32, (2, 4))}, "invRms must have 3"),
    "norm_out rank": ({"norm_out": T(FP32, (40, 2, 4, 16))}, "normOut must have 5"),
    "grad_hin": ({"grad_hin": T(BF16, (2, 4, 64))}, "gradHin must be"),
    "grad_h_post": ({"grad_h_post": T(FP32, (2, 4, 5))}, "gradHPost must be"),
    "grad_h_res": ({"grad_h_res": T(FP32, (2, 4, 4, 5))}, "gradHRes must be"),
    "grad_h_res flat": ({"grad_h_res": T(FP32, (2, 4, 15))}, "gradHRes must be"),
    "phi columns": ({"phi": T(FP32, (24, 511))}, "phi must be"),
    "alpha": ({"alpha": T(FP32, (2,))}, "alpha must be"),
    "bias": ({"bias": T(FP32, (25,))}, "bias must be"),
    "rows of phi alone": ({"phi": T(FP32, (32, 512))}, "bias must be [f] = [32], got [24]"),
    "h_pre": ({"h_pre": T(FP32, (4, 2, 4))}, "hPre must be"),
    "hc_before_norm": ({"hc_before_norm": T(FP32, (2, 4, 25))}, "hcBeforeNorm must be"),
    "inv_rms": ({"inv_rms": T(FP32, (2, 4, 4))}, "invRms must be"),
    "sum_out": ({"sum_out": T(FP32, (40, 4, 2, 4))}, "sumOut must be"),
    "norm_out": ({"norm_out": T(FP32, (40, 2, 4, 4, 5))}, "normOut must be"),
    "grad_x": ({"grad_x": T(BF16, (2, 4, 4, 64))}, "gradX must be"),
    "grad_phi": ({"grad_phi": T(FP32, (25, 512))}, "gradPhi must be"),
    "grad_alpha": ({"grad_alpha": T(FP32, (4,))}, "gradAlpha must be"),
    "grad_bias": ({"grad_bias": T(FP32, (25,))}, "gradBias must be"),
    "grad_x not as grad_hin": (
        {"grad_x": T(FP16, (2, 4, 4, 128))},
        "gradX must have the dtype of gradHin",
    ),
    "h_pre BF16": ({"h_pre": T(BF16, (2, 4, 4))}, "hPre must be FLOAT"),
    "x FP32": ({"x": T(FP32, (2, 4, 4, 128))}, "x must be BFLOAT16"),
}


@pytest.mark.parametrize(("change", "told"), BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("soc", SOCS)
def test_invalid_calls(change, told, soc):
    with aclnn.soc(soc):
        assert prepare(API, pre_sinkhorn_backward() | change) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith(f"{API}: {told}")


@pytest.mark.parametrize("name", [*INPUTS, *OUTPUTS])
def test_private_formats(name):
    values = pre_sinkhorn_backward(d=64)
    values[name] = values[name]._replace(format=aclnn.ACL_FORMAT_FRACTAL_NZ)
    assert status(API, values) == INVALID
    assert "private format" in aclnn.aclGetRecentErrMsg()  # before the limit of D


def test_leading_dimensions_of_grad_hin_count_in_both_layouts():
    packed = pre_sinkhorn_backward(lead=(9,)) | {"grad_hin": T(BF16, (8, 128))}
    batched = pre_sinkhorn_backward() | {"grad_hin": T(BF16, (4, 2, 128))}
    for values in (packed, batched):
        assert status(API, values) == INVALID
        assert "gradHin must be" in aclnn.aclGetRecentErrMsg()


def test_what_the_call_lets_through_and_the_run_refuses():
    rows = pre_sinkhorn_backward() | {
        name: T(FP32, (32, *shape))
        for name, shape in (("phi", (512,)), ("bias", ()), ("grad_phi", (512,)), ("grad_bias", ()))
    }
    rows |= {"hc_before_norm": T(FP32, (2, 4, 32))}
    odd = pre_sinkhorn_backward() | {"sum_out": T(FP32, (39, 2, 4, 4))}
    narrow = pre_sinkhorn_backward(lead=(9,)) | {"grad_hin": T(BF16, (9, 64))}
    for values in (rows, odd, narrow):
        assert status(API, values) == OK, aclnn.aclGetRecentErrMsg()
        assert run(API, tensors(values)) == RUNTIME


def test_by_hand():
    """Every normalised logit is 1, hPost 3/2, the mixing weights 1/4; hcEps 0."""
    t = tensors(pre_sinkhorn(lead=(1, 1))) | {"hc_eps": 0.0, "norm_eps": 0.0}
    t["x"].fill_(2.0)
    t["phi"].fill_(1 / 512)
    t["alpha"].fill_(math.log(3))
    t["bias"].zero_()
    assert run("aclnnMhcPreSinkhorn", t) == OK
    b = tensors(pre_sinkhorn_backward(lead=(1, 1))) | {"eps": 0.0}
    b |= {name: t[name] for name in ("x", *PARAMETERS, *SAVED)}
    b["grad_hin"].zero_()
    b["grad_h_post"][0, 0] = torch.tensor([1.0, 2.0, 0.0, -1.0])
    b["grad_h_res"].zero_()[0, 0, 0, 0] = 1.0
    assert run(API, b) == OK
    # 2 sigmoid has the slope hPost (1 - hPost / 2) = 3/8; a weight of 1/4 doubly centred 9/64
    pre, post = [0.0] * 4, [0.375, 0.75, 0.0, -0.375]
    res = [v / 64 for v in (9, -3, -3, -3, *[-3, 1, 1, 1] * 3)]
    assert b["grad_bias"].tolist() == pytest.approx([*pre, *post, *res], abs=1e-6)
    assert b["grad_alpha"].tolist() == pytest.approx([0.0, 0.75, 0.0], abs=1e-6)
    column = [math.log(3) * v for v in (*pre, *post, *res)]  # times inv_rms 1/2 times x 2
    for k in (0, 255, 511):
        assert b["grad_phi"][:, k].tolist() == pytest.approx(column, abs=1e-6)
    assert b["grad_x"].abs().max() < 1e-6  # the logits do not depend on the scale of x


def forward_and_gradients(lead=(2, 5), x=BF16, hc_eps=1e-3, **options):
    """Arguments of the backward after a forward, on drawn data."""
    t = tensors(pre_sinkhorn(lead=lead, x=x)) | {"hc_eps": hc_eps}
    assert run("aclnnMhcPreSinkhorn", t) == OK
    b = tensors(pre_sinkhorn_backward(lead=lead, x=x, **options), seed=1) | {"eps": hc_eps}
    return b | {name: t[name] for name in ("x", *PARAMETERS, *SAVED)}


def gradients(b, dtype):
    """Autograd through MhcPre and sinkhorn on the reference, all in one dtype."""
    leaves = [b[name].to(dtype).requires_grad_() for name in ("x", *PARAMETERS)]
    h_in, h_post, logits, _ = mhc_pre(*leaves, hc_eps=b["eps"], impl="reference")
    h_res = sinkhorn(logits, eps=b["eps"], impl="reference")
    upstream = [b[name].to(dtype) for name in ("grad_hin", "grad_h_post", "grad_h_res")]
    upstream[2] = upstream[2].reshape(h_res.shape)
    return torch.autograd.grad([h_in, h_post, h_res], leaves, upstream)


@pytest.mark.parametrize("lead", [(2, 5), (9,)])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("x", [BF16, FP16])
def test_it_is_the_gradient_of_the_forward(lead, flat, x):
    b = forward_and_gradients(lead, x, flat=flat)
    assert run(API, b) == OK
    eager, truth = gradients(b, torch.float32), gradients(b, torch.float64)
    # Longest sums: N*D products for the logits, then two sums of N in each of the 20 iterations,
    # forward and backward.
    for name, e, t in zip(OUTPUTS, eager, truth, strict=True):
        assert_within_budget(name, b[name], e, t, terms=512 + 2 * 20 * 2 * 4)


def test_it_is_the_chain_of_the_two_backward_operators():
    b = forward_and_gradients()
    assert run(API, b) == OK
    n = 4
    w = b["hc_before_norm"] * b["inv_rms"]
    post = w[..., n : 2 * n] * b["alpha"][1] + b["bias"][n : 2 * n]
    logits = w[..., 2 * n :] * b["alpha"][2] + b["bias"][2 * n :]
    s = tensors(sinkhorn_values(lead=(2, 5), num_iters=20)) | {"eps": b["eps"]}
    s["h_res"] = logits.unflatten(-1, (n, n))
    assert run("aclnnMhcSinkhorn", s) == OK
    sb = tensors(sinkhorn_backward_values(lead=(2, 5), num_iters=20))
    sb |= {"grad_y": b["grad_h_res"], "norm": s["norm_out"], "sum": s["sum_out"]}
    assert run("aclnnMhcSinkhornBackward", sb) == OK
    chain = tensors(backward(lead=(2, 5), gamma=False, grad_gamma=False))
    chain |= {name: b[name] for name in ("x", "phi", "alpha", "h_pre", "grad_h_post")}
    chain |= {
        "grad_h_in": b["grad_hin"],
        "grad_h_res": sb["grad_input"],
        "inv_rms": b["inv_rms"].squeeze(-1),
        "h_mix": b["hc_before_norm"],
        "h_post": 2 * post.sigmoid(),
        "hc_eps": b["eps"],
        "grad_x_post": None,
    }
    assert run("aclnnMhcPreBackward", chain) == OK
    for name, truth in zip(OUTPUTS, gradients(b, torch.float64), strict=True):
        # Each within the budget of the other's terms: two orders of the same sums.
        assert_within_budget(name, b[name], chain[name].float(), truth, terms=512 + 2 * 20 * 2 * 4)


def test_saved_iterates_give_the_number_of_iterations_alone():
    b = forward_and_gradients()
    assert run(API, b) == OK
    c = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in b.items()}
    c["sum_out"], c["norm_out"] = c["sum_out"] * 2, c["norm_out"] * torch.nan
    assert run(API, c) == OK
    assert all(same(c[name], b[name]) for name in OUTPUTS)
    few = c | {"sum_out": c["sum_out"][:2]}
    assert run(API, few) == OK
    assert not same(few["grad_bias"], b["grad_bias"])


def test_grad_x_is_of_the_type_of_grad_hin_rounded_once():
    b = forward_and_gradients()
    b["grad_hin"] = b["grad_hin"].half()
    b["grad_x"] = torch.full_like(b["x"], torch.nan, dtype=torch.float16)
    assert run(API, b) == OK
    eager, truth = gradients(b, torch.float32)[0], gradients(b, torch.float64)[0]
    assert_within_budget("grad_x", b["grad_x"], eager, truth, terms=512 + 2 * 20 * 2 * 4)


def test_strided_tensors():
    dense = forward_and_gradients()
    assert run(API, dense) == OK
    strided, memories = dict(dense), {}
    for name in (*INPUTS, *OUTPUTS):
        strided[name], memories[name] = spread(
            dense[name].clone().fill_(torch.nan) if name in OUTPUTS else dense[name]
        )
    assert run(API, strided) == OK
    for name in OUTPUTS:
        assert same(strided[name], dense[name]), name
        assert (memories[name][..., [0, 2]] == -7.0).all()


def test_grad_x_in_the_memory_of_x():
    b = forward_and_gradients()
    assert run(API, b) == OK
    want = {name: b[name].clone() for name in OUTPUTS}
    assert run(API, b | {"grad_x": b["x"]}) == OK
    assert same(b["x"], want["grad_x"])
    assert all(same(b[name], want[name]) for name in OUTPUTS[1:])


def test_infershape():
    inputs = {"x": [2, 8, -1, 128], "phi": [24, 512], "alpha": [3], "bias": [24]}
    result = infer_shape("MhcPreSinkhornBackward", inputs)
    assert result.status == GRAPH_SUCCESS
    assert [list(result.shapes[name]) for name in OUTPUTS] == list(inputs.values())
    for wrong in ({"x": [4, 128]}, {"phi": None}):
        assert infer_shape("MhcPreSinkhornBackward", inputs | wrong).status == GRAPH_FAILED


@pytest.mark.parametrize(
    ("values", "good"),
    [
        (pre_sinkhorn_backward(), True),
        (pre_sinkhorn_backward(flat=True), True),
        (pre_sinkhorn_backward(n=8), False),
        (pre_sinkhorn_backward(lead=(9,)), False),
        (pre_sinkhorn_backward(num_iters=19), False),
        (pre_sinkhorn_backward(d=64), False),
        (pre_sinkhorn_backward(d=100096, lead=(1, 1)), False),
        (pre_sinkhorn_backward() | {"sum_out": T(FP32, (41, 2, 4, 4))}, False),
        (
            pre_sinkhorn_backward()
            | {"sum_out": T(FP32, (41, 2, 4, 4)), "norm_out": T(FP32, (41, 2, 4, 4, 4))},
            False,
        ),
        (pre_sinkhorn_backward() | {"norm_out": T(FP32, (38, 2, 4, 4, 4))}, False),
        (pre_sinkhorn_backward() | {"h_pre": T(FP32, (2, 4, 5))}, False),
        (pre_sinkhorn_backward() | {"bias": None}, False),
    ],
)
def test_tiling(values, good):
    for soc in SOCS:
        result = tile("MhcPreSinkhornBackward", values, soc)
        assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED), (soc, result.message)
        if good:
            assert result.workspace > 4 * 8 * (24 + 512)
            assert result.workspace_rule == "bound"
