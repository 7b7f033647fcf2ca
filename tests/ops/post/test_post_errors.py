"""Every documented error, by its text: operator, argument, expected, received, next step."""

import pytest
import torch

import mhc_ops
from mhc_ops import mhc_post
from mhc_ops.errors import ArgumentError, DeviceError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import make_post_inputs

from .cases import backward, forward

# argument, replacement, exception, pattern after "OPERATOR: "
WRONG = [
    ("x", lambda c: c.x[0], ShapeError, r"x must be .*\[T, N, D\].*got \[4, 8\]"),
    ("x", lambda c: c.x[:, :0], ShapeError, r"x must have N >= 1 and D >= 1, got \[10, 0, 8\]"),
    ("x", lambda c: c.x.int(), DtypeError, r"x must be bfloat16.*got .*int32"),
    ("x", lambda c: None, ArgumentError, r"x must be a tensor, got NoneType"),
    ("h_res", lambda c: c.h_res[:, 0], ShapeError,
     r"h_res must be \[.., N, N\] = \[10, 4, 4\] for x \[10, 4, 8\], got \[10, 4\]"),
    ("h_res", lambda c: c.h_res.bfloat16(), DtypeError, r"h_res must be torch.float32.*bfloat16"),
    ("h_out", lambda c: c.x, ShapeError, r"h_out must be \[.., D\] = \[10, 8\].*got \[10, 4, 8\]"),
    ("h_out", lambda c: c.h_out.float(), DtypeError, r"h_out must be torch.bfloat16.*float32"),
    ("h_out", lambda c: None, ArgumentError, r"h_out must be a tensor, got NoneType"),
    ("h_post", lambda c: c.h_post[:, :3], ShapeError, r"h_post must be .*\[10, 4\].*\[10, 3\]"),
    ("h_post", lambda c: c.h_post.bfloat16(), DtypeError, r"h_post must be torch.float32"),
    ("bias", lambda c: c.bias[:3], ShapeError, r"bias must be \[D\] = \[8\].*got \[3\]"),
    ("bias", lambda c: c.bias.bfloat16(), DtypeError, r"bias must be torch.float32.*mixed-prec"),
    ("h_res", lambda c: c.h_res.to("meta"), DeviceError, r"h_res must be on cpu as x, got meta"),
    ("h_post", lambda c: c.h_post.to("meta"), DeviceError, r"h_post must be on cpu as x, got meta"),
]  # fmt: skip
GRAD = [
    ("grad_out", lambda c: c.h_out, ShapeError, r"grad_out must be .*\[10, 4, 8\].*got \[10, 8\]"),
    ("grad_out", lambda c: c.x.float(), DtypeError, r"grad_out must be torch.bfloat16.*float32"),
    ("grad_out", lambda c: None, ArgumentError, r"grad_out must be a tensor, got NoneType"),
]


def ids(table):
    return [f"{row[0]}-{i}" for i, row in enumerate(table)]


@pytest.mark.parametrize(("name", "change", "error", "text"), WRONG, ids=ids(WRONG))
def test_wrong_inputs(impl, name, change, error, text):
    c = make_post_inputs(10, 4, 8)
    c = c._replace(**{name: change(c)})
    with pytest.raises(error, match=f"^mhc_post_forward: {text}"):
        forward(impl, c)
    with pytest.raises(error, match=f"^mhc_post: {text}"):
        mhc_post(*c.forward_args, bias=c.bias, impl=impl)
    with pytest.raises(error, match=f"^mhc_post_backward: {text}"):
        backward(impl, c)


@pytest.mark.parametrize(("name", "change", "error", "text"), GRAD, ids=ids(GRAD))
def test_wrong_upstream_gradients(impl, name, change, error, text):
    c = make_post_inputs(10, 4, 8)
    with pytest.raises(error, match=f"^mhc_post_backward: {text}"):
        backward(impl, c._replace(**{name: change(c)}))


@pytest.mark.parametrize("wanted", ["grad_x", ("grad_phi",), ("x", "y")])
def test_wrong_wanted(impl, wanted):
    with pytest.raises(ArgumentError, match=r"^mhc_post_backward: wanted m"):
        backward(impl, make_post_inputs(2, 2, 2), wanted=wanted)


def test_unknown_and_absent_implementations():
    c = make_post_inputs(2, 2, 2)
    with pytest.raises(ArgumentError, match=r"^mhc_post_forward: impl must be one of .*'fast'"):
        forward("fast", c)
    with pytest.raises(UnsupportedError, match=r"^mhc_post_forward: impl='triton' cannot run here"):
        forward("triton", c)
    with pytest.raises(UnsupportedError, match=r"^mhc_post_backward: impl='triton' cannot run"):
        backward("triton", c)


@pytest.mark.parametrize("name", ["mhc_post", "mhc_post_forward", "mhc_post_backward"])
def test_explain_knows_the_operator(name):
    assert mhc_ops.explain(name, torch.ones(1)).startswith(f"{name}, float32 on cpu: impl='auto'")
