"""Every documented error by its text; `out=`; what explain says."""

import math

import pytest
import torch

import mhc_ops
from mhc_ops import sinkhorn, sinkhorn_backward, sinkhorn_forward
from mhc_ops.errors import ArgumentError, DeviceError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS

from ..pre.cases import assert_same_bits
from .cases import make

LOGITS = [
    (lambda z: None, ArgumentError, r"logits must be a tensor, got NoneType"),
    (lambda z: z[0, 0], ShapeError, r"logits must be \[\.\., N, N\].*got \[4\]"),
    (lambda z: z.flatten(1), ShapeError, r"logits must be .*got \[10, 16\].*unflatten"),
    (lambda z: z[:, :3], ShapeError, r"logits must be .*got \[10, 3, 4\]"),
    (lambda z: z[:, :0, :0], ShapeError, r"logits must have N >= 1, got \[10, 0, 0\]"),
    (lambda z: z.bfloat16(), DtypeError, r"logits must be float32.*bfloat16.*cast"),
    (lambda z: z.half(), DtypeError, r"logits must be float32.*float16.*cast"),
    (lambda z: z.int(), DtypeError, r"logits must be float32.*int32"),
]
OPTIONS = [
    ({"num_iters": -1}, r"num_iters must be in 0\.\.1000, got -1"),
    ({"num_iters": 1001}, r"num_iters must be in 0\.\.1000, got 1001"),
    ({"num_iters": 2.0}, r"num_iters must be an int.*float"),
    ({"num_iters": True}, r"num_iters must be an int.*bool"),
    ({"eps": -1e-6}, r"eps must be in \[0, 1\)"),
    ({"eps": 1.0}, r"eps must be in \[0, 1\)"),
    ({"eps": math.nan}, r"eps must be in \[0, 1\)"),
    ({"eps_mode": "plus"}, r"eps_mode must be one of 'add', 'clamp', 'none', got 'plus'"),
    ({"order": "columns"}, r"order must be one of 'columns_last', 'rows_last', got 'columns'"),
    ({"temperature": 0.0}, r"temperature must be positive"),
    ({"temperature": math.inf}, r"temperature must be positive"),
    ({"temperature": math.nan}, r"temperature must be positive"),
    ({"impl": "fast"}, r"impl must be one of .*'fast'"),
]


@pytest.mark.parametrize("door", [sinkhorn, sinkhorn_forward])
@pytest.mark.parametrize(("change", "error", "text"), LOGITS)
def test_logits(door, change, error, text):
    with pytest.raises(error, match=f"^{door.__name__}: {text}"):
        door(change(make(10, 4)[0]))


@pytest.mark.parametrize(("change", "error", "text"), LOGITS)
def test_logits_of_the_backward(change, error, text):
    with pytest.raises(error, match=f"^sinkhorn_backward: {text}"):
        sinkhorn_backward(change(make(10, 4)[0]), make(10, 4)[1])


@pytest.mark.parametrize(("options", "text"), OPTIONS)
def test_options(options, text):
    logits, grad = make(10, 4)
    for door, args in (
        (sinkhorn, (logits,)), (sinkhorn_forward, (logits,)), (sinkhorn_backward, (logits, grad)),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=f"^{door.__name__}: {text}"):
            door(*args, **options)


def test_upstream_gradients():
    logits, grad = make(10, 4)
    for bad, error, text in (
        (None, ArgumentError, "must be a tensor"),
        (grad[:-1], ShapeError, r"must be \[\.\., N, N\] = \[10, 4, 4\].*got \[9, 4, 4\]"),
        (grad.double(), DtypeError, "must be torch.float32, got torch.float64"),
        (grad.to("meta"), DeviceError, "must be on cpu as logits, got meta"),
    ):
        with pytest.raises(error, match=f"^sinkhorn_backward: grad_h_res {text}"):
            sinkhorn_backward(logits, bad)


def test_a_named_implementation_never_falls_back():
    logits, grad = make(10, 4)
    with pytest.raises(UnsupportedError, match=r"^sinkhorn_forward: impl='triton'"):
        sinkhorn(logits, impl="triton")
    with pytest.raises(UnsupportedError, match=r"^sinkhorn_forward: impl='cpu' cannot run here"):
        sinkhorn(logits.double(), impl="cpu")
    with pytest.raises(UnsupportedError, match=r"^sinkhorn_backward: impl='cpu' cannot run here"):
        sinkhorn_backward(logits.double(), grad.double(), impl="cpu")


@pytest.mark.parametrize("name", ["sinkhorn", "sinkhorn_forward", "sinkhorn_backward"])
def test_explain_agrees_with_auto(name):
    logits, grad = make(10, 4)
    first = mhc_ops.explain(name, logits).splitlines()[0]
    assert first.startswith(f"{name}, float32 on cpu: impl='auto' takes '")
    chosen = first.split("'")[-2]
    assert_same_bits((sinkhorn(logits),), (sinkhorn(logits, impl=chosen),))
    got, want = (sinkhorn_backward(logits, grad, impl=i) for i in ("auto", chosen))
    assert_same_bits((got,), (want,))


def targets(logits, defect=True):
    nan = torch.full_like(logits, math.nan)
    return (nan, *((nan[:, 0, 0].clone(), nan[:, 0, 0].clone()) if defect else (None, None)))


@pytest.mark.parametrize("layout", ["dense", *LAYOUTS])
def test_out(impl, layout):
    logits, grad = make(10, 4)
    view = LAYOUTS.get(layout, lambda t: t)
    out = tuple(view(t) for t in targets(logits))
    got = sinkhorn_forward(logits, return_defect=True, impl=impl, out=out)
    assert all(a is b for a, b in zip(got, out, strict=True))
    assert_same_bits(got, sinkhorn_forward(logits, return_defect=True, impl=impl))
    target = view(targets(logits)[0])
    assert sinkhorn_backward(logits, grad, impl=impl, out=(target,)) is target
    assert_same_bits((target,), (sinkhorn_backward(logits, grad, impl=impl),))


def test_out_entries_may_be_none(impl):
    logits, _ = make(10, 4)
    want = sinkhorn_forward(logits, return_defect=True, impl=impl)
    for place in range(3):
        out = [None if i == place else t for i, t in enumerate(targets(logits))]
        got = sinkhorn_forward(logits, return_defect=True, impl=impl, out=out)
        assert_same_bits(got, want)
    alone = sinkhorn_forward(logits, impl=impl, out=targets(logits, defect=False))
    assert_same_bits(alone, (want.h_res, None, None))


def test_out_that_does_not_fit_is_refused():
    logits, grad = make(10, 4)
    out = targets(logits)
    with pytest.raises(ArgumentError, match=r"sinkhorn_forward: out must be a tuple of 3"):
        sinkhorn_forward(logits, out=out[:1])
    with pytest.raises(ArgumentError, match=r"sinkhorn_forward: out.row_defect must be None"):
        sinkhorn_forward(logits, out=out)
    with pytest.raises(ShapeError, match=r"sinkhorn_backward: out.grad_logits must be \[10, 4, 4"):
        sinkhorn_backward(logits, grad, out=(out[0][:9],))
    with pytest.raises(DtypeError, match=r"sinkhorn_backward: out.grad_logits must be .*float32"):
        sinkhorn_backward(logits, grad, out=(out[0].double(),))
    for leaf in (logits.clone().requires_grad_(),):
        with pytest.raises(UnsupportedError, match=r"sinkhorn_forward: out= does not record"):
            sinkhorn_forward(leaf, out=targets(logits, defect=False))
    for t in out:
        assert t.isnan().all()
