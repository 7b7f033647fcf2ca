"""Gradients: the written backward against autograd, finite differences, subsets, higher order."""

import itertools

import pytest
import torch

from mhc_ops import mhc_post
from mhc_ops.errors import UnsupportedError
from mhc_ops.testing import make_post_inputs

from ..pre.cases import assert_same_bits
from . import oracle
from .cases import GRADIENTS, LEAVES, autograd, backward, call, leaves

FORMS = [(n, h_res, bias) for n in (1, 2, 3, 4, 8) for h_res in (True, False) for bias in (True, 0)]


def functional(c, impl):
    """mhc_post of the tensors that are there, for gradcheck; and fresh leaves for it."""
    made = {name: t for name, t in leaves(c).items() if t is not None}

    def op(*args):
        given = dict.fromkeys(LEAVES) | dict(zip(made, args, strict=True))
        return call(given, impl)

    return op, tuple(made.values())


@pytest.mark.parametrize("tokens", [0, 1, 33])
@pytest.mark.parametrize(("streams", "h_res", "bias"), FORMS)
def test_written_backward_equals_autograd_of_the_forward(impl, streams, h_res, bias, tokens):
    c = make_post_inputs(tokens, streams, 5, dtype=torch.float64, h_res=h_res, bias=bool(bias))
    made = {name: t for name, t in leaves(c).items() if t is not None}
    out = oracle.forward(**(dict.fromkeys(LEAVES) | made))
    want = torch.autograd.grad(out, list(made.values()), c.grad_out)
    got = backward(impl, c)
    for name, b in zip(made, want, strict=True):
        torch.testing.assert_close(getattr(got, f"grad_{name}"), b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("streams", "h_res", "bias"), FORMS)
def test_gradcheck_entry_by_entry(impl, streams, h_res, bias):
    c = make_post_inputs(2, streams, 3, dtype=torch.float64, h_res=h_res, bias=bool(bias))
    assert torch.autograd.gradcheck(*functional(c, impl))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("h_res", [True, False])
def test_gradgradcheck(impl, h_res, bias):
    c = make_post_inputs(2, 2, 3, dtype=torch.float64, h_res=h_res, bias=bias)
    assert torch.autograd.gradgradcheck(*functional(c, impl))


def test_finite_differences_of_the_bare_backward(impl):
    """mhc_post_backward is differentiable itself, with its own written-out derivative."""
    c = make_post_inputs(2, 2, 3, dtype=torch.float64)
    args = [t.clone().requires_grad_() for t in c.backward_args]
    assert torch.autograd.gradcheck(lambda *a: tuple(torch.ops.mhc.post_backward(*a, impl)), args)


@pytest.mark.parametrize("h_res", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_each_subset_of_inputs_gets_exactly_its_gradients(impl, dtype, h_res):
    c = make_post_inputs(9, 3, 10, dtype=dtype, h_res=h_res)
    names = [name for name in LEAVES if getattr(c, name) is not None]
    every, bare = autograd(impl, c, names), backward(impl, c)
    for name in names:
        assert_same_bits((every[name],), (getattr(bare, f"grad_{name}"),), name)
    for size in range(1, len(names)):
        for needed in itertools.combinations(names, size):
            got = autograd(impl, c, needed)
            made = leaves(c, needed)
            call(made, impl).backward(c.grad_out)
            for name in names:
                assert (made[name].grad is not None) == (name in needed), (needed, name)
            for name in needed:
                assert_same_bits((got[name],), (every[name],), f"{needed} {name} ")


@pytest.mark.parametrize("h_res", [True, False])
def test_wanted_computes_what_it_names_and_nothing_else(impl, h_res):
    c = make_post_inputs(300, 4, 24, h_res=h_res)
    every = backward(impl, c)
    for size in range(len(LEAVES) + 1):
        for needed in itertools.combinations(LEAVES, size):
            got = backward(impl, c, wanted=tuple(f"grad_{name}" for name in needed))
            want = [g if f in needed else None for f, g in zip(LEAVES, every, strict=True)]
            assert_same_bits(got, want, f"{needed} ")
    short = backward(impl, c, wanted=("x", "bias"))
    assert_same_bits(short, (every.grad_x, None, None, None, every.grad_bias))


def test_gradients_have_the_dtypes_and_shapes_of_their_inputs(impl):
    c = make_post_inputs(4, 3, 5, batch=2)
    for name, grad in autograd(impl, c).items():
        given = getattr(c, name)
        assert (grad.dtype, grad.shape) == (given.dtype, given.shape), name


def test_a_gradient_penalty_equals_autograd_of_the_oracle(impl):
    c = make_post_inputs(5, 3, 4, dtype=torch.float64)

    def penalty(run):
        made = leaves(c)
        sources = [made["x"], made["h_out"]]
        inner = torch.autograd.grad(run(made), sources, c.grad_out, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in inner), [made["h_res"]])

    got = penalty(lambda m: call(m, impl))
    want = penalty(lambda m: oracle.forward(**m))
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


