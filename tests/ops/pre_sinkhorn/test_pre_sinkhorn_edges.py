"""NaN and infinity, zero rows, huge logits, unused iterations; out=; every documented error."""

import math

import pytest
import torch

from mhc_ops import (
    Convention,
    explain,
    mhc_pre_sinkhorn,
    mhc_pre_sinkhorn_backward,
    mhc_pre_sinkhorn_forward,
)
from mhc_ops.errors import ArgumentError, DeviceError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS, make_pre_inputs, poisoned_pre_backward, poisoned_pre_forward

from ..pre.cases import PER_TOKEN, assert_same_bits
from .cases import backward, backward_args, check_backward, check_forward, forward, saved


def others(result, token):
    return result[[t for t in range(len(result)) if t != token]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_bad_element_of_x_stays_in_its_token(impl, dtype, bad):
    c = make_pre_inputs(37, 4, 24, dtype=dtype)
    token = 17
    spoiled = c._replace(x=c.x.clone())
    spoiled.x[token, 2, 5] = bad
    clean, got = forward(impl, c), forward(impl, spoiled)
    for name in PER_TOKEN:
        a, b = getattr(got, name), getattr(clean, name)
        assert_same_bits((others(a, token),), (others(b, token),), f"{name} ")
    assert got.h_res[token].isnan().all()
    a, b = backward(impl, spoiled, got), backward(impl, c, clean)
    assert_same_bits((others(a.grad_x, token),), (others(b.grad_x, token),), "grad_x ")
    assert a.grad_x[token].isnan().all()


@pytest.mark.parametrize("where", ["grad_h_in", "grad_h_post", "grad_h_res", "grad_x_post"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_upstream_gradient_stays_in_its_token(impl, bad, where):
    c = make_pre_inputs(37, 4, 24)
    fwd = saved(c)
    spoiled = c._replace(**{where: getattr(c, where).clone()})
    getattr(spoiled, where)[11].view(-1)[1] = bad
    a, b = backward(impl, spoiled, fwd), backward(impl, c, fwd)
    assert_same_bits((others(a.grad_x, 11),), (others(b.grad_x, 11),))
    assert not a.grad_x[11].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_zero_rows(impl, dtype):
    c = make_pre_inputs(9, 4, 24, dtype=dtype)
    c.x[4] = 0
    for norm_eps in (1e-6, 1e-30):
        check_forward(impl, c, norm_eps=norm_eps)
        fwd = forward(impl, c, norm_eps=norm_eps)
        for name, grad in backward(impl, c, fwd)._asdict().items():
            assert grad.isfinite().all(), name
        check_backward(impl, c, fwd)


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("eps_mode", ["add", "clamp"])
def test_logits_of_1e4_stay_finite(impl, eps_mode, size):
    c = make_pre_inputs(9, 4, 24)
    c = c._replace(alpha=c.alpha * size)
    fwd = forward(impl, c, eps_mode=eps_mode)
    assert fwd.h_res.isfinite().all()
    for name, grad in backward(impl, c, fwd, eps_mode=eps_mode)._asdict().items():
        assert grad.isfinite().all(), name


def subject(direction, impl, c):
    """The call under test as a function of its options, and a NaN-filled `out` for it."""
    if direction == "forward":
        return lambda **options: forward(impl, c, **options), poisoned_pre_forward(c)
    fwd = saved(c)
    return lambda **options: backward(impl, c, fwd, **options), poisoned_pre_backward(c)


DIRECTIONS = pytest.mark.parametrize("direction", ["forward", "backward"])


@DIRECTIONS
@pytest.mark.parametrize("layout", ["dense", *LAYOUTS])
def test_results_are_written_and_returned(impl, direction, layout):
    c = make_pre_inputs(10, 3, 12)
    call, out = subject(direction, impl, c)
    if layout != "dense":
        out = type(out)(*(LAYOUTS[layout](t) for t in out))
    got = call(out=out)
    for given, returned in zip(out, got, strict=True):
        assert given is returned
    assert_same_bits(got, call())


@DIRECTIONS
def test_none_entries_of_out_are_allocated(impl, direction):
    c = make_pre_inputs(10, 3, 12)
    want = subject(direction, impl, c)[0]()
    for place in range(len(want)):
        call, out = subject(direction, impl, c)
        out = tuple(None if i == place else t for i, t in enumerate(out))
        got = call(out=out)
        assert_same_bits(got, want)
        assert all(g is t for g, t in zip(got, out, strict=True) if t is not None)


@DIRECTIONS
def test_targets_that_do_not_fit_are_refused(impl, direction):
    c = make_pre_inputs(10, 3, 12)
    call, out = subject(direction, impl, c)
    name = f"mhc_pre_sinkhorn_{direction}"
    with pytest.raises(ArgumentError, match=f"^{name}: out must be a tuple"):
        call(out=tuple(out)[:-1])
    with pytest.raises(ShapeError, match=rf"^{name}: out\.{out._fields[0]} must be .*got \[11, "):
        call(out=out._replace(**{out._fields[0]: out[0].new_empty((11, *out[0].shape[1:]))}))
    with pytest.raises(DtypeError, match=rf"^{name}: out\.{out._fields[-1]} must be .*float16"):
        call(out=out._replace(**{out._fields[-1]: out[-1].half()}))
    for given in out:
        assert given.isnan().all()


def test_targets_on_inputs_get_the_right_values(impl):
    c = make_pre_inputs(600, 4, 24)
    fwd = forward(impl, c)
    want = backward(impl, c, fwd)
    for place, target in enumerate(("x", "phi", "alpha", "bias", "gamma")):
        d = c.map(torch.clone)
        out = [None] * 5
        out[place] = getattr(d, target)
        assert_same_bits(backward(impl, d, fwd, out=tuple(out)), want, f"{target} ")
    d = c.map(torch.clone)
    got = forward(impl, d, out=(None, None, d.grad_h_res, None, None, None))
    assert got.h_res is d.grad_h_res
    assert_same_bits(got, fwd)


def test_out_does_not_meet_autograd(impl):
    c = make_pre_inputs(10, 3, 12)
    c.bias.requires_grad_()
    for direction in ("forward", "backward"):
        call, out = subject(direction, impl, c._replace(bias=c.bias))
        with pytest.raises(UnsupportedError, match=f"^mhc_pre_sinkhorn_{direction}: out= does not"):
            call(out=type(out)(*(t.detach() for t in out)))


DOORS = [mhc_pre_sinkhorn, mhc_pre_sinkhorn_forward]


@pytest.mark.parametrize("door", DOORS)
def test_forms_without_sinkhorn_are_refused(door):
    c = make_pre_inputs(5, 3, 8, residual="none")
    with pytest.raises(ArgumentError, match=rf"^{door.__name__}: alpha must be \[3\].*use mhc_pre"):
        door(*c.forward_args)
    c = make_pre_inputs(5, 3, 8, residual="permutation")
    text = rf"^{door.__name__}: phi must have 2N \+ N\*N = 15 rows, got 12 .*permutation_mix"
    with pytest.raises(ArgumentError, match=text):
        door(*c.forward_args)


@pytest.mark.parametrize("residual", ["none", "permutation"])
def test_forms_without_sinkhorn_are_refused_by_the_backward(residual):
    c = make_pre_inputs(5, 3, 8, residual=residual)
    fwd = saved(make_pre_inputs(5, 3, 8))
    with pytest.raises(ArgumentError, match=r"^mhc_pre_sinkhorn_backward: (alpha|phi) must .*use"):
        backward("auto", c, fwd)


ARGUMENTS = [
    ("x", lambda t: t[0], ShapeError, r"x must be .*got \[4, 8\]"),
    ("phi", lambda t: t.T, ShapeError, r"phi must be .*looks transposed"),
    ("phi", lambda t: t.bfloat16(), DtypeError, r"phi must be torch.float32.*mixed"),
    ("alpha", lambda t: t[:1], ShapeError, r"alpha must .*got \[1\]"),
    ("bias", lambda t: t[:-1], ShapeError, r"bias must be \[F\] = \[24\].*got \[23\]"),
    ("gamma", lambda t: t.T, ShapeError, r"gamma must be \[N, D\].*got \[8, 4\]"),
    ("bias", lambda t: t.to("meta"), DeviceError, r"bias must be on cpu"),
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "change", "error", "text"), ARGUMENTS)
def test_forward_arguments(door, name, change, error, text):
    c = make_pre_inputs(10, 4, 8)
    c = c._replace(**{name: change(getattr(c, name))})
    with pytest.raises(error, match=f"^{door.__name__}: {text}"):
        door(*c.forward_args)


UPSTREAM = [
    ("grad_h_in", lambda t: t.float(), DtypeError, r"grad_h_in must .*bfloat16"),
    ("grad_h_res", lambda t: t.flatten(1), ShapeError, r"grad_h_res must be .*got \[10, 16\]"),
    ("grad_h_res", lambda t: None, ArgumentError, r"grad_h_res must be a tensor"),
    ("grad_h_post", lambda t: None, ArgumentError, r"grad_h_post must be a tensor"),
    ("grad_x_post", lambda t: t[0], ShapeError, r"grad_x_post must be .*got \[4, 8\]"),
]


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize(
    ("name", "change", "error", "text"), ARGUMENTS + UPSTREAM, ids=lambda v: str(v)[:12]
)
def test_backward_arguments(impl, name, change, error, text, recording):
    c = make_pre_inputs(10, 4, 8)
    fwd = saved(c)
    c.phi.requires_grad_(recording)
    c = c._replace(**{name: change(getattr(c, name))})
    with pytest.raises(error, match=f"^mhc_pre_sinkhorn_backward: {text}"):
        backward(impl, c, fwd)


@pytest.mark.parametrize("name", ["inv_rms", "h_mix", "h_pre", "h_post"])
def test_missing_saved_tensors_say_where_they_come_from(impl, name):
    c = make_pre_inputs(10, 4, 8)
    with pytest.raises(
        ArgumentError, match=f"{name} .*saved by mhc_pre_sinkhorn_forward, got None"
    ):
        backward(impl, c, saved(c)._replace(**{name: None}))


def test_one_stream_keeps_the_square_form(impl):
    c = make_pre_inputs(5, 1, 12)
    assert forward(impl, c).h_res.shape == (5, 1, 1)
    with pytest.raises(ShapeError, match=r"grad_h_res must be \[\.\., N, N\] = \[5, 1, 1\]"):
        backward(impl, c._replace(grad_h_res=c.grad_h_res[..., 0]), saved(c))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"impl": "fast"}, "impl must be one of .*'fast'"),
        ({"precision": "tf32"}, "precision must be one of .*'tf32'"),
        ({"hc_eps": "a"}, "hc_eps must be a number, got str"),
        ({"num_iters": 1001}, r"num_iters must be in 0\.\.1000"),
        ({"eps": 1.0}, r"eps must be in \[0, 1\)"),
        ({"eps_mode": "plus"}, "eps_mode must be one of"),
        ({"order": "columns"}, "order must be one of"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"convention": "liger"}, "convention must be a Convention"),
        ({"convention": Convention.liger(), "num_iters": 3}, "num_iters=3 contradicts"),
        ({"convention": Convention.liger(), "hc_eps": 0.5}, "hc_eps=0.5 contradicts"),
    ],
    ids=lambda v: str(v)[:24],
)
def test_options(options, text):
    c = make_pre_inputs(3, 3, 4)
    for door in DOORS:
        with pytest.raises(ArgumentError, match=f"^{door.__name__}: {text}"):
            door(*c.forward_args, **options)
    with pytest.raises(ArgumentError, match=f"^mhc_pre_sinkhorn_backward: {text}"):
        mhc_pre_sinkhorn_backward(*backward_args(c, saved(c)), **options)


def test_wanted_names_gradients():
    c = make_pre_inputs(3, 3, 4)
    with pytest.raises(ArgumentError, match=r"^mhc_pre_sinkhorn_backward: wanted .*grad_x"):
        backward("auto", c, saved(c), wanted=("grad_y",))


def test_explain_and_implementations_named_by_the_user():
    c = make_pre_inputs(3, 3, 4)
    for name in ("mhc_pre_sinkhorn", "mhc_pre_sinkhorn_forward", "mhc_pre_sinkhorn_backward"):
        assert explain(name, *c.forward_args).startswith(f"{name}, bfloat16 on cpu: impl='auto'")
    if not torch.cuda.is_available():
        with pytest.raises(UnsupportedError, match=r"^mhc_pre_sinkhorn_forward: .*triton"):
            forward("triton", c)
