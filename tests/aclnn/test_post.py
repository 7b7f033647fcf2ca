"""MhcPost and MhcPostBackward: first phase, infershape, tiling, and numbers by hand."""

import pytest
import torch

from mhc_ops import aclnn, mhc_post_backward, mhc_post_forward
from mhc_ops.aclnn import GRAPH_FAILED, GRAPH_SUCCESS, infer_shape

from .calls import (
    BF16,
    FP16,
    FP32,
    T,
    post,
    post_backward,
    prepare,
    run,
    same,
    spread,
    status,
    tensors,
    tile,
)

NULL, INVALID, RUNTIME, OK = 161001, 161002, 361001, 0
SOCS = ("ascend950", "ascend910b", "ascend910_93")
A2 = SOCS[1:]
FORWARD, BACKWARD = "aclnnMhcPost", "aclnnMhcPostBackward"
GRADIENTS = ("grad_x", "grad_h_res", "grad_h_out", "grad_h_post")
INPUTS = ("x", "h_res", "h_out", "h_post")

GOOD = [post(), post(n=3, d=7, lead=(5,)), post(n=1, d=1), post(x=FP16), post(n=40, lead=(1, 1))]


@pytest.mark.parametrize("values", GOOD)
@pytest.mark.parametrize("soc", SOCS)
def test_good_calls_of_post_have_no_limit_of_n_or_d(values, soc):
    with aclnn.soc(soc):
        code, size, executor = prepare(FORWARD, values)
    assert (code, size) == (OK, 16 * 2**20), aclnn.aclGetRecentErrMsg()
    assert executor.soc == soc


def test_null_h_res_off_950_comes_before_everything():
    nothing = dict.fromkeys(post())
    for soc in A2:
        with aclnn.soc(soc):
            assert status(FORWARD, nothing, workspaceSize=None, executor=None) == RUNTIME
            assert "hRes must not be null" in aclnn.aclGetRecentErrMsg()
            assert status(BACKWARD, post_backward(h_res=False)) == NULL
    assert status(FORWARD, nothing) == NULL
    assert status(FORWARD, post(h_res=False)) == OK
    assert status(BACKWARD, post_backward(h_res=False)) == OK


@pytest.mark.parametrize("name", ["x", "h_out", "h_post", "y"])
def test_required_tensors_of_post_come_before_handles(name):
    values = post() | {name: None}
    assert prepare(FORWARD, values, workspaceSize=None) == (NULL, 0, None)
    assert "workspaceSize" not in aclnn.aclGetRecentErrMsg()


def test_handles_of_post_come_before_the_rest():
    bad = post() | {"x": T(FP32, (1,), aclnn.ACL_FORMAT_FRACTAL_NZ)}
    assert status(FORWARD, bad, executor=None) == NULL
    assert "executor" in aclnn.aclGetRecentErrMsg()


BAD_POST = {
    "x FP32": (post(x=FP32), "x must be BFLOAT16 or FLOAT16"),
    "h_res BF16": (post() | {"h_res": T(BF16, (2, 4, 4, 4))}, "hRes must be FLOAT"),
    "h_out not as x": (post() | {"h_out": T(FP16, (2, 4, 128))}, "hOut must have the dtype of x"),
    "h_post FP16": (post() | {"h_post": T(FP16, (2, 4, 4))}, "hPost must be FLOAT"),
    "out not as x": (post() | {"y": T(FP16, (2, 4, 4, 128))}, "out must have the dtype of x"),
    "rank 2": (post(lead=()), "x must have 3 or 4 dimensions"),
    "rank 5": (post(lead=(1, 2, 3)), "x must have 3 or 4 dimensions"),
    "h_res shape": (post() | {"h_res": T(FP32, (2, 4, 16))}, "hRes must be"),
    "h_out shape": (post() | {"h_out": T(BF16, (2, 4, 127))}, "hOut must be"),
    "h_post shape": (post() | {"h_post": T(FP32, (2, 4, 3))}, "hPost must be"),
    "out shape": (post() | {"y": T(BF16, (4, 2, 4, 128))}, "out must be"),
}


