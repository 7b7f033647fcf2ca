"""Calls that may not go straight to a kernel: what the dispatcher does for them still happens."""

import pytest
import torch

from mhc_ops import (
    mhc_post_backward,
    mhc_post_forward,
    mhc_pre,
    mhc_pre_forward,
    permutation_mix,
    sinkhorn,
)
from mhc_ops.errors import UnsupportedError
from mhc_ops.testing import make_pre_inputs

from ..pre.cases import assert_same_bits
from ..rooms import IMPLS, named


@pytest.fixture(params=IMPLS)
def impl(request):
    return named(request)


def calls(impl, x, logits):
    """Each operator's result from a lazily built x [T, N, D] or logits [T, 24] or [T, 4, 4]."""
    c = make_pre_inputs(5, 4, 8, dtype=torch.float32)
    gates, matrix = c.grad_h_post, c.grad_h_res
    yield mhc_pre_forward(x, *c.forward_args[1:], impl=impl)
    yield mhc_pre(x, *c.forward_args[1:], impl=impl)[:3]
    yield (mhc_post_forward(x, matrix, c.grad_h_in, gates, impl=impl),)
    yield mhc_post_backward(x, x, matrix, c.grad_h_in, gates, impl=impl)[:4]
    yield (permutation_mix(logits, impl=impl),)
    yield (sinkhorn(logits[:, :16].unflatten(1, (4, 4)), impl=impl),)


def test_lazily_negated_tensors(impl):
    """Their memory holds the opposite of their values."""
    c = make_pre_inputs(5, 4, 8, dtype=torch.float32)
    logits = torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    lazy = [torch._neg_view(-t) for t in (c.x, logits)]
    assert all(t.is_neg() for t in lazy)
    for got, want in zip(calls(impl, *lazy), calls(impl, c.x, logits), strict=True):
        assert_same_bits(got, want)
    with pytest.raises(UnsupportedError, match=r"^mhc_pre_forward: out= reads no lazily negated"):
        mhc_pre_forward(lazy[0], *c.forward_args[1:], impl=impl, out=(None,) * 6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_trace_records_the_operator(impl):
    c = make_pre_inputs(5, 4, 8, dtype=torch.float32)

    def gate(x):
        return mhc_pre_forward(x, *c.forward_args[1:], impl=impl).h_in

    program = torch.jit.trace(gate, (c.x,))
    assert_same_bits((program(2 * c.x),), (gate(2 * c.x),))
