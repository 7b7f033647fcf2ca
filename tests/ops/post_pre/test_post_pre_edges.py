"""Values at the edges: NaN and infinity, scratch memory, any shape."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mhc_ops.testing import make_post_pre_inputs, nan_scratch

from ..pre.cases import assert_same_bits
from ..rooms import IMPLS
from . import oracle
from .cases import backward, check_backward, check_forward, forward

PER_TOKEN = ("x", "h_res", "h_out", "h_post", "grad_x_next", "grad_h_in", "grad_h_post_next")


def others(t, token):
    return t[[i for i in range(len(t)) if i != token]]


@pytest.mark.parametrize("where", [*PER_TOKEN, "grad_h_res_next"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_bad_element_stays_in_its_token(impl, dtype, bad, where):
    """And where results of its token are NaN, those of the float64 truth are not finite either."""
    c = make_post_pre_inputs(37, 4, 24, dtype=dtype)
    token = 17
    spoiled = c._replace(**{where: getattr(c, where).clone()})
    getattr(spoiled, where)[token].view(-1)[1] = bad

    def results(case):
        fwd = forward(impl, case)
        return [*fwd, *backward(impl, case, fwd)[:4]]

    got, clean = results(spoiled), results(c)
    for i, (a, b) in enumerate(zip(got, clean, strict=True)):
        assert_same_bits((others(a, token),), (others(b, token),), f"{i} ")
    truth = oracle.backward(spoiled, forward(impl, spoiled))
    assert not any(t.isfinite().all() for t in truth[:1])
    for a, t in zip(got[7:], truth[:4], strict=True):
        assert torch.equal(a[token].isfinite(), t[token].isfinite())


@pytest.mark.parametrize("where", ["grad_x_next", "h_out"])
def test_a_nan_reaches_parameter_gradients(impl, where):
    c = make_post_pre_inputs(300, 4, 24)
    getattr(c, where)[260].view(-1)[5] = float("nan")
    got = backward(impl, c, forward(impl, c))
    assert got.grad_out_bias.isnan().any()
    assert got.grad_phi.isnan().any() == (where == "h_out")


def test_unwritten_scratch_never_reaches_a_result(impl):
    for h_res in (True, False):
        c = make_post_pre_inputs(300, 3, 50, h_res=h_res)
        fwd = forward(impl, c, num_iters=3)
        grads = backward(impl, c, fwd, num_iters=3)
        with nan_scratch():
            assert_same_bits(forward(impl, c, num_iters=3), fwd)
            assert_same_bits(backward(impl, c, fwd, num_iters=3), grads)


def test_logits_of_one_thousand(impl):
    """Gates saturate, and Sinkhorn of such logits stays finite, forward and backward."""
    c = make_post_pre_inputs(20, 4, 24)
    c = c._replace(alpha=1000 * c.alpha)
    fwd = forward(impl, c, num_iters=20)
    for t in (*fwd, *backward(impl, c, fwd, num_iters=20)):
        assert t.isfinite().all()


@given(
    tokens=st.integers(0, 70),
    streams=st.integers(1, 9),
    dim=st.integers(1, 70),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    h_res=st.booleans(),
    gamma=st.booleans(),
    out_bias=st.booleans(),
    grad_x_next=st.booleans(),
    num_iters=st.sampled_from([None, 0, 5]),
    seed=st.integers(0, 2**20),
)
@example(
    tokens=33,
    streams=7,
    dim=65,
    dtype=torch.bfloat16,
    num_iters=5,
    seed=0,
    h_res=True,
    gamma=True,
    out_bias=True,
    grad_x_next=True,
)
def test_any_shape(tokens, streams, dim, dtype, num_iters, seed, **there):
    c = make_post_pre_inputs(tokens, streams, dim, dtype=dtype, seed=seed, **there)
    options = {} if num_iters is None else {"num_iters": num_iters}
    for impl in IMPLS:
        check_backward(impl, c, check_forward(impl, c, **options), **options)