# torch's own forward-mode rules still use torch.jit.script.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_is_right_or_refused(impl):
    c = make_post_inputs(3, 2, 4, dtype=torch.float64)
    args = c[:5]
    ways = tuple(torch.randn_like(t) for t in args)

    def op(*a):
        return mhc_post(*a[:4], bias=a[4], impl=impl)

    refusal = ""
    try:
        got = torch.func.jvp(op, args, ways)[1]
    except UnsupportedError as error:
        refusal = str(error)
    else:
        want = torch.func.jvp(oracle.forward, args, ways)[1]
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
        return
    assert impl != "reference"
    assert "impl='auto' or 'reference'" in refusal


def test_functional_grad_and_vmap(impl):
    c = make_post_inputs(6, 2, 4, dtype=torch.float64, batch=2)

    def loss(x, h_res, h_out, h_post, bias):
        return (mhc_post(x, h_res, h_out, h_post, bias=bias, impl=impl) * c.grad_out).sum()

    got = torch.func.grad(loss, argnums=tuple(range(5)))(*c[:5])
    for name, a, b in zip(LEAVES, got, autograd(impl, c).values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=name)

    def one(x, h_res, h_out, h_post):
        return mhc_post(x, h_res, h_out, h_post, bias=c.bias, impl=impl)

    mapped = torch.func.vmap(one)(*c[:4])
    torch.testing.assert_close(mapped, one(*c[:4]), rtol=1e-12, atol=1e-12)

    def row_loss(x, grad, *rest):
        return (one(x, *rest) * grad).sum()

    rows = torch.func.vmap(torch.func.grad(row_loss))(c.x, c.grad_out, *c[1:4])
    torch.testing.assert_close(rows, autograd(impl, c)["x"], rtol=1e-12, atol=1e-12)


def test_autocast_changes_nothing(impl):
    c = make_post_inputs(9, 4, 24)
    want, grads = forward_and_gradients(impl, c)
    with torch.autocast("cpu", dtype=torch.float16):
        got, inside = forward_and_gradients(impl, c)
    assert_same_bits((got,), (want,))
    assert_same_bits(inside, grads)


def forward_and_gradients(impl, c):
    made = leaves(c)
    out = call(made, impl)
    return out.detach(), torch.autograd.grad(out, list(made.values()), c.grad_out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_saved_for_backward_are_the_inputs_alone(impl, dtype):
    made = leaves(make_post_inputs(9, 4, 24, dtype=dtype))
    owned = {t.untyped_storage().data_ptr() for t in made.values()}
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        call(made, impl)
    assert packed
    assert {t.untyped_storage().data_ptr() for t in packed} <= owned


def test_strided_upstream_gradients(impl):
    """Autograd hands over whatever layout it has, such as the expanded one of sum()."""
    c = make_post_inputs(6, 3, 5)
    made = leaves(c)
    got = torch.autograd.grad(call(made, impl).sum(), list(made.values()))
    assert_same_bits(got, backward(impl, c._replace(grad_out=torch.ones_like(c.x))))


def test_names_of_the_gradients():
    assert GRADIENTS == ("grad_x", "grad_h_res", "grad_h_out", "grad_h_post", "grad_bias")
    assert backward("auto", make_post_inputs(2, 2, 2))._fields == GRADIENTS
