"""Gradients: finite differences, subsets, second derivatives, torch.func; what they save."""

import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from mhc_ops import mhc_pre_sinkhorn
from mhc_ops.errors import UnsupportedError
from mhc_ops.testing import make_pre_inputs

from ..pre.cases import LEAVES, assert_same_bits, leaves
from .cases import OTHER, autograd, backward, chain, forward, fused, oracle_forward, weigh


@pytest.mark.parametrize("tokens", [0, 1, 7, 33])
@pytest.mark.parametrize("streams", [1, 2, 3, 4, 5, 6, 7, 8])
def test_written_backward_equals_autograd_of_the_oracle(impl, streams, tokens):
    for gamma, post in itertools.product((True, False), repeat=2):
        c = make_pre_inputs(
            tokens, streams, 5, dtype=torch.float64, gamma=gamma, grad_x_post=post, seed=tokens
        )
        made = leaves(c)
        out = oracle_forward(tuple(made.values()))
        given = [t for t in made.values() if t is not None]
        upstream = (c.grad_h_in, c.grad_h_post, c.grad_h_res)
        want = list(torch.autograd.grad(out[:3], given, upstream))
        if post:
            want[0] = want[0] + c.grad_x_post
        got = backward(impl, c, forward(impl, c))
        assert (got.grad_gamma is None) == (not gamma)
        for name, a, b in zip(LEAVES, [g for g in got if g is not None], want, strict=False):
            scale = float(b.abs().max()) if b.numel() else 1.0
            assert a.shape == b.shape, name
            assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * max(scale, 1.0)), name


def op_of(impl, **options):
    return lambda *args: tuple(mhc_pre_sinkhorn(*args, impl=impl, **options))


# Each option on its own, since a gradient may miss what its default hides.
@pytest.mark.parametrize("option", [*OTHER, "gates", "none"])
@pytest.mark.parametrize("streams", [1, 2, 3, 4])
def test_gradcheck(impl, streams, option):
    options = {option: OTHER[option]} if option in OTHER else {}
    if option == "gates":
        options = {"norm_eps": 0.3, "hc_eps": 0.05, "post_eps": 0.02}
    if option == "none":
        options = {"eps_mode": "none", "num_iters": 3}
    c = make_pre_inputs(2, streams, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        op_of(impl, **options), tuple(leaves(c).values()), fast_mode=True
    )