@pytest.mark.parametrize(("values", "told"), BAD_POST.values(), ids=list(BAD_POST))
@pytest.mark.parametrize("soc", SOCS)
def test_invalid_calls_of_post(values, told, soc):
    with aclnn.soc(soc):
        assert prepare(FORWARD, values) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith(f"aclnnMhcPost: {told}")


@pytest.mark.parametrize("name", [*INPUTS, "y"])
def test_private_formats_of_x_and_out_alone(name):
    values = post()
    values[name] = values[name]._replace(format=aclnn.ACL_FORMAT_NC1HWC0)
    assert status(FORWARD, values) == (INVALID if name in ("x", "y") else OK)


def test_formats_come_before_dtypes_and_dtypes_before_shapes():
    wrong = post(x=FP32, lead=()) | {"y": T(FP32, (4, 128), aclnn.ACL_FORMAT_FRACTAL_Z)}
    status(FORWARD, wrong)
    assert "private format" in aclnn.aclGetRecentErrMsg()
    status(FORWARD, post(x=FP32, lead=()))
    assert "must be BFLOAT16" in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize("values", [post(lead=(0, 4)), post(lead=(0,)), post(d=0), post(n=0)])
def test_an_empty_input_of_post_is_a_success_with_nothing_to_do(values):
    t = tensors(values)
    code, size, executor = prepare(FORWARD, t)
    assert (code, size) == (OK, 0)
    assert aclnn.aclnnMhcPost(None, 0, executor, None) == OK
    assert aclnn.aclGetRecentErrMsg() == ""
    assert aclnn.aclnnMhcPost(None, 0, executor, None) == INVALID
    assert status(FORWARD, values | {"y": T(BF16, (2, 4, 4, 128))}) == INVALID


def test_post_by_hand():
    """n = 2, D = 2: hRes[from, to] is applied transposed."""
    t = {
        "x": torch.tensor([[[1.0, 2.0], [3.0, 5.0]]]).bfloat16(),
        "h_res": torch.tensor([[[0.5, 2.0], [1.0, -1.0]]]),
        "h_out": torch.tensor([[4.0, 8.0]]).bfloat16(),
        "h_post": torch.tensor([[0.25, 1.0]]),
        "y": torch.full((1, 2, 2), torch.nan).bfloat16(),
    }
    assert run(FORWARD, t) == OK
    # out[0] = 0.5 x[0] + 1 x[1] + 0.25 hOut; out[1] = 2 x[0] - 1 x[1] + 1 hOut
    assert t["y"].tolist() == [[[4.5, 8.0], [3.0, 7.0]]]
    assert run(FORWARD, t | {"h_res": None}) == OK
    assert t["y"].tolist() == [[[2.0, 4.0], [7.0, 13.0]]]


def test_post_backward_by_hand():
    """n = 4 of which two streams are zero, D = 2."""
    t = tensors(post_backward(d=2, lead=(1,), x=FP16))
    for name in ("grad_y", *INPUTS):
        t[name].zero_()
    t["grad_y"][0, :2] = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    t["x"][0, :2] = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    t["h_res"][0, :2, :2] = torch.tensor([[0.5, 2.0], [1.0, -1.0]])
    t["h_out"][0] = torch.tensor([4.0, 8.0])
    t["h_post"][0, :2] = torch.tensor([0.25, 1.0])
    assert run(BACKWARD, t) == OK
    # gradX[0] = 0.5 g[0] + 2 g[1]; gradX[1] = 1 g[0] - 1 g[1]
    assert t["grad_x"][0].tolist() == [[6.5, -1.0], [-2.0, 3.0], [0, 0], [0, 0]]
    # gradHres[i, j] = x[i] . g[j]
    assert t["grad_h_res"][0].tolist() == [[5, 1, 0, 0], [13, 4, 0, 0], [0] * 4, [0] * 4]
    assert t["grad_h_out"].tolist() == [[3.25, -0.5]]  # 0.25 g[0] + 1 g[1]
    assert t["grad_h_post"].tolist() == [[20.0, 4.0, 0.0, 0.0]]  # g[j] . hOut


