"""Gradients: the written backward against autograd, finite differences, subsets, higher order."""

import itertools

import pytest
import torch

from mhc_ops import mhc_pre, mhc_pre_forward
from mhc_ops.errors import UnsupportedError
from mhc_ops.testing import make_pre_inputs

from . import oracle
from .cases import LEAVES, PARAMETERS, assert_same_bits, autograd, backward, forward, leaves, weigh

# N! rows only up to N = 5 (6! = 720 rows say nothing new); every pair of tokens and width is odd.
FORMS = [
    (n, residual)
    for n in (1, 2, 3, 4, 5, 6, 8)
    for residual in ("matrix", "permutation", "none")
    if residual != "permutation" or 1 < n <= 5
]


@pytest.mark.parametrize("tokens", [0, 1, 7, 33])
@pytest.mark.parametrize(("streams", "residual"), FORMS)
def test_written_backward_equals_autograd_of_the_forward(impl, streams, residual, tokens):
    """With and without gamma and grad_x_post; the truth is autograd of the oracle's forward."""
    for gamma, post in itertools.product((True, False), repeat=2):
        c = make_pre_inputs(
            tokens, streams, 5, residual=residual, dtype=torch.float64, gamma=gamma,
            grad_x_post=post, seed=tokens + streams,
        )  # fmt: skip
        made = leaves(c)
        args = [made[name] for name in LEAVES]
        out = oracle.forward(*args)
        pairs = [(out.h_in, c.grad_h_in), (out.h_post, c.grad_h_post)]
        pairs += [] if out.h_res is None else [(out.h_res, c.grad_h_res)]
        outputs, upstream = zip(*pairs, strict=True)
        given = [t for t in args if t is not None]
        want = list(torch.autograd.grad(outputs, given, upstream))
        if post:
            want[0] = want[0] + c.grad_x_post
        got = backward(impl, c, forward(impl, c))
        assert (got.grad_gamma is None) == (not gamma)
        found = [g for g in got if g is not None]
        for name, a, b in zip(LEAVES, found, want, strict=False):
            scale = float(b.abs().max()) if b.numel() else 1.0
            assert a.shape == b.shape, name
            assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * max(scale, 1.0)), name


def gradcheck(impl, c, **options):
    made = [t for t in leaves(c).values() if t is not None]

    def op(*args):
        return tuple(t for t in mhc_pre(*args, impl=impl) if t is not None)

    return torch.autograd.gradcheck(op, made, **options)


# fast_mode checks one random direction of the whole Jacobian; `test_gradcheck_entry_by_entry` and
# the long suite check each entry.
@pytest.mark.parametrize(("streams", "residual"), FORMS)
def test_gradcheck(impl, streams, residual):
    for gamma in (True, False):
        c = make_pre_inputs(3, streams, 3, residual=residual, dtype=torch.float64, gamma=gamma)
        assert gradcheck(impl, c, fast_mode=True)


@pytest.mark.parametrize("residual", ["matrix", "none"])
def test_gradcheck_entry_by_entry(impl, residual):
    assert gradcheck(impl, make_pre_inputs(2, 2, 3, residual=residual, dtype=torch.float64))


