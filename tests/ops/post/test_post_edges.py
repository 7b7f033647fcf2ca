"""Values at the edges: NaN and infinity, subnormals, scratch memory, any shape."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mhc_ops.testing import make_post_inputs, nan_scratch

from ..pre.cases import assert_same_bits
from ..rooms import IMPLS
from . import oracle
from .cases import backward, check_backward, check_forward, forward


def others(t, token):
    return t[[i for i in range(len(t)) if i != token]]


@pytest.mark.parametrize("where", ["x", "h_res", "h_out", "h_post", "grad_out"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_bad_element_stays_in_its_token(impl, dtype, bad, where):
    """And where it is not finite, the truth is not finite either."""
    c = make_post_inputs(37, 4, 24, dtype=dtype, bias=False)
    token = 17
    spoiled = c._replace(**{where: getattr(c, where).clone()})
    getattr(spoiled, where)[token].view(-1)[1] = bad
    got = [forward(impl, spoiled), *backward(impl, spoiled)[:4]]
    clean = [forward(impl, c), *backward(impl, c)[:4]]
    truth = [oracle.forward(*spoiled[:5]), *oracle.backward(*spoiled.backward_args)[:4]]
    for name, a, b, t in zip(("out", "x", "h_res", "h_out", "h_post"), got, clean, truth,
                             strict=True):  # fmt: skip
        assert_same_bits((others(a, token),), (others(b, token),), f"{name} ")
        assert torch.equal(a[token].isnan(), t[token].isnan()), name
        assert torch.equal(a[token].isfinite(), t[token].isfinite()), name
    assert any(not t[token].isfinite().all() for t in truth)


def test_a_nan_reaches_the_bias_gradient_in_its_column_alone(impl):
    c = make_post_inputs(300, 4, 24)
    want = backward(impl, c).grad_bias
    c.grad_out[260, 1, 5] = float("nan")
    got = backward(impl, c).grad_bias
    assert got[5].isnan()
    keep = [d for d in range(24) if d != 5]
    assert_same_bits((got[keep],), (want[keep],))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_subnormals_are_kept(impl, dtype):
    """x and grad_out hold the smallest subnormals (bit patterns 1 to 100), moved by ones."""
    c = make_post_inputs(16, 4, 24, dtype=dtype, bias=False)
    tiny = (torch.arange(c.x.numel()) % 100 + 1).to(torch.int16).view(dtype).reshape(c.x.shape)
    swap = torch.eye(4).flip(0).expand(16, 4, 4)
    zero = torch.zeros_like(c.h_post)
    c = c._replace(x=tiny, grad_out=tiny, h_res=swap, h_post=zero)
    assert_same_bits((forward(impl, c),), (tiny.flip(1),))
    assert_same_bits((backward(impl, c).grad_x,), (tiny.flip(1),))
    bare = c._replace(h_res=None)
    assert_same_bits((forward(impl, bare),), (tiny,))


def test_overflow_on_rounding_is_infinite_as_the_truth(impl):
    """fp16 sums past 65504 become infinity (no saturation)."""
    c = make_post_inputs(3, 4, 8, dtype=torch.float16, bias=False)
    c = c._replace(x=torch.full_like(c.x, 60000.0), h_res=torch.ones_like(c.h_res))
    assert forward(impl, c).isposinf().all()


def test_unwritten_scratch_never_reaches_a_result(impl):
    for h_res in (True, False):
        c = make_post_inputs(300, 3, 50, h_res=h_res)
        out, grads = forward(impl, c), backward(impl, c)
        with nan_scratch():
            assert_same_bits((forward(impl, c),), (out,))
            assert_same_bits(backward(impl, c), grads)


@given(
    tokens=st.integers(0, 40),
    streams=st.integers(1, 9),
    dim=st.integers(1, 70),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    h_res=st.booleans(),
    bias=st.booleans(),
    seed=st.integers(0, 2**20),
)
@example(33, 7, 65, torch.bfloat16, True, True, 0)
def test_any_shape(tokens, streams, dim, dtype, h_res, bias, seed):
    c = make_post_inputs(tokens, streams, dim, dtype=dtype, h_res=h_res, bias=bias, seed=seed)
    for impl in IMPLS:
        check_forward(impl, c)
        check_backward(impl, c)