@pytest.mark.parametrize("lead", [(2, 4), (9,)])
@pytest.mark.parametrize("x", [BF16, FP16])
@pytest.mark.parametrize("h_res", [True, False])
def test_both_write_what_the_operators_compute(lead, x, h_res):
    t = tensors(post(n=6, d=40, lead=lead, x=x, h_res=h_res))
    assert run(FORWARD, t) == OK
    assert same(t["y"], mhc_post_forward(*(t[name] for name in INPUTS)))
    b = tensors(post_backward(n=6, d=40, lead=lead, x=x, h_res=h_res))
    assert run(BACKWARD, b) == OK
    want = mhc_post_backward(b["grad_y"], *(b[name] for name in INPUTS))
    assert all(same(b[name], w) for name, w in zip(GRADIENTS, want[:4], strict=True))
    if not h_res:
        assert same(b["grad_x"], b["grad_y"])


@pytest.mark.parametrize(("api", "make"), [(FORWARD, post), (BACKWARD, post_backward)])
def test_strided_inputs_and_outputs(api, make):
    dense = tensors(make(d=24))
    assert run(api, dense) == OK
    strided, memories = {}, {}
    for name, value in tensors(make(d=24)).items():
        strided[name], memories[name] = spread(value)
    assert run(api, strided) == OK
    outputs = GRADIENTS if api == BACKWARD else ("y",)
    for name in outputs:
        assert same(strided[name], dense[name]), name
        assert (memories[name][..., [0, 2]] == -7.0).all()


def test_out_in_the_memory_of_x_and_grad_x_in_that_of_grad_output():
    t = tensors(post())
    want = mhc_post_forward(*(t[name] for name in INPUTS))
    assert run(FORWARD, t | {"y": t["x"]}) == OK
    assert same(t["x"], want)
    b = tensors(post_backward())
    want = mhc_post_backward(b["grad_y"], *(b[name] for name in INPUTS))
    assert run(BACKWARD, b | {"grad_x": b["grad_y"]}) == OK
    assert same(b["grad_y"], want.grad_x)
    assert same(b["grad_h_post"], want.grad_h_post)


@pytest.mark.parametrize("name", [*INPUTS[:1], "grad_y", "h_out", "h_post", *GRADIENTS])
def test_required_tensors_of_post_backward(name):
    assert prepare(BACKWARD, post_backward() | {name: None}) == (NULL, 0, None)


@pytest.mark.parametrize("name", ["grad_y", *INPUTS])
def test_empty_inputs_of_post_backward_are_invalid(name):
    assert status(BACKWARD, post_backward() | {name: T(FP32, (0,))}) == INVALID
    assert "must not be empty" in aclnn.aclGetRecentErrMsg()
    assert status(BACKWARD, post_backward(lead=(0,)) | {"grad_h_out": None}) == NULL


