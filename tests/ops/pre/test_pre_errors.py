"""Every documented error, by its text: operator, argument, expected, received, next step."""

import re

import pytest
import torch

from mhc_ops import Convention, mhc_pre, mhc_pre_backward, mhc_pre_forward
from mhc_ops.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    ShapeError,
    UnsupportedError,
)
from mhc_ops.testing import make_pre_inputs

from .cases import backward, backward_args, forward, saved


def case(**changes):
    made = make_pre_inputs(10, 4, 8)
    return made._replace(**{k: v(made) if callable(v) else v for k, v in changes.items()})


# argument, replacement, exception, pattern after "mhc_pre_forward: "
FORWARD = [
    ("x", lambda c: c.x[0], ShapeError, r"x must be .*\[T, N, D\].*got \[4, 8\]"),
    ("x", lambda c: c.x[None, None], ShapeError, r"x must be .*got \[1, 1, 10, 4, 8\]"),
    ("x", lambda c: c.x.int(), DtypeError, r"x must be .*bfloat16.*float32.*got .*int32"),
    ("x", lambda c: c.x[:, :0], ShapeError, r"x .*N.*got \[10, 0, 8\]"),
    ("x", lambda c: c.x[..., :0], ShapeError, r"x .*D.*got \[10, 4, 0\]"),
    ("phi", lambda c: c.phi.T, ShapeError, r"phi must be .*\[24, 32\].*got \[32, 24\].*transposed"),
    ("phi", lambda c: c.phi[0], ShapeError, r"phi must be .*got \[32\]"),
    ("phi", lambda c: c.phi[:, :-1], ShapeError, r"phi must be .*got \[24, 31\]"),
    ("phi", lambda c: c.phi[:-1], ShapeError, r"phi must be .*got \[23, 32\]"),
    ("phi", lambda c: c.phi.bfloat16(), DtypeError, r"phi must be torch.float32.*bfloat16.*mixed"),
    ("phi", lambda c: c.phi.double(), DtypeError, r"phi must be torch.float32.*float64"),
    ("alpha", lambda c: c.alpha[:1], ShapeError, r"alpha must .*3.*got \[1\]"),
    ("alpha", lambda c: c.alpha[:2], ShapeError, r"(alpha|phi) must .*"),
    ("alpha", lambda c: c.alpha[0], ShapeError, r"alpha must .*got \[\]"),
    ("alpha", lambda c: c.alpha.half(), DtypeError, r"alpha must be torch.float32.*float16"),
    ("bias", lambda c: c.bias[:-1], ShapeError, r"bias must be \[F\] = \[24\].*got \[23\]"),
    ("bias", lambda c: c.bias.bfloat16(), DtypeError, r"bias must be torch.float32.*bfloat16"),
    ("gamma", lambda c: c.gamma.flatten(), ShapeError,
     r"gamma must be \[N, D\] = \[4, 8\].*got \[32\]"),
    ("gamma", lambda c: c.gamma.T, ShapeError, r"gamma must be \[N, D\] = \[4, 8\].*got \[8, 4\]"),
    ("gamma", lambda c: c.gamma.bfloat16(), DtypeError, r"gamma must be torch.float32.*bfloat16"),
]  # fmt: skip

BACKWARD = [
    ("x", lambda c: c.x[0], ShapeError, r"x must be .*got \[4, 8\]"),
    ("phi", lambda c: c.phi.T, ShapeError, r"phi must be .*got \[32, 24\].*transposed"),
    ("phi", lambda c: c.phi.bfloat16(), DtypeError, r"phi must be torch.float32.*bfloat16.*mixed"),
    ("alpha", lambda c: c.alpha[:1], ShapeError, r"alpha must .*got \[1\]"),
    ("gamma", lambda c: c.gamma[:-1], ShapeError, r"gamma must be .*got \[3, 8\]"),
    ("grad_h_in", lambda c: c.grad_h_in[:-1], ShapeError,
     r"grad_h_in must be .*\[10, 8\].*got \[9, 8\]"),
    ("grad_h_in", lambda c: c.grad_h_in.float(), DtypeError, r"grad_h_in must .*bfloat16.*float32"),
    ("grad_h_post", lambda c: c.grad_h_post[:, :-1], ShapeError,
     r"grad_h_post must be .*\[10, 4\].*got \[10, 3\]"),
    ("grad_h_post", lambda c: c.grad_h_post.bfloat16(), DtypeError,
     r"grad_h_post must be torch.float32"),
    ("grad_h_res", lambda c: c.grad_h_res.flatten(1), ShapeError,
     r"grad_h_res must be .*\[10, 4, 4\].*got \[10, 16\]"),
    ("grad_h_res", None, ArgumentError, r"grad_h_res "),
    ("grad_x_post", lambda c: c.grad_x_post[0], ShapeError, r"grad_x_post must be .*got \[4, 8\]"),
    ("grad_x_post", lambda c: c.grad_x_post.float(), DtypeError,
     r"grad_x_post must .*bfloat16.*float32"),
]  # fmt: skip

