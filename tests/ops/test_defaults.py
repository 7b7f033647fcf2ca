"""Gradients of calls that leave every option at its default, which the dispatcher then drops."""

import pytest
import torch

from mhc_ops import mhc_post, mhc_post_forward, mhc_pre, mhc_pre_forward
from mhc_ops.testing import make_post_inputs, make_pre_inputs


def identity(function):
    return function


def one_graph(function):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("through", [identity, one_graph])
@pytest.mark.parametrize("door", [mhc_post, mhc_post_forward])
def test_post(door, through):
    c = make_post_inputs(5, 3, 8, dtype=torch.float32, bias=False)
    inputs = [t.clone().requires_grad_() for t in c[:4]]
    want = torch.autograd.grad(mhc_post(*inputs, impl="torch"), inputs, c.grad_out)
    got = torch.autograd.grad(through(door)(*inputs), inputs, c.grad_out)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("through", [identity, one_graph])
@pytest.mark.parametrize("door", [mhc_pre, mhc_pre_forward])
def test_pre(door, through):
    c = make_pre_inputs(5, 3, 8, dtype=torch.float32, gamma=False)
    inputs = [t.clone().requires_grad_() for t in c.forward_args[:4]]
    upstream = (c.grad_h_in, c.grad_h_post, c.grad_h_res)
    want = torch.autograd.grad(mhc_pre(*inputs, impl="torch")[:3], inputs, upstream)
    got = torch.autograd.grad(through(door)(*inputs)[:3], inputs, upstream)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
