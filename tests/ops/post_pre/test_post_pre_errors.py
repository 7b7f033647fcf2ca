"""Every documented error, by its text: operator, argument, expected, received, next step."""

import pytest
import torch

import mhc_ops
from mhc_ops import Convention, mhc_post_pre
from mhc_ops.errors import ArgumentError, DeviceError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import make_post_pre_inputs

from .cases import backward, forward

# argument, replacement, exception, pattern after "OPERATOR: "
WRONG = [
    ("x", lambda c: c.x[0], ShapeError, r"x must be .*\[T, N, D\].*got \[4, 8\]"),
    ("x", lambda c: c.x.int(), DtypeError, r"x must be bfloat16.*got .*int32"),
    ("x", lambda c: None, ArgumentError, r"x must be a tensor, got NoneType"),
    ("h_res", lambda c: c.h_res[:, 0], ShapeError,
     r"h_res must be \[.., N, N\] = \[10, 4, 4\] for x \[10, 4, 8\], got \[10, 4\]"),
    ("h_out", lambda c: c.x, ShapeError, r"h_out must be \[.., D\] = \[10, 8\].*got \[10, 4, 8\]"),
    ("h_out", lambda c: None, ArgumentError, r"h_out must be a tensor, got NoneType"),
    ("h_post", lambda c: c.h_post.bfloat16(), DtypeError, r"h_post must be torch.float32"),
    ("phi", lambda c: c.phi.T, ShapeError, r"phi must be .*it looks transposed"),
    ("alpha", lambda c: c.alpha[:1], ShapeError, r"alpha must be \[3\] .*got \[1\]"),
    ("bias", lambda c: c.bias[:3], ShapeError, r"bias must be \[F\] = \[24\].*got \[3\]"),
    ("bias", lambda c: None, ArgumentError, r"bias must be a tensor, got NoneType"),
    ("gamma", lambda c: c.gamma.T, ShapeError, r"gamma must be \[N, D\] = \[4, 8\].*got \[8, 4\]"),
    ("out_bias", lambda c: c.out_bias[:3], ShapeError, r"out_bias must be \[D\] = \[8\].*\[3\]"),
    ("out_bias", lambda c: c.out_bias.half(), DtypeError, r"out_bias must be .*mixed-precision"),
    ("h_res", lambda c: c.h_res.to("meta"), DeviceError, r"h_res must be on cpu as x, got meta"),
]  # fmt: skip
GRAD = [
    ("grad_x_next", lambda c: c.grad_x_next.float(), DtypeError, r"grad_x_next must be .*bfloat16"),
    ("grad_h_in", lambda c: c.x, ShapeError, r"grad_h_in must be \[.., D\] = \[10, 8\]"),
    ("grad_h_in", lambda c: None, ArgumentError, r"grad_h_in must be a tensor, got NoneType"),
    ("grad_h_post_next", lambda c: c.grad_h_in, ShapeError, r"grad_h_post_next must be .*10, 4"),
    ("grad_h_res_next", lambda c: c.grad_h_post_next, ShapeError, r"grad_h_res_next must be"),
    ("grad_h_res_next", lambda c: None, ArgumentError, r"grad_h_res_next must be a tensor"),
]  # fmt: skip
SAVED = [
    ("x_next", lambda f: f.x_next[:3], ShapeError, r"x_next must be \[.., N, D\] = \[10, 4, 8\]"),
    ("inv_rms", lambda f: f.h_pre, ShapeError, r"inv_rms must be \[..\] = \[10\]"),
    ("h_mix", lambda f: f.h_pre, ShapeError, r"h_mix must be \[.., F\] = \[10, 24\]"),
    ("h_pre", lambda f: None, ArgumentError,
     r"h_pre must be the tensor saved by mhc_post_pre_forward"),
    ("h_post", lambda f: None, ArgumentError, r"h_post_next must be .*pass its h_post"),
]  # fmt: skip
OPTIONS = [
    ({"num_iters": 1001}, r"num_iters must be in 0..1000, got 1001"),
    ({"num_iters": 2.0}, r"num_iters must be an int"),
    ({"num_iters": 2, "eps": 1.0}, r"eps must be in \[0, 1\)"),
    ({"num_iters": 2, "eps_mode": "plus"}, r"eps_mode must be one of"),
    ({"num_iters": 2, "order": "last"}, r"order must be one of"),
    ({"num_iters": 2, "temperature": 0.0}, r"temperature must be positive"),
    ({"eps": 1e-3}, r"eps=0.001 has no effect because num_iters=None .* give num_iters"),
    ({"order": "rows_last"}, r"order='rows_last' has no effect"),
    ({"precision": "tf32"}, r"precision must be one of 'fp32', 'hf32'"),
    ({"hc_eps": float("inf")}, r"hc_eps must be finite"),
    ({"hc_eps": 1e-3, "convention": Convention.liger()}, r"hc_eps=0.001 contradicts"),
    ({"impl": "fast"}, r"impl must be one of .*'fast'"),
]


