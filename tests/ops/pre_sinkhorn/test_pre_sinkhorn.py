"""Values of mhc_pre_sinkhorn_forward and _backward against the float64 truth."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mhc_ops import mhc_pre_sinkhorn
from mhc_ops.testing import make_pre_inputs
from mhc_ops.types import MhcPreSinkhorn, MhcPreSinkhornForward

from ..rooms import IMPLS
from .cases import OTHER, backward, check_backward, check_forward, forward, saved

# As for pre: 4 streams are the published size, 257 tokens cross a superblock, odd widths a tile.
SHAPES = [(7, 1, 7), (4, 2, 9), (33, 3, 130), (257, 4, 40), (6, 5, 1), (5, 6, 18), (5, 7, 11),
          (3, 8, 24)]  # fmt: skip
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_exact_as_float32(impl, dtype, shape):
    c = make_pre_inputs(*shape, dtype=dtype)
    check_forward(impl, c)
    check_backward(impl, c, saved(c))


@pytest.mark.parametrize("std", [3.0, 6.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_logits_that_tell_orders_apart(impl, dtype, std):
    c = make_pre_inputs(33, 4, 40, dtype=dtype)
    c.alpha[2] = std
    for order in ("columns_last", "rows_last"):
        check_forward(impl, c, order=order)
        check_backward(impl, c, saved(c, order=order), order=order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_every_number_of_the_call_is_used(impl, dtype):
    c = make_pre_inputs(9, 3, 20, dtype=dtype)
    for name, value in {"norm_eps": 0.3, "hc_eps": 0.05, "post_eps": 0.02, **OTHER}.items():
        check_forward(impl, c, **{name: value})
        check_backward(impl, c, saved(c, **{name: value}), **{name: value})
    check_forward(impl, c, **OTHER)
    check_backward(impl, c, saved(c, **OTHER), **OTHER)


@pytest.mark.parametrize("layout", ["TND", "BSND"])
@pytest.mark.parametrize("extras", [(True, False), (False, True), (False, False)], ids=str)
def test_every_form_of_the_arguments(impl, extras, layout):
    gamma, post = extras
    c = make_pre_inputs(6, 4, 18, gamma=gamma, grad_x_post=post, layout=layout, seed=3)
    check_forward(impl, c)
    check_backward(impl, c, saved(c))


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_no_tokens(impl, layout):
    c = make_pre_inputs(0, 4, 16, layout=layout)
    check_forward(impl, c)
    got = backward(impl, c, forward(impl, c))
    assert got.grad_x.shape == c.x.shape
    for name in ("phi", "alpha", "bias", "gamma"):
        assert torch.equal(getattr(got, f"grad_{name}"), torch.zeros_like(getattr(c, name))), name


def test_results_are_named_and_x_is_handed_on(impl):
    c = make_pre_inputs(5, 3, 7)
    out = mhc_pre_sinkhorn(*c.forward_args, impl=impl)
    assert isinstance(out, MhcPreSinkhorn)
    assert out._fields == ("h_in", "h_post", "h_res", "x")
    assert out.x.data_ptr() == c.x.data_ptr()
    fwd = forward(impl, c)
    assert isinstance(fwd, MhcPreSinkhornForward)
    assert (fwd.h_res.sum(-2) - 1).abs().max() < 1e-5


@given(
    tokens=st.integers(0, 40),
    streams=st.integers(1, 9),
    dim=st.integers(1, 70),
    num_iters=st.integers(0, 25),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    gamma=st.booleans(),
    post=st.booleans(),
    seed=st.integers(0, 2**20),
)
@example(33, 7, 65, 20, torch.bfloat16, True, True, 0)
def test_any_shape(tokens, streams, dim, num_iters, dtype, gamma, post, seed):
    c = make_pre_inputs(tokens, streams, dim, dtype=dtype, gamma=gamma, grad_x_post=post, seed=seed)
    fwd = saved(c, num_iters=num_iters)
    for impl in IMPLS:
        check_forward(impl, c, num_iters=num_iters)
        check_backward(impl, c, fwd, num_iters=num_iters)