BAD_BACKWARD = {
    "n 5": (post_backward(n=5), "x must satisfy"),
    "n 1": (post_backward(n=1), "x must satisfy"),
    "rank 2": (post_backward(lead=()), "x must have 3 or 4 dimensions"),
    "grad_y rank": (post_backward() | {"grad_y": T(BF16, (8, 4, 128))}, "gradOutput must have 4"),
    "grad_y shape": (post_backward() | {"grad_y": T(BF16, (4, 2, 4, 128))}, "gradOutput must be"),
    "h_res shape": (post_backward() | {"h_res": T(FP32, (2, 4, 4, 5))}, "hRes must be"),
    "h_out rank": (post_backward() | {"h_out": T(BF16, (2, 4, 1, 128))}, "hOut must have 3"),
    "h_post shape": (post_backward() | {"h_post": T(FP32, (2, 4, 5))}, "hPost must be"),
    "grad_x shape": (post_backward() | {"grad_x": T(BF16, (2, 4, 4, 64))}, "gradX must be"),
    "grad_h_res shape": (
        post_backward() | {"grad_h_res": T(FP32, (2, 4, 4, 5))},
        "gradHres must be",
    ),
    "grad_h_out rank": (post_backward() | {"grad_h_out": T(BF16, (8, 128))}, "gradHout must have"),
    "grad_h_post shape": (
        post_backward() | {"grad_h_post": T(FP32, (4, 2, 4))},
        "gradHpost must be",
    ),
    "x FP32": (post_backward(x=FP32), "gradOutput must be BFLOAT16"),
    "h_res FP16": (post_backward() | {"h_res": T(FP16, (2, 4, 4, 4))}, "hRes must be FLOAT"),
    "grad_x not as x": (
        post_backward() | {"grad_x": T(FP16, (2, 4, 4, 128))},
        "gradX must have the dtype of x",
    ),
    "grad_h_out not as h_out": (
        post_backward() | {"grad_h_out": T(FP16, (2, 4, 128))},
        "gradHout must have the dtype of hOut",
    ),
    "grad_h_res BF16": (
        post_backward(h_res=False) | {"grad_h_res": T(BF16, (2, 4, 4, 4))},
        "gradHres must be FLOAT",
    ),
    "grad_h_post BF16": (
        post_backward() | {"grad_h_post": T(BF16, (2, 4, 4))},
        "gradHpost must be FLOAT",
    ),
}


@pytest.mark.parametrize(("values", "told"), BAD_BACKWARD.values(), ids=list(BAD_BACKWARD))
@pytest.mark.parametrize("soc", SOCS)
def test_invalid_calls_of_post_backward(values, told, soc):
    if soc != "ascend950" and values["h_res"] is None:
        values = values | {"h_res": T(FP32, (2, 4, 4, 4))}
    with aclnn.soc(soc):
        assert prepare(BACKWARD, values) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith(f"aclnnMhcPostBackward: {told}")


@pytest.mark.parametrize(
    ("values", "on_950", "on_a2"),
    [
        (post_backward(d=7, n=8, lead=(5,)), OK, INVALID),
        (post_backward(n=6), OK, INVALID),
        (post_backward(d=64), OK, INVALID),
        (post_backward(d=99968, lead=(1,)), OK, OK),
        (post_backward(d=100096, lead=(1,)), OK, INVALID),
    ],
)
def test_limits_of_post_backward_by_chip(values, on_950, on_a2):
    for soc, code in (("ascend950", on_950), *((name, on_a2) for name in A2)):
        with aclnn.soc(soc):
            assert status(BACKWARD, values) == code


@pytest.mark.parametrize("name", ["grad_y", *INPUTS, *GRADIENTS])
def test_private_formats_of_post_backward_come_before_dtypes(name):
    values = post_backward(x=FP32)
    values[name] = values[name]._replace(format=aclnn.ACL_FORMAT_FRACTAL_Z_3D)
    assert status(BACKWARD, values) == INVALID
    assert "private format" in aclnn.aclGetRecentErrMsg()


def test_mixed_16_bit_types_pass_the_call_and_fail_in_tiling_and_at_run_time():
    mixed = post_backward() | {"grad_y": T(FP16, (2, 4, 4, 128))}
    assert status(BACKWARD, mixed) == OK
    result = tile("MhcPostBackward", mixed)
    assert result.status == GRAPH_FAILED
    assert result.message == (
        "MhcPostBackward: x must have the dtype of grad_y, FLOAT16, got BFLOAT16."
    )
    assert run(BACKWARD, tensors(mixed)) == RUNTIME
    assert "grad_out must be torch.bfloat16" in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([2, 8, 4, 64], [2, 8, 4, 64]),
        ([9, 5, 7], [9, 5, 7]),
        ([-1, -1, 4, -1], [-1, -1, 4, -1]),
        ([-2], [-2]),
        ([0, 4, 8], [0, 4, 8]),
        ([4, 8], None),
        ([1, 2, 3, 4, 5], None),
        ([], None),
        (None, None),
    ],
)
def test_infershape_of_post(x, y):
    result = infer_shape("MhcPost", {"x": x})
    assert result.status == (GRAPH_FAILED if y is None else GRAPH_SUCCESS)
    assert result.shapes == ({} if y is None else {"y": tuple(y)})