def ids(table):
    return [f"{row[0]}-{i}" for i, row in enumerate(table)]


@pytest.mark.parametrize(("name", "change", "error", "text"), WRONG, ids=ids(WRONG))
def test_wrong_inputs(impl, name, change, error, text):
    c = make_post_pre_inputs(10, 4, 8)
    fwd = forward(impl, c)
    c = c._replace(**{name: change(c)})
    with pytest.raises(error, match=f"^mhc_post_pre_forward: {text}"):
        forward(impl, c)
    with pytest.raises(error, match=f"^mhc_post_pre: {text}"):
        mhc_post_pre(*c[:8], out_bias=c.out_bias, impl=impl)
    with pytest.raises(error, match=f"^mhc_post_pre_backward: {text}"):
        backward(impl, c, fwd)


@pytest.mark.parametrize(("name", "change", "error", "text"), GRAD, ids=ids(GRAD))
def test_wrong_upstream_gradients(impl, name, change, error, text):
    c = make_post_pre_inputs(10, 4, 8)
    fwd = forward(impl, c)
    with pytest.raises(error, match=f"^mhc_post_pre_backward: {text}"):
        backward(impl, c._replace(**{name: change(c)}), fwd)


@pytest.mark.parametrize(("name", "change", "error", "text"), SAVED, ids=ids(SAVED))
def test_wrong_saved_tensors(impl, name, change, error, text):
    c = make_post_pre_inputs(10, 4, 8)
    fwd = forward(impl, c)
    with pytest.raises(error, match=f"^mhc_post_pre_backward: {text}"):
        backward(impl, c, fwd._replace(**{name: change(fwd)}))


@pytest.mark.parametrize(("options", "text"), OPTIONS, ids=str)
def test_wrong_options(options, text):
    c = make_post_pre_inputs(3, 2, 4)
    fwd = forward("auto", c)
    for run in (forward, lambda impl, c, **o: mhc_post_pre(*c[:8], impl=impl, **o),
                lambda impl, c, **o: backward(impl, c, fwd, **o)):  # fmt: skip
        with pytest.raises(ArgumentError, match=rf"^mhc_post_pre(_forward|_backward)?: {text}"):
            run(**({"impl": "auto", "c": c} | options))


@pytest.mark.parametrize("residual", ["permutation", "none"])
def test_sinkhorn_takes_square_logits(impl, residual):
    c = make_post_pre_inputs(3, 3, 4, residual=residual)
    text = r"num_iters must be None because phi has [06] residual rows.* N\*N = 9; got 4"
    with pytest.raises(ArgumentError, match=f"^mhc_post_pre_forward: {text}"):
        forward(impl, c, num_iters=4)
    with pytest.raises(ArgumentError, match=f"^mhc_post_pre: {text}"):
        mhc_post_pre(*c[:8], num_iters=4, impl=impl)
    with pytest.raises(ArgumentError, match=f"^mhc_post_pre_backward: {text}"):
        backward(impl, c, forward(impl, c), num_iters=4)


@pytest.mark.parametrize("wanted", ["grad_x", ("grad_y",), ("x", "y")])
def test_wrong_wanted(impl, wanted):
    c = make_post_pre_inputs(2, 2, 2)
    with pytest.raises(ArgumentError, match=r"^mhc_post_pre_backward: wanted m"):
        backward(impl, c, forward(impl, c), wanted=wanted)


def test_absent_implementations():
    c = make_post_pre_inputs(2, 2, 2)
    with pytest.raises(UnsupportedError, match=r"^mhc_post_pre_forward: impl='triton' cannot run"):
        forward("triton", c)
    with pytest.raises(UnsupportedError, match=r"^mhc_post_pre_backward: impl='triton' cannot run"):
        backward("triton", c, forward("auto", c))


@pytest.mark.parametrize("name", ["mhc_post_pre", "mhc_post_pre_forward", "mhc_post_pre_backward"])
def test_explain_knows_the_operator(name):
    assert mhc_ops.explain(name, torch.ones(1)).startswith(f"{name}, float32 on cpu: impl='auto'")