def test_gradcheck_entry_by_entry(impl):
    c = make_pre_inputs(2, 3, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(op_of(impl, **OTHER), tuple(leaves(c).values()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_each_subset_of_inputs_gets_exactly_its_gradients(impl, dtype):
    c = make_pre_inputs(9, 3, 10, dtype=dtype)
    every = autograd(fused(impl), c)
    assert_same_bits(tuple(every.values()), backward(impl, c, forward(impl, c)))
    for size in range(1, len(LEAVES)):
        for needed in itertools.combinations(LEAVES, size):
            got = autograd(fused(impl), c, needed)
            assert set(got) == set(needed)
            for name in needed:
                assert_same_bits((got[name],), (every[name],), f"{needed} {name} ")


def or_unsupported(impl, run):
    """Run it; only a named implementation other than the reference may refuse, with a next step."""
    refusal = ""
    try:
        return run()
    except UnsupportedError as error:
        refusal = str(error)
    assert impl != "reference"
    assert "reference" in refusal
    return None


@pytest.mark.parametrize("options", [{"num_iters": 3}, {**OTHER, "num_iters": 2}], ids=str)
def test_double_backward(impl, options):
    c = make_pre_inputs(2, 2, 3, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(op_of(impl, **options), tuple(leaves(c).values()))


def test_a_gradient_penalty_equals_autograd_of_the_oracle(impl):
    """Wrong if saved tensors were constants: h_res's gradient reaches x through them as well."""
    c = make_pre_inputs(5, 3, 4, dtype=torch.float64)

    def penalty(run):
        made = leaves(c)
        h_in, h_res, x = run(made)
        upstream = (c.grad_h_in, c.grad_h_res)
        (inner,) = torch.autograd.grad((h_in, h_res), made["x"], upstream, create_graph=True)
        loss = inner.square().sum() + (x * c.grad_x_post).sum() + (h_res * c.grad_h_res).sum()
        return torch.autograd.grad(loss, list(made.values()))

    def of_operator(made):
        out = mhc_pre_sinkhorn(**made, impl=impl)
        return out.h_in, out.h_res, out.x

    def of_oracle(made):
        out = oracle_forward(tuple(made.values()))
        return out.h_in, out.h_res, made["x"]

    for name, a, b in zip(LEAVES, penalty(of_operator), penalty(of_oracle), strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10), name


# torch's own forward-mode rules still use torch.jit.script.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_is_right_or_refused(impl):
    c = make_pre_inputs(3, 2, 4, dtype=torch.float64)
    args = c.forward_args
    ways = tuple(torch.randn_like(t) for t in args)

    def run(fn):
        return torch.func.jvp(fn, args, ways)[1]

    got = or_unsupported(impl, lambda: run(op_of(impl)))
    if got is not None:
        want = run(lambda *a: (*tuple(oracle_forward(a))[:3], a[0]))
        for a, b in zip(got, want, strict=True):
            assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)


def test_functional_grad(impl):
    c = make_pre_inputs(3, 2, 4, dtype=torch.float64)

    def loss(*args):
        outputs, upstream = weigh(mhc_pre_sinkhorn(*args, impl=impl), c)
        return sum((o * g).sum() for o, g in zip(outputs, upstream, strict=True))

    got = torch.func.grad(loss, argnums=tuple(range(5)))(*c.forward_args)
    for name, a, b in zip(LEAVES, got, autograd(fused(impl), c).values(), strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12), name


def test_vmap(impl):
    """Over the batch of x, and over a parameter."""
    c = make_pre_inputs(6, 2, 4, layout="BSND", dtype=torch.float64)
    got = torch.func.vmap(lambda x: op_of(impl)(x, *c.forward_args[1:]))(c.x)
    for a, b in zip(got, mhc_pre_sinkhorn(*c.forward_args, impl=impl), strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)
    gains = torch.stack([c.alpha, 2 * c.alpha])

    def one(alpha):
        return op_of(impl)(c.x, c.phi, alpha, c.bias, c.gamma)

    got = torch.func.vmap(one)(gains)
    for i, alpha in enumerate(gains):
        for a, b in zip(got, one(alpha), strict=True):
            assert torch.allclose(a[i], b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_saved_for_backward(impl, layout):
    """Beside x and the parameters: inv_rms, h_mix, h_pre, h_post. No logits, no iterates."""
    c = make_pre_inputs(64, 4, 256, layout=layout)
    made = leaves(c)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        out = mhc_pre_sinkhorn(**made, impl=impl)
    assert out.h_in.requires_grad
    owned = {t.untyped_storage().data_ptr() for t in made.values()}
    extra = {}
    for t in packed:
        storage = t.untyped_storage()
        if storage.data_ptr() not in owned:
            extra[storage.data_ptr()] = storage.nbytes()
    tokens, n, f = 64, 4, 24
    assert sum(extra.values()) <= 4 * tokens * (1 + f + 2 * n)


def test_recomputing_the_forward_gives_the_same_bits(impl):
    c = make_pre_inputs(33, 3, 20)
    again = autograd(lambda *a: checkpoint(fused(impl), *a, use_reentrant=False), c)
    assert_same_bits(tuple(again.values()), tuple(autograd(fused(impl), c).values()))


def test_strided_upstream_gradients(impl):
    """Autograd hands over whatever layout it has: here expanded, from sum()."""
    c = make_pre_inputs(6, 3, 5)
    made = leaves(c)
    out = mhc_pre_sinkhorn(**made, impl=impl)
    total = out.h_in.sum() + out.h_res.sum() + out.x.sum()
    got = torch.autograd.grad(total, list(made.values()))
    ones = c._replace(
        grad_h_in=torch.ones_like(c.grad_h_in),
        grad_h_post=torch.zeros_like(c.grad_h_post),
        grad_h_res=torch.ones_like(c.grad_h_res),
        grad_x_post=torch.ones_like(c.grad_x_post),
    )
    assert_same_bits(got, backward(impl, ones, forward(impl, c)))


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_nothing(impl, target):
    c = make_pre_inputs(33, 4, 24)
    want, grads = mhc_pre_sinkhorn(*c.forward_args, impl=impl), autograd(fused(impl), c)
    with torch.autocast("cpu", dtype=target):
        assert_same_bits(mhc_pre_sinkhorn(*c.forward_args, impl=impl), want)
        inside = autograd(fused(impl), c)
        bare = backward(impl, c, forward(impl, c))
    assert_same_bits(tuple(inside.values()), tuple(grads.values()))
    assert_same_bits(bare, tuple(grads.values()))


def test_flops_are_those_of_the_chain(impl):
    c = make_pre_inputs(10, 4, 16)

    def count(run, needed):
        made = leaves(c, needed)
        with FlopCounterMode(display=False) as counter:
            out = run(*made.values())
            forward_flops = counter.get_total_flops()
            upstream = (c.grad_h_in, c.grad_h_res)
            torch.autograd.grad((out.h_in, out.h_res), [made[name] for name in needed], upstream)
        return forward_flops, counter.get_total_flops()

    for needed in (LEAVES, ("x",), ("alpha", "gamma")):
        got = count(fused(impl, num_iters=7), needed)
        assert got == count(lambda *a: chain(*a, impl=impl, num_iters=7), needed)
        assert got[1] > got[0] > 2 * 10 * 24 * 64