@pytest.mark.parametrize("residual", ["matrix", "none"])
def test_finite_differences_of_the_bare_operators(impl, residual):
    """Central differences of a random weighting of the outputs, one direction a tensor."""
    c = make_pre_inputs(4, 4, 6, residual=residual, dtype=torch.float64, grad_x_post=False, seed=7)

    def loss(*args):
        out = mhc_pre_forward(*args, impl=impl)
        total = (out.h_in * c.grad_h_in).sum() + (out.h_post * c.grad_h_post).sum()
        return total if out.h_res is None else total + (out.h_res * c.grad_h_res).sum()

    got = backward(impl, c, forward(impl, c))
    step = 1e-5
    for place, (name, grad) in enumerate(zip(LEAVES, got, strict=True)):
        generator = torch.Generator().manual_seed(place)
        way = torch.randn(grad.shape, generator=generator, dtype=torch.float64)
        ends = []
        for sign in (1, -1):
            moved = list(c.forward_args)
            moved[place] = moved[place] + sign * step * way
            ends.append(loss(*moved))
        slope = float(ends[0] - ends[1]) / (2 * step)
        # The error of central differences here is step^2 times a third derivative of order 100.
        assert abs(slope - float((grad * way).sum())) <= 1e-7 * max(1.0, abs(slope)), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_each_subset_of_inputs_gets_exactly_its_gradients(impl, dtype):
    c = make_pre_inputs(9, 3, 10, dtype=dtype)
    every = autograd(impl, c)
    bare = backward(impl, c, forward(impl, c))
    assert_same_bits(tuple(every.values()), bare)
    for size in range(1, len(LEAVES)):
        for needed in itertools.combinations(LEAVES, size):
            got = autograd(impl, c, needed)
            assert set(got) == set(needed)
            for name in needed:
                assert_same_bits((got[name],), (every[name],), f"{needed} {name} ")


def test_wanted_computes_what_it_names_and_nothing_else(impl):
    c = make_pre_inputs(40, 4, 24)
    fwd = forward(impl, c)
    every = backward(impl, c, fwd)
    for size in range(len(LEAVES) + 1):
        for needed in itertools.combinations(LEAVES, size):
            got = backward(impl, c, fwd, wanted=tuple(f"grad_{name}" for name in needed))
            want = [g if f in needed else None for f, g in zip(LEAVES, every, strict=True)]
            assert_same_bits(got, want, f"{needed} ")
    short = backward(impl, c, fwd, wanted=("x", "gamma"))
    assert_same_bits(short, (every.grad_x, None, None, None, every.grad_gamma))


def test_gradients_have_the_dtypes_and_shapes_of_their_inputs(impl):
    c = make_pre_inputs(4, 3, 5, layout="BSND")
    for name, grad in autograd(impl, c).items():
        given = getattr(c, name)
        assert (grad.dtype, grad.shape) == (given.dtype, given.shape), name


@pytest.mark.parametrize("used", ["h_in", "h_post", "h_res_logits", "x"])
def test_one_output_alone_reaches_every_input(impl, used):
    """Gradients of the outputs that a loss leaves out count as zeros."""
    c = make_pre_inputs(5, 3, 7, dtype=torch.float64)
    made = leaves(c)
    out = getattr(mhc_pre(**made, impl=impl), used)
    generator = torch.Generator().manual_seed(0)
    upstream = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    got = torch.autograd.grad(out, list(made.values()), upstream, allow_unused=True)

    made = leaves(c)
    truth = oracle.forward(*made.values())
    alone = {"h_in": truth.h_in, "h_post": truth.h_post, "h_res_logits": truth.h_res}
    target = alone.get(used, made["x"] * 1)
    want = torch.autograd.grad(target, list(made.values()), upstream, allow_unused=True)
    for name, a, b in zip(LEAVES, got, want, strict=True):
        a = torch.zeros_like(made[name]) if a is None else a
        b = torch.zeros_like(made[name]) if b is None else b
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12), name


def or_unsupported(run):
    """Run it; an implementation may answer UnsupportedError instead, with a text that helps."""
    refusal = ""
    try:
        return run()
    except UnsupportedError as error:
        refusal = str(error)
    assert "reference" in refusal
    return None


@pytest.mark.parametrize("residual", ["matrix", "none"])
def test_double_backward_is_right_or_refused(impl, residual):
    c = make_pre_inputs(2, 2, 3, residual=residual, dtype=torch.float64)
    made = tuple(leaves(c).values())

    def op(*args):
        return tuple(t for t in mhc_pre(*args, impl=impl) if t is not None)

    supported = or_unsupported(lambda: torch.autograd.gradgradcheck(op, made))
    assert supported or impl != "reference"


