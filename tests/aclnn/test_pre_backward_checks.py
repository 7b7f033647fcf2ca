"""First phase of MhcPreBackward: which status, in which order, on which chip."""

import pytest

from mhc_ops import aclnn

from .calls import BF16, FP16, FP32, T, backward, prepare, status

NULL, INVALID, OK = 161001, 161002, 0
SOCS = ("ascend950", "ascend910b", "ascend910_93")
A2 = SOCS[1:]
INPUTS = [
    "x",
    "phi",
    "alpha",
    "grad_h_in",
    "grad_h_post",
    "grad_h_res",
    "inv_rms",
    "h_mix",
    "h_pre",
    "h_post",
    "gamma",
    "grad_x_post",
]
OUTPUTS = ["grad_x", "grad_phi", "grad_alpha", "grad_bias", "grad_gamma"]

GOOD = {
    "packed, D 8": backward(d=8, lead=(10,)),
    "D 1": backward(d=1, lead=(1, 1)),
    "n 3": backward(n=3),
    "n 1": backward(n=1),
    "n 16": backward(n=16),
    "D above the limit of tiling": backward(d=20000, lead=(1,)),
    "permutation rows": backward(rows=32),
    "FP16": backward(x=FP16),
    "no gamma": backward(gamma=False, grad_gamma=False),
    "no gamma, gradGamma given": backward(gamma=False),
    "no grad_x_post": backward() | {"grad_x_post": None},
}


@pytest.mark.parametrize("values", GOOD.values(), ids=list(GOOD))
@pytest.mark.parametrize("soc", SOCS)
def test_good_calls(values, soc):
    with aclnn.soc(soc):
        code, size, executor = prepare("aclnnMhcPreBackward", values)
    assert code == OK, aclnn.aclGetRecentErrMsg()
    assert size > 0
    assert executor is not None


@pytest.mark.parametrize("name", INPUTS[:10] + OUTPUTS)
def test_required_tensors(name):
    assert prepare("aclnnMhcPreBackward", backward() | {name: None}) == (NULL, 0, None)


def test_null_tensors_come_before_empty_ones_and_handles_before_both():
    assert status("aclnnMhcPreBackward", backward(lead=(0,)) | {"grad_bias": None}) == NULL
    values = backward(lead=(0,)) | {"x": None}
    assert status("aclnnMhcPreBackward", values, workspaceSize=None) == NULL
    assert "workspaceSize" in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize("name", INPUTS)
def test_empty_inputs(name):
    assert status("aclnnMhcPreBackward", backward() | {name: T(FP32, (0,))}) == INVALID
    assert "must not be empty" in aclnn.aclGetRecentErrMsg()


def test_empty_comes_before_rank():
    values = backward() | {"x": T(BF16, (4, 128)), "h_post": T(FP32, (0, 4))}
    status("aclnnMhcPreBackward", values)
    assert "hPost must not be empty" in aclnn.aclGetRecentErrMsg()


