"""Gradients: finite differences for every option, higher orders, torch.func, what is saved."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mhc_ops import sinkhorn, sinkhorn_backward
from mhc_ops.errors import UnsupportedError

from ..pre.cases import assert_same_bits
from . import oracle
from .cases import MODES, ORDERS, make, normal


def double(tokens, n, std=1.0, seed=0):
    return normal(tokens, n, n, std=std, seed=seed, dtype=torch.float64).requires_grad_()


# fast_mode checks one random direction of the whole Jacobian; entry by entry for N = 3 below.
@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("std", [1.0, 3.0, 6.0])
def test_gradcheck(impl, std, n):
    assert torch.autograd.gradcheck(
        lambda z: sinkhorn(z, impl=impl), double(3, n, std), fast_mode=True
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
@pytest.mark.parametrize("num_iters", [0, 1, 2, 7])
def test_gradcheck_entry_by_entry(impl, num_iters, eps_mode, order):
    options = {"num_iters": num_iters, "eps_mode": eps_mode, "order": order, "temperature": 1.7}
    for eps in (1e-6, 0.3):
        assert torch.autograd.gradcheck(
            lambda z, e=eps: sinkhorn(z, eps=e, impl=impl, **options), double(2, 3, 3.0)
        )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
def test_double_backward(impl, eps_mode, order):
    def op(z):
        return sinkhorn(z, num_iters=3, eps=0.1, eps_mode=eps_mode, order=order, impl=impl)

    assert torch.autograd.gradgradcheck(op, double(2, 3))


def test_a_gradient_penalty_equals_autograd_of_the_oracle(impl):
    grad = make(5, 4, dtype=torch.float64)[1]

    def penalty(run):
        z = double(5, 4, 2.0)
        (inner,) = torch.autograd.grad(run(z), z, grad, create_graph=True)
        return torch.autograd.grad(inner.square().sum(), z)[0]

    want = penalty(oracle.forward)
    assert torch.allclose(penalty(lambda z: sinkhorn(z, impl=impl)), want, rtol=1e-10, atol=1e-12)


def test_the_differentiable_function_runs_the_bare_operator(impl):
    logits, grad = make(33, 4, 2.0)
    leaf = logits.clone().requires_grad_()
    h_res, row_defect, column_defect = sinkhorn(leaf, return_defect=True, impl=impl)
    assert not row_defect.requires_grad
    assert not column_defect.requires_grad
    (got,) = torch.autograd.grad(h_res, leaf, grad)
    assert_same_bits((got,), (sinkhorn_backward(logits, grad, impl=impl),))


def test_nothing_but_the_logits_is_saved(impl):
    leaf = make(64, 4)[0].requires_grad_()
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        sinkhorn(leaf, impl=impl)
    assert [t.data_ptr() for t in packed] == [leaf.data_ptr()]


def test_strided_upstream_gradients(impl):
    logits, grad = make(6, 4)
    leaf = logits.clone().requires_grad_()
    h_res = sinkhorn(leaf, impl=impl)
    (got,) = torch.autograd.grad(h_res[:, 0].sum() + (h_res * grad.mT.contiguous().mT).sum(), leaf)
    row = torch.zeros_like(grad)
    row[:, 0] = 1
    torch.testing.assert_close(got, sinkhorn_backward(logits, grad + row, impl=impl))


def test_functional_transforms(impl):
    z, grad = make(4, 3, dtype=torch.float64)

    def loss(t):
        return (sinkhorn(t, impl=impl) * grad).sum()

    assert torch.allclose(torch.func.grad(loss)(z), oracle.backward(z, grad), atol=1e-13)
    mapped = torch.func.vmap(lambda t: sinkhorn(t, impl=impl))(z)
    assert torch.allclose(mapped, oracle.forward(z), atol=1e-13)
    each = torch.func.vmap(torch.func.grad(lambda t, g: (sinkhorn(t, impl=impl) * g).sum()))
    assert torch.allclose(each(z, grad), oracle.backward(z, grad), atol=1e-13)


# torch's own forward-mode rules still use torch.jit.script.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_is_right_or_refused(impl):
    z, way = make(3, 3, dtype=torch.float64)
    if impl != "reference":
        with pytest.raises(UnsupportedError, match="reference"):
            torch.func.jvp(lambda t: sinkhorn(t, impl=impl), (z,), (way,))
        return
    got = torch.func.jvp(lambda t: sinkhorn(t, impl=impl), (z,), (way,))[1]
    want = torch.func.jvp(oracle.forward, (z,), (way,))[1]
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-12)


def test_flops_are_counted_by_formula(impl):
    """39 steps on [4, 4] entries a token: 2 flops each, and 5 for the gradient."""
    leaf = make(10, 4)[0].requires_grad_()
    entries = 10 * 16 * 39
    with FlopCounterMode(display=False) as counter:
        h_res = sinkhorn(leaf, impl=impl)
        assert counter.get_total_flops() == 2 * entries
        h_res.square().sum().backward()
    assert counter.get_total_flops() == 7 * entries


@pytest.mark.long
@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
def test_gradcheck_of_every_entry(impl, eps_mode, order, n):
    for std in (1.0, 3.0, 6.0):
        options = {"eps_mode": eps_mode, "order": order, "impl": impl}
        assert torch.autograd.gradcheck(lambda z, o=options: sinkhorn(z, **o), double(2, n, std))
