"""`out=`: results land in the caller's tensors, strided ones included."""

import pytest
import torch

from mhc_ops import Convention
from mhc_ops.errors import ArgumentError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS, make_post_pre_inputs

from ..pre.cases import assert_same_bits
from .cases import backward, forward


def poisoned(want):
    return type(want)(*(None if t is None else torch.full_like(t, torch.nan) for t in want))


@pytest.mark.parametrize("layout", [None, *LAYOUTS])
@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("options", [{}, {"num_iters": 3}], ids=str)
def test_results_are_written_and_returned(impl, options, batch, layout):
    c = make_post_pre_inputs(10, 3, 12, batch=batch, gamma=batch is None, out_bias=batch is None)
    fwd = forward(impl, c, **options)
    for run, want in (
        (lambda out: forward(impl, c, out=out, **options), fwd),
        (lambda out: backward(impl, c, fwd, out=out, **options), backward(impl, c, fwd, **options)),
    ):
        out = poisoned(want)
        if layout is not None:
            out = type(want)(*(None if t is None else LAYOUTS[layout](t) for t in out))
        got = run(out)
        assert_same_bits(got, want)
        for given, returned in zip(out, got, strict=True):
            assert given is returned


def test_none_entries_are_allocated(impl):
    c = make_post_pre_inputs(10, 3, 12)
    fwd = forward(impl, c, num_iters=3)
    grads = backward(impl, c, fwd, num_iters=3)
    for place in range(9):
        out = [None if i == place else t for i, t in enumerate(poisoned(grads))]
        assert_same_bits(backward(impl, c, fwd, num_iters=3, out=out), grads)
    for place in range(7):
        out = [None if i == place else t for i, t in enumerate(poisoned(fwd))]
        assert_same_bits(forward(impl, c, num_iters=3, out=out), fwd)


def test_results_may_lie_on_the_inputs(impl):
    """x_next on x, grad_x on grad_x_next: what is still read is not overwritten."""
    c = make_post_pre_inputs(70, 3, 12)
    fwd = forward(impl, c)
    grads = backward(impl, c, fwd)
    own = c._replace(x=c.x.clone())
    got = forward(impl, own, out=(own.x, *(None,) * 6))
    assert got.x_next is own.x
    assert_same_bits(got, fwd)
    own = c._replace(grad_x_next=c.grad_x_next.clone(), h_out=c.h_out.clone())
    out = (own.grad_x_next, None, own.h_out, *(None,) * 6)
    assert_same_bits(backward(impl, own, fwd, out=out), grads)


@pytest.mark.parametrize("num_iters", [None, 20])
def test_rows_to_from_land_in_the_given_h_res(impl, num_iters):
    c = make_post_pre_inputs(10, 3, 12)
    options = {"convention": Convention.liger(), "num_iters": num_iters}
    want = forward(impl, c, **options)
    h_res = torch.full((10, 3, 3), torch.nan)
    got = forward(impl, c, out=(None, None, None, h_res, None, None, None), **options)
    assert_same_bits(got, want)
    assert_same_bits((h_res,), (want.h_res,))


def test_what_does_not_fit_is_refused(impl):
    c = make_post_pre_inputs(10, 3, 12, out_bias=False)
    fwd = forward(impl, c)
    out, grads = poisoned(fwd), poisoned(backward(impl, c, fwd))
    with pytest.raises(ShapeError, match=r"^mhc_post_pre_forward: out.h_res must be \[10, 3, 3\]"):
        forward(impl, c, out=out._replace(h_res=out.h_pre))
    with pytest.raises(ArgumentError, match=r"^mhc_post_pre_forward: out must be a tuple of 7"):
        forward(impl, c, out=out[:6])
    with pytest.raises(ArgumentError, match=r"^mhc_post_pre_backward: out must be a tuple of 9"):
        backward(impl, c, fwd, out=grads[:4])
    with pytest.raises(ArgumentError, match=r"^mhc_post_pre_backward: out.grad_out_bias must be N"):
        backward(impl, c, fwd, out=grads._replace(grad_out_bias=torch.zeros(12)))
    assert all(t.isnan().all() for t in out)


def test_out_and_autograd_exclude_each_other(impl):
    c = make_post_pre_inputs(10, 3, 12)
    fwd = forward(impl, c)
    tracked = c._replace(phi=c.phi.clone().requires_grad_())
    with pytest.raises(UnsupportedError, match=r"^mhc_post_pre_forward: out= does not record"):
        forward(impl, tracked, out=poisoned(fwd))
    with pytest.raises(UnsupportedError, match=r"^mhc_post_pre_backward: out= does not record"):
        backward(impl, tracked, fwd, out=(None,) * 9)
    with torch.no_grad():
        assert_same_bits(forward(impl, tracked, out=poisoned(fwd)), fwd)