BAD = {
    "x rank": backward() | {"x": T(BF16, (8, 512))},
    "x shape": backward() | {"x": T(BF16, (4, 2, 4, 128))},
    "x streams": backward() | {"x": T(BF16, (2, 4, 5, 128))},
    "grad_h_post rank": backward() | {"grad_h_post": T(FP32, (8, 4))},
    "h_post rank": backward() | {"h_post": T(FP32, (8, 4))},
    "h_pre last": backward() | {"h_pre": T(FP32, (2, 4, 5))},
    "h_mix last": backward() | {"h_mix": T(FP32, (2, 4, 32))},
    "h_mix leading": backward() | {"h_mix": T(FP32, (4, 2, 24))},
    "inv_rms rank": backward() | {"inv_rms": T(FP32, (2, 4, 1))},
    "grad_h_res last": backward(h_res=(4, 5)),
    "alpha 2": backward() | {"alpha": T(FP32, (2,))},
    "alpha rank": backward() | {"alpha": T(FP32, (1, 3))},
    "rows 25": backward(rows=25),
    "rows of no residual": backward(rows=8),
    "phi columns": backward() | {"phi": T(FP32, (24, 511))},
    "gamma rank": backward() | {"gamma": T(FP32, (512,)), "grad_gamma": T(FP32, (512,))},
    "gamma shape": backward() | {"gamma": T(FP32, (128, 4))},
    "grad_gamma shape": backward() | {"grad_gamma": T(FP32, (128, 4))},
    "grad_gamma shape without gamma": backward(gamma=False) | {"grad_gamma": T(FP32, (3, 128))},
    "grad_x rank": backward() | {"grad_x": T(BF16, (8, 4, 128))},
    "grad_x shape": backward() | {"grad_x": T(BF16, (2, 4, 128, 4))},
    "grad_x_post shape": backward() | {"grad_x_post": T(BF16, (2, 4, 4, 127))},
    "grad_phi": backward() | {"grad_phi": T(FP32, (25, 512))},
    "grad_alpha": backward() | {"grad_alpha": T(FP32, (4,))},
    "grad_bias rank": backward() | {"grad_bias": T(FP32, (24, 1))},
    "grad_bias": backward() | {"grad_bias": T(FP32, (32,))},
    "x FP32": backward(x=FP32),
    "grad_h_in not as x": backward() | {"grad_h_in": T(FP16, (2, 4, 128))},
    "grad_x_post not as x": backward() | {"grad_x_post": T(FP16, (2, 4, 4, 128))},
    "grad_x not as x": backward() | {"grad_x": T(FP16, (2, 4, 4, 128))},
    "phi BF16": backward() | {"phi": T(BF16, (24, 512))},
    "grad_alpha BF16": backward() | {"grad_alpha": T(BF16, (3,))},
    "grad_gamma BF16": backward() | {"grad_gamma": T(BF16, (4, 128))},
    "grad_gamma BF16 without gamma": backward(gamma=False) | {"grad_gamma": T(BF16, (4, 128))},
}


@pytest.mark.parametrize("values", BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("soc", SOCS)
def test_invalid_calls(values, soc):
    with aclnn.soc(soc):
        assert prepare("aclnnMhcPreBackward", values) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith("aclnnMhcPreBackward: ")


@pytest.mark.parametrize("rows", [24, 32])
@pytest.mark.parametrize("lead", [(2, 4), (7,)])
def test_the_short_gradient_of_h_res_is_for_a2_and_a3(rows, lead):
    values = backward(lead=lead, rows=rows, h_res=(24,))
    assert status("aclnnMhcPreBackward", values) == INVALID
    for soc in A2:
        with aclnn.soc(soc):
            assert status("aclnnMhcPreBackward", values) == OK
            wrong = backward(lead=lead, rows=rows, h_res=(16,))
            assert status("aclnnMhcPreBackward", wrong) == INVALID


def test_leading_dimensions_come_from_grad_h_in():
    values = backward() | {"grad_h_in": T(BF16, (2, 5, 128))}
    status("aclnnMhcPreBackward", values)
    assert aclnn.aclGetRecentErrMsg() == (
        "aclnnMhcPreBackward: x must be [.., n, D] = [2, 5, 4, 128], got [2, 4, 4, 128]."
    )


@pytest.mark.parametrize("name", INPUTS + OUTPUTS)
def test_private_formats_of_inputs_alone(name):
    values = backward()
    values[name] = values[name]._replace(format=aclnn.ACL_FORMAT_FRACTAL_NZ)
    expected = INVALID if name in INPUTS else OK
    assert status("aclnnMhcPreBackward", values) == expected


@pytest.mark.parametrize(("mode", "code"), [(0, OK), (1, OK), (2, INVALID), (-1, INVALID)])
@pytest.mark.parametrize("soc", SOCS)
def test_modes_of_v2_are_the_same_on_every_chip(mode, code, soc):
    with aclnn.soc(soc):
        assert status("aclnnMhcPreBackwardV2", backward() | {"op_impl_mode": mode}) == code


def test_an_unknown_mode_comes_before_everything():
    values = dict.fromkeys(backward()) | {"hc_eps": 1e-6, "op_impl_mode": 2}
    assert status("aclnnMhcPreBackwardV2", values, executor=None, workspaceSize=None) == INVALID
    values["op_impl_mode"] = 1
    assert status("aclnnMhcPreBackwardV2", values) == NULL
