"""First phase of MhcPre: which status, in which order, on which chip."""

import pytest

from mhc_ops import aclnn

from .calls import BF16, FP16, FP32, T, pre, prepare, status

NULL, INVALID, OK = 161001, 161002, 0
A2 = ("ascend910b", "ascend910_93")


@pytest.mark.parametrize("n", [4, 6, 8])
@pytest.mark.parametrize("alpha", [3, 2])
@pytest.mark.parametrize("x", [BF16, FP16])
@pytest.mark.parametrize("lead", [(2, 4), (7,)])
def test_good_calls_on_950(n, alpha, x, lead):
    values = pre(n, 16 * 3, lead, alpha=alpha, x=x)
    code, size, executor = prepare("aclnnMhcPre", values)
    assert code == OK
    assert size > 20 * 2**20
    assert executor is not None
    assert aclnn.aclGetRecentErrMsg() == ""


BAD_950 = {
    "n 5": pre(n=5),
    "n 1": pre(n=1),
    "n 7": pre(n=7),
    "D not a multiple of 16": pre(d=120),
    "phi rows": pre(rows=23),
    "phi rows of the permutation form": pre(rows=32),
    "phi rows of no residual": pre(rows=8),
    "h_res of the permutation form": pre(h_res=(24,)),
    "alpha 4": pre() | {"alpha": T(FP32, (4,))},
    "alpha 1": pre() | {"alpha": T(FP32, (1,))},
    "alpha rank": pre() | {"alpha": T(FP32, (1, 3))},
    "x rank 5": pre() | {"x": T(FP16, (1, 2, 4, 4, 128))},
    "x rank 2": pre() | {"x": T(FP16, (4, 128))},
    "x FP32": pre(x=FP32),
    "x DOUBLE": pre(x=aclnn.ACL_DOUBLE),
    "hin dtype": pre() | {"hin": T(BF16, (2, 4, 128))},
    "hin shape": pre() | {"hin": T(FP16, (2, 5, 128))},
    "hin rank": pre() | {"hin": T(FP16, (8, 128))},
    "phi columns": pre() | {"phi": T(FP32, (24, 513))},
    "phi transposed": pre() | {"phi": T(FP32, (512, 24))},
    "bias": pre() | {"bias": T(FP32, (23,))},
    "bias dtype": pre() | {"bias": T(BF16, (24,))},
    "gamma flat": pre() | {"gamma": T(FP32, (512,))},
    "gamma rows": pre() | {"gamma": T(FP32, (3, 128))},
    "h_post last": pre() | {"h_post": T(FP32, (2, 4, 5))},
    "h_res last": pre() | {"h_res": T(FP32, (2, 4, 4, 5))},
    "h_res dtype": pre() | {"h_res": T(FP16, (2, 4, 4, 4))},
    "inv_rms rank": pre() | {"inv_rms": T(FP32, (2, 4, 1))},
    "inv_rms shape": pre() | {"inv_rms": T(FP32, (4, 2))},
    "h_mix last": pre() | {"h_mix": T(FP32, (2, 4, 25))},
    "h_pre dtype": pre() | {"h_pre": T(FP16, (2, 4, 4))},
    "only two saved": pre() | {"h_mix": None},
    "only one saved": pre(saved=False) | {"h_pre": T(FP32, (2, 4, 4))},
    "x empty": pre(lead=(0, 4)),
    "phi empty": pre() | {"phi": T(FP32, (0, 512))},
    "alpha empty": pre() | {"alpha": T(FP32, (0,))},
    "bias empty": pre() | {"bias": T(FP32, (0,))},
}


@pytest.mark.parametrize("values", BAD_950.values(), ids=list(BAD_950))
def test_invalid_calls_on_950(values):
    assert prepare("aclnnMhcPre", values) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith("aclnnMhcPre: ")


@pytest.mark.parametrize("name", ["x", "phi", "alpha", "bias", "hin", "h_post", "h_res"])
def test_required_tensors(name):
    assert prepare("aclnnMhcPre", pre() | {name: None}) == (NULL, 0, None)
    spelled = {"hin": "hIn", "h_post": "hPost", "h_res": "hRes"}.get(name, name)
    assert aclnn.aclGetRecentErrMsg() == f"aclnnMhcPre: {spelled} must not be null."


def test_optional_tensors():
    assert status("aclnnMhcPre", pre(saved=False) | {"gamma": None}) == OK


@pytest.mark.parametrize("handle", ["workspaceSize", "executor"])
def test_null_handles_come_before_tensors(handle):
    assert prepare("aclnnMhcPre", pre(n=5) | {"x": None}, **{handle: None}) == (NULL, 0, None)
    assert handle in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize(
    "given",
    [None, T(FP32, (0,)), T(FP16, (3,)), T(FP32, (2, 4, 4, 4), aclnn.ACL_FORMAT_FRACTAL_NZ)],
)
def test_without_residual_part_h_res_is_not_looked_at(given):
    assert status("aclnnMhcPre", pre(alpha=2) | {"h_res": given}) == OK


ORDER = {
    "null before empty": (pre(lead=(0, 4)) | {"bias": None}, NULL),
    "empty before missing h_res": (pre(lead=(0, 4)) | {"h_res": None}, INVALID),
    "rank before missing h_res": (pre() | {"phi": T(FP32, (512,)), "h_res": None}, INVALID),
    "alpha size before missing h_res": (pre() | {"alpha": T(FP32, (4,)), "h_res": None}, INVALID),
    "missing h_res before output ranks": (
        pre() | {"h_res": None, "hin": T(FP16, (8, 128))},
        NULL,
    ),
    "missing h_res before n": (pre(n=5) | {"h_res": None}, NULL),
}


