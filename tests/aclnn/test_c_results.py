"""Both phases in C: the results are those of the Python surface, whatever the tensors look like."""

import math
import struct

import pytest
import torch

from mhc_ops import aclnn
from mhc_ops.aclnn.spec import OPERATORS

from . import c_surface, calls
from .c_surface import library, message
from .calls import BF16, FP16

# A power of two, which C's float and Python's float hold alike.
EPS = 2.0**-20
NUMBERS = {"hc_eps": EPS, "eps": EPS, "norm_eps": EPS}
CALLS = {
    "aclnnMhcPre": calls.pre,
    "aclnnMhcPreV2": lambda **o: calls.pre(**o) | {"op_impl_mode": 1},
    "aclnnMhcPreBackward": calls.backward,
    "aclnnMhcPreBackwardV2": lambda **o: calls.backward(**o) | {"op_impl_mode": 1},
    "aclnnMhcPost": calls.post,
    "aclnnMhcPostBackward": calls.post_backward,
    "aclnnMhcSinkhorn": calls.sinkhorn,
    "aclnnMhcSinkhornBackward": calls.sinkhorn_backward,
    "aclnnMhcPreSinkhorn": calls.pre_sinkhorn,
    "aclnnMhcPreSinkhornBackward": calls.pre_sinkhorn_backward,
}
SAVED = ("norm_out", "sum_out", "grad_input")
"""Computed by eager torch in Python and by plain loops in C: exp differs in the last bit."""


@pytest.fixture(autouse=True)
def _library():
    library()


def values_of(make, seed=0, **options):
    values = calls.tensors(make(**options), seed)
    for name in ("inv_rms", "norm", "sum"):
        if isinstance(values.get(name), torch.Tensor):  # not near zero: cubed, or divided by
            values[name] = values[name].abs() / 4 + 1
    return values | {name: eps for name, eps in NUMBERS.items() if name in values}


def outputs(api, values):
    op = next(t for t in OPERATORS.values() if t.api(api))
    return [name for name in op.names("output") if isinstance(values[name], torch.Tensor)]


def copied(values):
    return {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in values.items()}


def equal(got, want):
    return got.dtype == want.dtype and torch.equal(got.nan_to_num(-3), want.nan_to_num(-3))


def assert_same(api, got, want):
    names = outputs(api, want)
    assert names
    for name in names:
        if name in SAVED:
            torch.testing.assert_close(got[name], want[name], rtol=3e-5, atol=1e-6, equal_nan=True)
        elif api == "aclnnMhcPreSinkhornBackward":  # exp, again
            rounding = 2.0**-24 if want[name].dtype == torch.float32 else 2.0**-8
            scale = float(want[name].abs().max())
            torch.testing.assert_close(got[name], want[name], rtol=rounding, atol=2**-16 * scale)
        else:
            assert equal(got[name], want[name]), name
        assert not got[name].isnan().all(), name


def check(api, values, soc="ascend950"):
    want = copied(values)
    with aclnn.soc(soc):
        assert calls.run(api, want) == 0, aclnn.aclGetRecentErrMsg()
    library().mhc_aclnn_set_soc(soc.encode())
    assert c_surface.run(api, values) == ""
    library().mhc_aclnn_set_soc(None)
    assert_same(api, values, want)


@pytest.mark.parametrize("lead", [(2, 3), (33,)])
@pytest.mark.parametrize("api", CALLS)
def test_results_of_every_call(api, lead):
    check(api, values_of(CALLS[api], lead=lead))


@pytest.mark.parametrize("x", [BF16, FP16])
@pytest.mark.parametrize("api", [api for api in CALLS if "MhcSinkhorn" not in api])
def test_both_16_bit_types(api, x):
    check(api, values_of(CALLS[api], x=x))


@pytest.mark.parametrize("n", [6, 8])
@pytest.mark.parametrize("api", [api for api in CALLS if "PreSinkhorn" not in api])
def test_more_streams(api, n):
    check(api, values_of(CALLS[api], n=n))


def test_forms_of_pre():
    check("aclnnMhcPre", values_of(calls.pre, alpha=2))
    check("aclnnMhcPre", values_of(calls.pre, saved=False) | {"gamma": None})
    factorial = {"rows": 32, "h_res": (24,)}
    check("aclnnMhcPre", values_of(calls.pre, **factorial), "ascend910b")
    check("aclnnMhcPreBackward", values_of(calls.backward, **factorial), "ascend910_93")
    check("aclnnMhcPreBackward", values_of(calls.backward, n=3, d=5, lead=(7,)))
    check("aclnnMhcPreBackward", values_of(calls.backward, gamma=False) | {"grad_x_post": None})
    check("aclnnMhcPost", values_of(calls.post, h_res=False, n=3, d=7))
    check("aclnnMhcPostBackward", values_of(calls.post_backward, h_res=False))