SHAPES = {
    "grad_y": [2, 8, 4, 64],
    "x": [2, 8, 4, 64],
    "h_res": [2, 8, 4, 4],
    "h_out": [2, 8, 64],
    "h_post": [2, 8, 4],
}
KNOWN = ([2, 8, 4, 64], [2, 8, 4, 4], [2, 8, 64], [2, 8, 4])
UNKNOWN = ([-1] * 4, [-1] * 4, [-1] * 3, [-1] * 3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, KNOWN),
        ({"h_res": None}, KNOWN),
        ({"h_res": [9, 9, 9, 9]}, (KNOWN[0], [9, 9, 9, 9], *KNOWN[2:])),
        ({"h_out": [2, 8, -1]}, UNKNOWN),
        ({"x": [-1, 4, 64]}, ([-1] * 3, *UNKNOWN[1:])),
        ({"h_res": None, "grad_y": [-1, 8, 4, 64]}, UNKNOWN),
        ({"h_post": [-2]}, ([-2],) * 4),
        ({"x": [-1, 8, 4, 64], "grad_y": [-2]}, ([-2],) * 4),
        ({"x": [], "h_res": []}, ([], [], *KNOWN[2:])),
        ({"x": [4, 64]}, None),
        ({"x": [1, 2, 8, 4, 64]}, None),
        ({"h_post": None}, None),
    ],
)
def test_infershape_of_post_backward(change, expected):
    result = infer_shape("MhcPostBackward", SHAPES | change)
    if expected is None:
        assert result.status == GRAPH_FAILED
    else:
        assert result.status == GRAPH_SUCCESS, result.message
        assert [list(result.shapes[name]) for name in GRADIENTS] == list(expected)


@pytest.mark.parametrize(
    ("values", "on_950", "on_a2"),
    [
        (post(), True, True),
        (post(h_res=False), True, False),
        (post(n=5, d=7), True, False),
        (post(n=6), True, False),
        (post(d=192), True, False),
        (post(d=99968, lead=(1,)), True, True),
        (post(d=100096, lead=(1,)), True, False),
        (post(x=FP32), False, False),
        (post() | {"y": None}, False, False),
        (post() | {"h_post": T(FP32, (2, 4, 5))}, False, False),
        (post(lead=()), False, False),
    ],
)
def test_tiling_of_post(values, on_950, on_a2):
    for soc, good in (("ascend950", on_950), *((name, on_a2) for name in A2)):
        result = tile("MhcPost", values, soc)
        assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED), (soc, result.message)
        if good:
            assert result.tiling_key == (6 if soc == "ascend950" else None)
            assert (result.workspace, result.workspace_rule) == (16 * 2**20, "exact")


@pytest.mark.parametrize(
    ("values", "on_950", "on_a2"),
    [
        (post_backward(), True, True),
        (post_backward(h_res=False), True, False),
        (post_backward(d=394, n=8), True, False),
        (post_backward(n=7), False, False),
        (post_backward(d=192), True, False),
        (post_backward(d=100096, lead=(1,)), True, False),
        (post_backward() | {"h_post": T(FP32, ())}, False, False),
        (post_backward() | {"grad_h_res": None}, False, False),
        (post_backward() | {"grad_h_res": T(FP16, (2, 4, 4, 4))}, False, False),
        (
            post_backward() | {"h_out": T(FP16, (2, 4, 128)), "grad_h_out": T(FP16, (2, 4, 128))},
            False,
            False,
        ),
    ],
)
def test_tiling_of_post_backward(values, on_950, on_a2):
    for soc, good in (("ascend950", on_950), *((name, on_a2) for name in A2)):
        result = tile("MhcPostBackward", values, soc)
        assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED), (soc, result.message)
    if on_950:
        result = tile("MhcPostBackward", values)
        assert (result.tiling_key, result.workspace) == (0, 16 * 2**20)