@pytest.mark.parametrize(("values", "code"), ORDER.values(), ids=list(ORDER))
@pytest.mark.parametrize("soc", ["ascend950", *A2])
def test_order(values, code, soc):
    with aclnn.soc(soc):
        assert status("aclnnMhcPre", values) == code


def test_the_message_names_the_first_check_that_failed():
    both = pre(n=5, d=120) | {"hin": T(BF16, (2, 4, 120))}
    status("aclnnMhcPre", both)
    assert aclnn.aclGetRecentErrMsg() == (
        "aclnnMhcPre: x must satisfy n in (4, 6, 8), got n = 5 from [2, 4, 5, 120]."
    )
    status("aclnnMhcPre", pre(rows=23))
    assert aclnn.aclGetRecentErrMsg() == (
        "aclnnMhcPre: phi must be [n*n+2*n, n*D] = [24, 512], got [23, 512]."
    )


PRIVATE = [
    aclnn.ACL_FORMAT_NC1HWC0,
    aclnn.ACL_FORMAT_FRACTAL_Z,
    aclnn.ACL_FORMAT_NDC1HWC0,
    aclnn.ACL_FORMAT_FRACTAL_Z_3D,
    aclnn.ACL_FORMAT_FRACTAL_NZ,
    aclnn.ACL_FORMAT_NC1HWC0_C04,
]
TENSORS = [name for name, value in pre().items() if isinstance(value, T)]


@pytest.mark.parametrize("form", PRIVATE)
@pytest.mark.parametrize("soc", ["ascend950", "ascend910b"])
def test_private_formats_of_every_tensor(form, soc):
    with aclnn.soc(soc):
        for name in TENSORS:
            values = pre()
            values[name] = values[name]._replace(format=form)
            assert status("aclnnMhcPre", values) == INVALID, name
            assert "private format" in aclnn.aclGetRecentErrMsg()


@pytest.mark.parametrize("form", [aclnn.ACL_FORMAT_NCHW, aclnn.ACL_FORMAT_NHWC])
def test_other_formats_pass(form):
    values = {k: v._replace(format=form) if isinstance(v, T) else v for k, v in pre().items()}
    assert status("aclnnMhcPre", values) == OK


def test_d_above_16384_is_left_to_tiling():
    assert status("aclnnMhcPre", pre(d=16384 + 16)) == OK


@pytest.mark.parametrize(
    ("mode", "soc", "code"),
    [
        (0, "ascend950", OK),
        (1, "ascend950", OK),
        (2, "ascend950", INVALID),
        (-1, "ascend950", INVALID),
        (0, "ascend910b", OK),
        (1, "ascend910b", INVALID),
        (1, "ascend910_93", INVALID),
        (2, "ascend910_93", INVALID),
    ],
)
def test_modes_of_v2(mode, soc, code):
    with aclnn.soc(soc):
        assert status("aclnnMhcPreV2", pre() | {"op_impl_mode": mode}) == code


def test_an_unknown_mode_comes_before_null_tensors_and_handles():
    values = dict.fromkeys(pre()) | {"norm_eps": 0.0, "hc_eps": 0.0, "op_impl_mode": 2}
    assert status("aclnnMhcPreV2", values, executor=None) == INVALID


GOOD_A2 = {
    "matrix": pre(),
    "permutation": pre(rows=32, h_res=(24,)),
    "permutation rows, matrix h_res": pre(rows=32),
    "matrix rows, permutation h_res": pre(h_res=(24,)),
    "no residual": pre(alpha=2),
    "BF16, packed": pre(lead=(5,), x=BF16),
    "saved tensors null": pre(saved=False),
}


@pytest.mark.parametrize("values", GOOD_A2.values(), ids=list(GOOD_A2))
@pytest.mark.parametrize("soc", A2)
def test_good_calls_on_a2_and_a3(values, soc):
    with aclnn.soc(soc):
        assert status("aclnnMhcPre", values) == OK


BAD_A2 = {
    "n 6": pre(n=6),
    "n 8": pre(n=8),
    "D 64": pre(d=64),
    "D 144": pre(d=144),
    "rows 25": pre(rows=25),
    "permutation rows without residual": pre(alpha=2) | {"phi": T(FP32, (32, 512))},
    "h_res 23": pre(h_res=(23,)),
    "h_res rank": pre(h_res=(1, 4, 4)),
    "two saved": pre() | {"inv_rms": None},
    "h_mix follows phi": pre(rows=32) | {"h_mix": T(FP32, (2, 4, 24))},
    "x FP32": pre(x=FP32),
}


@pytest.mark.parametrize("values", BAD_A2.values(), ids=list(BAD_A2))
@pytest.mark.parametrize("soc", A2)
def test_invalid_calls_on_a2_and_a3(values, soc):
    with aclnn.soc(soc):
        assert status("aclnnMhcPre", values) == INVALID


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": 3}, "x must be an aclTensor or None, got int"),
        ({"hc_eps": "small"}, "hcEps must be of type double, got 'small'"),
        ({"op_impl_mode": 1.0}, "opImplMode must be of type int64_t, got 1.0"),
    ],
)
def test_what_c_would_not_compile_is_a_type_error(change, text):
    with pytest.raises(TypeError, match=text):
        prepare("aclnnMhcPreV2", pre() | change)