def test_a_gradient_penalty_equals_autograd_of_the_oracle(impl):
    """The case that would be silently wrong if saved tensors were treated as constants.

    The loss also uses the handed-on x: its gradient meets the second derivatives in one node.
    """
    c = make_pre_inputs(5, 3, 4, dtype=torch.float64)

    def penalty(run):
        made = leaves(c)
        h_in, x = run(made)
        (inner,) = torch.autograd.grad(h_in, made["x"], c.grad_h_in, create_graph=True)
        loss = inner.square().sum() + (x * c.grad_x_post).sum() + h_in.sum()
        return torch.autograd.grad(loss, list(made.values()))

    def of_operator(made):
        out = mhc_pre(**made, impl=impl)
        return out.h_in, out.x

    got = penalty(of_operator)
    want = penalty(lambda made: (oracle.forward(*made.values()).h_in, made["x"]))
    for name, a, b in zip(LEAVES, got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10), name


# torch's own forward-mode rules still use torch.jit.script.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_is_right_or_refused(impl):
    c = make_pre_inputs(3, 2, 4, dtype=torch.float64)
    args = c.forward_args
    ways = [torch.randn_like(t) for t in args]

    def run(fn):
        return torch.func.jvp(fn, args, tuple(ways))[1]

    got = or_unsupported(lambda: run(lambda *a: tuple(mhc_pre(*a, impl=impl))[:3]))
    if got is not None:
        want = run(lambda *a: tuple(oracle.forward(*a))[:3])
        for a, b in zip(got, want, strict=True):
            assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)


def test_functional_grad_is_right_or_refused(impl):
    c = make_pre_inputs(3, 2, 4, dtype=torch.float64)

    def loss(*args):
        outputs, upstream = weigh(mhc_pre(*args, impl=impl), c)
        return sum((o * g).sum() for o, g in zip(outputs, upstream, strict=True))

    got = or_unsupported(lambda: torch.func.grad(loss, argnums=tuple(range(5)))(*c.forward_args))
    if got is not None:
        for name, a, b in zip(LEAVES, got, autograd(impl, c).values(), strict=True):
            assert torch.allclose(a, b, rtol=1e-12, atol=1e-12), name


def test_vmap_is_right_or_refused(impl):
    c = make_pre_inputs(6, 2, 4, layout="BSND", dtype=torch.float64)

    def one(x):
        return tuple(mhc_pre(x, *c.forward_args[1:], impl=impl))[:3]

    got = or_unsupported(lambda: torch.func.vmap(one)(c.x))
    if got is not None:
        want = mhc_pre(*c.forward_args, impl=impl)[:3]
        for a, b in zip(got, want, strict=True):
            assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)


def test_vmap_over_a_parameter_is_right_or_refused(impl):
    c = make_pre_inputs(3, 2, 4, dtype=torch.float64)
    gains = torch.stack([c.alpha, 2 * c.alpha])

    def one(alpha):
        return tuple(mhc_pre(c.x, c.phi, alpha, c.bias, c.gamma, impl=impl))[:3]

    got = or_unsupported(lambda: torch.func.vmap(one)(gains))
    if got is not None:
        for i, alpha in enumerate(gains):
            for a, b in zip(got, one(alpha), strict=True):
                assert torch.allclose(a[i], b, rtol=1e-12, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("streams", "residual"), FORMS)
def test_gradcheck_of_every_entry_of_every_form(impl, streams, residual):
    for tokens, gamma in itertools.product((1, 2), (True, False)):
        c = make_pre_inputs(
            tokens, streams, 3, residual=residual, dtype=torch.float64, gamma=gamma, seed=streams
        )
        assert gradcheck(impl, c)


def test_parameters_only_need_no_gradient_of_x(impl):
    c = make_pre_inputs(5, 3, 7)
    got = autograd(impl, c, PARAMETERS)
    assert set(got) == set(PARAMETERS)