SAVED = [
    ("inv_rms", lambda t: t[:, None], ShapeError, r"inv_rms must be .*\[10\].*got \[10, 1\]"),
    ("h_mix", lambda t: t[:, :-1], ShapeError, r"h_mix must be .*\[10, 24\].*got \[10, 23\]"),
    ("h_pre", lambda t: t[:-1], ShapeError, r"h_pre must be .*\[10, 4\].*got \[9, 4\]"),
    ("h_post", lambda t: t.T, ShapeError, r"h_post must be .*\[10, 4\].*got \[4, 10\]"),
    ("h_mix", lambda t: t.bfloat16(), DtypeError, r"h_mix must be torch.float32.*bfloat16"),
    ("h_post", lambda t: t.double(), DtypeError, r"h_post must be torch.float32.*float64"),
]


def ids(rows):
    return [f"{i}-{row[0]}" for i, row in enumerate(rows)]


@pytest.mark.parametrize("door", [mhc_pre, mhc_pre_forward])
@pytest.mark.parametrize(("name", "change", "error", "text"), FORWARD, ids=ids(FORWARD))
def test_forward_arguments(door, name, change, error, text):
    c = case(**{name: change})
    with pytest.raises(error, match=rf"^{door.__name__}: {text}"):
        door(*c.forward_args)


@pytest.mark.parametrize(("name", "change", "error", "text"), BACKWARD, ids=ids(BACKWARD))
def test_backward_arguments(impl, name, change, error, text):
    fwd = saved(case())
    with pytest.raises(error, match=f"^mhc_pre_backward: {text}"):
        backward(impl, case(**{name: change}), fwd)


@pytest.mark.parametrize(("name", "change", "error", "text"), SAVED, ids=ids(SAVED))
def test_saved_tensors(impl, name, change, error, text):
    fwd = saved(case())
    with pytest.raises(error, match=f"^mhc_pre_backward: {text}"):
        backward(impl, case(), fwd._replace(**{name: change(getattr(fwd, name))}))


@pytest.mark.parametrize("name", ["inv_rms", "h_mix", "h_pre", "h_post"])
def test_missing_saved_tensors_say_where_they_come_from(impl, name):
    fwd = saved(case())._replace(**{name: None})
    with pytest.raises(ArgumentError, match=f"^mhc_pre_backward: {name} .*mhc_pre_forward"):
        backward(impl, case(), fwd)


@pytest.mark.parametrize("name", ["x", "phi", "alpha", "bias"])
def test_missing_inputs(name):
    with pytest.raises(ArgumentError, match=f"^mhc_pre_forward: {name} must be a .*ensor.*None"):
        forward("auto", case(**{name: None}))


@pytest.mark.parametrize("name", ["phi", "alpha", "bias", "gamma"])
def test_devices_differ(name):
    c = case(**{name: lambda c: getattr(c, name).to("meta")})
    text = f"^mhc_pre_forward: {name} must be on .*cpu.*meta"
    with pytest.raises(DeviceError, match=text):
        mhc_pre_forward(*c.forward_args)


