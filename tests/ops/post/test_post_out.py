"""`out=`: results land in the caller's tensors, strided ones included."""

import pytest
import torch

from mhc_ops.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS, make_post_inputs
from mhc_ops.types import MhcPostBackward

from ..pre.cases import assert_same_bits
from .cases import backward, forward


def poisoned(c):
    """NaN-filled targets of both directions."""
    n, small = c.x.shape[-2], c.h_post.new_full
    grads = MhcPostBackward(
        torch.full_like(c.x, torch.nan),
        small((*c.h_post.shape, n), torch.nan),
        torch.full_like(c.h_out, torch.nan),
        small(c.h_post.shape, torch.nan),
        None if c.bias is None else small(c.bias.shape, torch.nan),
    )
    return torch.full_like(c.x, torch.nan), grads


@pytest.mark.parametrize("layout", [None, *LAYOUTS])
@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("extras", [(True, True), (False, False)], ids=str)
def test_results_are_written_and_returned(impl, extras, batch, layout):
    c = make_post_inputs(10, 3, 12, h_res=extras[0], bias=extras[1], batch=batch)
    out, grads = poisoned(c)
    if layout is not None:
        view = LAYOUTS[layout]
        out, grads = view(out), MhcPostBackward(*(None if g is None else view(g) for g in grads))
    assert forward(impl, c, out=out) is out
    assert_same_bits((out,), (forward(impl, c),))
    got = backward(impl, c, out=grads)
    for given, returned in zip(grads, got, strict=True):
        assert given is returned
    assert_same_bits(got, backward(impl, c))


def test_none_entries_are_allocated(impl):
    c = make_post_inputs(10, 3, 12)
    want = backward(impl, c)
    for place in range(5):
        _, grads = poisoned(c)
        given = tuple(None if i == place else g for i, g in enumerate(grads))
        assert_same_bits(backward(impl, c, out=given), want)


def test_what_does_not_fit_is_refused(impl):
    c = make_post_inputs(10, 3, 12)
    out, grads = poisoned(c)
    with pytest.raises(ShapeError, match=r"^mhc_post_forward: out must be \[10, 3, 12\], got"):
        forward(impl, c, out=out[:9])
    with pytest.raises(DtypeError, match=r"^mhc_post_forward: out must be .*bfloat16, got .*float"):
        forward(impl, c, out=out.float())
    with pytest.raises(ArgumentError, match=r"^mhc_post_forward: out must be a tensor, got tuple"):
        forward(impl, c, out=(out,))
    with pytest.raises(
        ArgumentError, match=r"^mhc_post_backward: out must be a tuple of 5 entries"
    ):
        backward(impl, c, out=grads[:4])
    with pytest.raises(ShapeError, match=r"^mhc_post_backward: out.grad_h_res must be \[10, 3, 3"):
        backward(impl, c, out=grads._replace(grad_h_res=grads.grad_h_post))
    bare = c._replace(bias=None)
    with pytest.raises(ArgumentError, match=r"^mhc_post_backward: out.grad_bias must be None"):
        backward(impl, bare, out=grads)
    with pytest.raises(ArgumentError, match=r"^mhc_post_backward: out.grad_x must be None"):
        backward(impl, c, out=grads, wanted=("bias",))
    assert out.isnan().all()
    assert all(g.isnan().all() for g in grads)


def test_out_and_autograd_exclude_each_other(impl):
    c = make_post_inputs(10, 3, 12)
    out, grads = poisoned(c)
    tracked = c._replace(h_post=c.h_post.clone().requires_grad_())
    with pytest.raises(
        UnsupportedError, match=r"^mhc_post_forward: out= does not record gradients"
    ):
        forward(impl, tracked, out=out)
    with pytest.raises(UnsupportedError, match=r"^mhc_post_backward: out= does not record"):
        backward(impl, tracked, out=grads)
    with torch.no_grad():
        assert_same_bits((forward(impl, tracked, out=out),), (forward(impl, c),))