def test_gradient_of_a_gamma_that_is_not_given_is_zero():
    values = values_of(calls.backward, gamma=False)
    assert values["grad_gamma"].isnan().all()
    assert c_surface.run("aclnnMhcPreBackward", values) == ""
    assert not values["grad_gamma"].any()


def test_residual_logits_without_residual_part_are_not_written():
    values = values_of(calls.pre, alpha=2) | {"h_res": torch.full((2, 4, 4, 4), 7.0)}
    assert c_surface.run("aclnnMhcPre", values) == ""
    assert values["h_res"].eq(7).all()


def test_two_16_bit_types_in_one_call():
    values = values_of(calls.pre_sinkhorn)
    check("aclnnMhcPreSinkhorn", values | {"hin": values["hin"].half()})
    values = values_of(calls.pre_sinkhorn_backward)
    for name in ("grad_hin", "grad_x"):
        values[name] = values[name].half()
    check("aclnnMhcPreSinkhornBackward", values)


def test_infinite_logits():
    values = values_of(calls.sinkhorn)
    values["h_res"][0, 0, 1, 2] = -math.inf
    values["h_res"][1, 1, 0, 0] = math.inf
    check("aclnnMhcSinkhorn", values)
    assert values["y"][0, 0].isnan().all()
    assert not values["y"][0, 1].isnan().any()


@pytest.mark.parametrize("api", CALLS)
def test_strided_tensors_everywhere(api):
    dense = values_of(CALLS[api])
    spread, rooms = {}, {}
    for name, value in dense.items():
        flat = name in ("norm", "sum", "norm_out", "sum_out")
        if isinstance(value, torch.Tensor) and not flat:
            spread[name], rooms[name] = calls.spread(value)
        else:
            spread[name] = value
    assert c_surface.run(api, dense) == ""
    assert c_surface.run(api, spread) == ""
    for name in outputs(api, dense):
        assert equal(spread[name], dense[name]), name
        if name in rooms:
            assert rooms[name][..., ::2].eq(-7).all(), f"{name} wrote beside its elements"


def test_a_strided_sum_keeps_what_is_not_written():
    values = values_of(calls.sinkhorn)
    values["sum_out"], _ = calls.spread(torch.full_like(values["sum_out"], 5.0))
    assert c_surface.run("aclnnMhcSinkhorn", values) == ""
    assert values["sum_out"][: 2 * 4 * 8].eq(5).all()
    assert values["sum_out"][2 * 4 * 8 :].ne(5).all()


def test_an_output_may_lie_on_an_input():
    want = values_of(calls.post)
    values = copied(want)
    assert c_surface.run("aclnnMhcPost", want) == ""
    device = c_surface.OnDevice(values)
    device.handles["y"], apart = device.handles["x"], device.handles["y"]
    answer, executor = c_surface.prepare("aclnnMhcPost", device.handles)
    workspace = c_surface.malloc(answer.size)
    assert library().aclnnMhcPost(workspace, answer.size, executor, None) == 0, message()
    assert library().aclrtSynchronizeStream(None) == 0
    device.fetch()
    assert torch.equal(values["x"], want["y"])
    device.handles["y"] = apart
    device.release()
    library().aclrtFree(workspace)


def test_float16_helpers():
    for number in range(0x10000):
        value = library().aclFloat16ToFloat(number)
        (expected,) = struct.unpack("e", struct.pack("H", number))
        if math.isnan(expected):
            assert math.isnan(value)
            assert library().aclFloatToFloat16(value) & 0x7FFF > 0x7C00
            continue
        assert struct.pack("f", value) == struct.pack("f", expected)
        assert library().aclFloatToFloat16(value) == number


def test_rounding_to_float16():
    floats = torch.rand(20000, generator=torch.Generator().manual_seed(0)) * 2 - 1
    floats = torch.cat([floats * 2.0**e for e in range(-26, 18, 4)])
    floats = torch.cat([floats, torch.tensor([65519.0, 65520.0, 2.0**-25, 1.5 * 2.0**-24, 0.0])])
    got = [library().aclFloatToFloat16(f) for f in floats.tolist()]
    want = floats.half().view(torch.uint16).tolist()
    assert got == want