@pytest.mark.parametrize("name", ["grad_h_in", "grad_h_res", "grad_x_post"])
def test_devices_of_gradients_differ(impl, name):
    c = case(**{name: lambda c: getattr(c, name).to("meta")})
    with pytest.raises(DeviceError, match=f"^mhc_pre_backward: {name} must be on .*cpu.*meta"):
        backward(impl, c, saved(case()))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"impl": "fast"}, r"impl .*(auto|reference).*torch.*'fast'"),
        ({"precision": "tf32"}, r"precision must .*fp32.*hf32.*'tf32'"),
    ],
)
def test_options(options, text):
    with pytest.raises(ArgumentError, match=f"^mhc_pre_forward: {text}"):
        mhc_pre_forward(*case().forward_args, **options)


@pytest.mark.parametrize("wanted", [("grad_y",), ("grad_phi", "beta"), "grad_x,grad_phi"])
def test_unknown_gradient_names(impl, wanted):
    with pytest.raises(ArgumentError, match=r"^mhc_pre_backward: wanted .*grad_x"):
        backward(impl, case(), saved(case()), wanted=wanted)


def test_wanting_the_gradient_of_an_absent_gamma(impl):
    c = make_pre_inputs(5, 3, 7, gamma=False)
    fwd = saved(c)
    try:
        got = backward(impl, c, fwd, wanted=("grad_gamma",))
    except ArgumentError as error:
        refusal = str(error)
    else:
        assert tuple(got) == (None,) * 5
        return
    assert "gamma" in refusal


def test_an_implementation_named_by_the_user_never_falls_back():
    """No GPU here: triton is refused, with what to type instead."""
    if torch.cuda.is_available():
        pytest.skip("triton can serve this machine")
    with pytest.raises(UnsupportedError, match=r"^mhc_pre_forward: .*triton"):
        mhc_pre_forward(*case().forward_args, impl="triton")


def test_errors_are_one_sentence_and_value_errors():
    c = case(phi=lambda c: c.phi.T)
    with pytest.raises(ValueError, match="phi") as caught:
        mhc_pre_backward(
            *(c.x, c.phi, c.alpha, c.grad_h_in, c.grad_h_post, c.grad_h_res), None, None, None, None
        )
    text = str(caught.value)
    assert "\n" not in text
    assert re.search(r"\[24, 32\]", text)


def test_grad_h_res_without_residual_rows(impl):
    c = make_pre_inputs(5, 3, 7, residual="none")
    fwd = saved(c)
    c = c._replace(grad_h_res=torch.zeros(5, 3, 3))
    with pytest.raises(ArgumentError, match=r"^mhc_pre_backward: grad_h_res"):
        backward(impl, c, fwd)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"norm_eps": "a"}, "norm_eps must be a number, got str"),
        ({"hc_eps": None}, "hc_eps must be a number, got NoneType"),
        ({"convention": "megatron"}, r"convention must be a Convention, such as .*megatron\(\)"),
        ({"convention": Convention}, "convention must be a Convention"),
    ],
)
def test_numbers_and_conventions_of_the_wrong_type(options, text):
    with pytest.raises(ArgumentError, match=f"^mhc_pre_forward: {text}"):
        mhc_pre_forward(*make_pre_inputs(2, 2, 4).forward_args, **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x", -1.0])
def test_a_convention_checks_its_numbers(value):
    with pytest.raises(ArgumentError, match=r"^Convention: norm_eps must"):
        Convention(norm_eps=value)


@pytest.mark.parametrize("needs_grad", [True, False])
def test_lists_and_sparse_tensors_get_a_sentence(needs_grad):
    c = make_pre_inputs(2, 2, 4)
    x, phi, *rest = c.forward_args
    x.requires_grad_(needs_grad)
    with pytest.raises(ArgumentError, match=r"^mhc_pre_forward: phi must be a tensor, got list"):
        mhc_pre_forward(x, phi.tolist(), *rest)
    with pytest.raises(ArgumentError, match=r"^mhc_pre_forward: phi must be a dense tensor"):
        mhc_pre_forward(x, phi.to_sparse(), *rest)


def test_wanted_must_be_a_collection():
    c = make_pre_inputs(2, 2, 4)
    for wanted in (3, "grad_x"):
        with pytest.raises(ArgumentError, match=r"^mhc_pre_backward: wanted must be a collection"):
            mhc_pre_backward(*backward_args(c, saved(c)), wanted=wanted)
