"""Gradients: the written backward against autograd, finite differences, subsets, higher order."""

import itertools

import pytest
import torch

from mhc_ops import mhc_post, mhc_post_pre, mhc_pre, sinkhorn
from mhc_ops.errors import UnsupportedError
from mhc_ops.testing import make_post_pre_inputs

from ..pre.cases import assert_same_bits
from . import oracle
from .cases import (
    GRADIENTS,
    LEAVES,
    OUTPUTS,
    autograd,
    backward,
    call,
    forward,
    leaves,
    split,
    weigh,
)

FORMS = [
    {},
    {"h_res": False},
    {"gamma": False, "out_bias": False},
    {"grad_x_next": False},
    {"residual": "none"},
    {"residual": "permutation"},
]
OPTIONS = [
    {"num_iters": 20},
    {"num_iters": 0},
    {"num_iters": 2, "eps": 1e-3, "eps_mode": "clamp", "order": "rows_last", "temperature": 0.5},
    {"num_iters": 3, "eps_mode": "none"},
    {"hc_eps": 0.02, "post_eps": 0.01, "norm_eps": 0.1},
]


def functional(c, impl, **options):
    """mhc_post_pre of the tensors that are there, for gradcheck; and fresh leaves for it."""
    made = {name: t for name, t in leaves(c).items() if t is not None}

    def op(*args):
        given = dict.fromkeys(LEAVES) | dict(zip(made, args, strict=True))
        return tuple(t for t in call(given, impl, **options) if t is not None)

    return op, tuple(made.values())


def of_oracle(c, made, **options):
    """The outputs of the oracle from leaves, with their upstream gradients."""
    of_sinkhorn, numbers = split(options)
    x_next, fwd = oracle.forward(c._replace(**made), of_sinkhorn, **numbers)
    return weigh(dict_as(x_next, fwd), c)


def dict_as(x_next, fwd):
    from mhc_ops.types import MhcPostPre

    return MhcPostPre(x_next, fwd.h_in, fwd.h_post, fwd.h_res)


@pytest.mark.parametrize("tokens", [0, 1, 33])
@pytest.mark.parametrize("streams", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    ("form", "options"),
    [*((f, {}) for f in FORMS), *(({}, o) for o in OPTIONS)],
    ids=str,
)
def test_gradients_equal_autograd_of_the_oracle(impl, form, options, streams, tokens):
    if streams in (1, 8) and form.get("residual") == "permutation":
        pytest.skip("1! rows are the matrix form; 8! rows fit no test")
    c = make_post_pre_inputs(tokens, streams, 5, dtype=torch.float64, **form)
    made = leaves(c)
    outputs, upstream = of_oracle(c, made, **options)
    given = {name: t for name, t in made.items() if t is not None}
    want = torch.autograd.grad(outputs, list(given.values()), upstream)
    got = autograd(impl, c, tuple(given), **options)
    for name, b in zip(given, want, strict=True):
        size = max(float(b.abs().max()), 1.0) if b.numel() else 1.0
        torch.testing.assert_close(got[name], b, rtol=1e-11, atol=1e-11 * size, msg=name)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradcheck_of_every_form(impl, form):
    c = make_post_pre_inputs(2, 2, 3, dtype=torch.float64, **form)
    assert torch.autograd.gradcheck(*functional(c, impl))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradcheck_of_every_option(impl, options):
    c = make_post_pre_inputs(2, 2, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(*functional(c, impl, **options))


@pytest.mark.parametrize("streams", [1, 3, 4, 5, 8])
def test_gradcheck_of_other_streams(impl, streams):
    c = make_post_pre_inputs(2, streams, 2, dtype=torch.float64)
    op, made = functional(c, impl, num_iters=3)
    assert torch.autograd.gradcheck(op, made, fast_mode=True)


@pytest.mark.parametrize("options", [{}, {"num_iters": 2}], ids=str)
def test_gradgradcheck(impl, options):
    c = make_post_pre_inputs(1, 2, 2, dtype=torch.float64)
    op, made = functional(c, impl, **options)
    assert torch.autograd.gradgradcheck(op, made, fast_mode=True)


@pytest.mark.parametrize("form", [{}, {"residual": "none", "h_res": False}], ids=str)
def test_finite_differences_of_the_bare_backward(impl, form):
    """The registered backward is differentiable itself, through the written equations."""
    c = make_post_pre_inputs(1, 2, 2, dtype=torch.float64, **form)
    fwd = forward(impl, c)
    tensors = (
        *c[:7], *c[9:], fwd.x_next, fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post, c.gamma,
        c.out_bias,
    )  # fmt: skip
    made = [t.detach().clone().requires_grad_() for t in tensors if t is not None]

    def op(*args):
        supply = iter(args)
        given = [None if t is None else next(supply) for t in tensors]
        grads = torch.ops.mhc.post_pre_backward(*given, impl=impl)
        return tuple(g for g in grads if g.numel())

    assert torch.autograd.gradcheck(op, made, fast_mode=True)


def test_a_gradient_penalty_equals_autograd_of_the_oracle(impl):
    c = make_post_pre_inputs(5, 3, 4, dtype=torch.float64)

    def penalty(run):
        made = leaves(c)
        outputs, upstream = run(made)
        inner = torch.autograd.grad(
            outputs, [made["x"], made["h_out"]], upstream, create_graph=True
        )
        loss = sum(g.square().sum() for g in inner) + (outputs[0] * c.grad_x_next).sum()
        return torch.autograd.grad(loss, list(made.values()))

    got = penalty(lambda made: weigh(call(made, impl, num_iters=4), c))
    want = penalty(lambda made: of_oracle(c, made, num_iters=4))
    for name, a, b in zip(LEAVES, got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=name)


# 511 subsets of nine inputs: all of size 1 and 8, and a few in between.
SUBSETS = [
    *itertools.combinations(LEAVES, 1),
    *itertools.combinations(LEAVES, 8),
    ("x", "h_res", "h_out", "h_post"),
    ("phi", "alpha", "bias", "gamma"),
    ("h_out", "phi"),
    ("x", "gamma"),
    ("out_bias", "alpha", "bias"),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_each_subset_of_inputs_gets_exactly_its_gradients(impl, dtype):
    c = make_post_pre_inputs(9, 3, 10, dtype=dtype)
    every = autograd(impl, c, num_iters=3)
    bare = backward(impl, c, forward(impl, c, num_iters=3), num_iters=3)
    for name in LEAVES:
        assert_same_bits((every[name],), (getattr(bare, f"grad_{name}"),), name)
    for needed in SUBSETS:
        made = leaves(c, needed)
        outputs, upstream = weigh(call(made, impl, num_iters=3), c)
        torch.autograd.backward(outputs, upstream)
        for name in LEAVES:
            assert (made[name].grad is not None) == (name in needed), (needed, name)
        for name in needed:
            assert_same_bits((made[name].grad,), (every[name],), f"{needed} {name} ")


@pytest.mark.parametrize("h_res", [True, False])
def test_wanted_computes_what_it_names_and_nothing_else(impl, h_res):
    c = make_post_pre_inputs(300, 4, 24, h_res=h_res)
    fwd = forward(impl, c)
    every = backward(impl, c, fwd)
    for needed in (*SUBSETS, ()):
        got = backward(impl, c, fwd, wanted=tuple(f"grad_{name}" for name in needed))
        want = [g if f in needed else None for f, g in zip(LEAVES, every, strict=True)]
        assert_same_bits(got, want, f"{needed} ")
    short = backward(impl, c, fwd, wanted=("x", "out_bias"))
    assert_same_bits(short[:5], (every.grad_x, None, None, None, every.grad_out_bias))


@pytest.mark.parametrize("used", range(1, 15))
def test_any_subset_of_outputs_may_be_used(impl, used):
    """An unused output sends zeros; without the next sublayer's results post's backward is all."""
    c = make_post_pre_inputs(6, 3, 5, dtype=torch.float64)
    made = leaves(c)
    out = call(made, impl, num_iters=3)
    outputs, upstream = weigh(out, c)
    chosen = [i for i in range(4) if used >> i & 1]
    got = torch.autograd.grad(
        [outputs[i] for i in chosen], list(made.values()), [upstream[i] for i in chosen],
        allow_unused=True,
    )  # fmt: skip
    other = leaves(c)
    outputs, upstream = of_oracle(c, other, num_iters=3)
    want = torch.autograd.grad(
        [outputs[i] for i in chosen], list(other.values()), [upstream[i] for i in chosen],
        allow_unused=True,
    )  # fmt: skip
    for name, a, b in zip(LEAVES, got, want, strict=True):
        a, b = (torch.zeros_like(made[name]) if t is None else t for t in (a, b))
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11, msg=name)


def test_gradients_have_the_dtypes_and_shapes_of_their_inputs(impl):
    c = make_post_pre_inputs(4, 3, 5, batch=2)
    for name, grad in autograd(impl, c).items():
        given = getattr(c, name)
        assert (grad.dtype, grad.shape) == (given.dtype, given.shape), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_the_backward_is_that_of_the_chain_within_one_rounding_of_its_middle(impl, dtype):
    """The chain rounds the gradient of x_next to x's dtype; here it keeps float32.

    So each element of grad_x and grad_h_out may differ by what that rounding moves the sum over N
    streams, and by its own last rounding.
    """
    c = make_post_pre_inputs(64, 4, 40, dtype=dtype)
    made = leaves(c)
    x_next = mhc_post(*list(made.values())[:4], bias=made["out_bias"], impl=impl)
    h_in, h_post, logits, x_next = mhc_pre(x_next, *list(made.values())[5:], impl=impl)
    outputs = (x_next, h_in, h_post, sinkhorn(logits, impl=impl))
    upstream = (c.grad_x_next, c.grad_h_in, c.grad_h_post_next, c.grad_h_res_next)
    want = dict(zip(made, torch.autograd.grad(outputs, list(made.values()), upstream), strict=True))
    got = autograd(impl, c, num_iters=20)
    for name in ("phi", "alpha", "bias", "gamma"):
        size = float(want[name].abs().max())
        torch.testing.assert_close(got[name], want[name], rtol=1e-5, atol=1e-5 * size, msg=name)
    step = torch.finfo(dtype).eps
    middle = backward(impl, c._replace(h_res=None), forward(impl, c)).grad_x.double().abs().max()
    for name, gates in (("x", c.h_res.sum(-1).max()), ("h_out", c.h_post.sum(-1).max())):
        largest = step / 2 * float(middle * gates)
        torch.testing.assert_close(
            got[name].double(), want[name].double(), rtol=2 * step, atol=2 * largest, msg=name
        )


# torch's own forward-mode rules still use torch.jit.script.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_forward_mode_is_right_or_refused(impl):
    c = make_post_pre_inputs(3, 2, 4, dtype=torch.float64)
    args = tuple(leaves(c, ()).values())
    ways = tuple(torch.randn_like(t) for t in args)

    def op(*a):
        return tuple(call(dict(zip(LEAVES, a, strict=True)), impl, num_iters=3))

    refusal = ""
    try:
        got = torch.func.jvp(op, args, ways)[1]
    except UnsupportedError as error:
        refusal = str(error)
    else:
        want = torch.func.jvp(
            lambda *a: of_oracle_outputs(c, dict(zip(LEAVES, a, strict=True)), num_iters=3),
            args,
            ways,
        )[1]
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
        return
    assert impl != "reference"
    assert "impl='auto' or 'reference'" in refusal


def of_oracle_outputs(c, made, **options):
    return tuple(next(zip(*zip(*of_oracle(c, made, **options), strict=True), strict=True)))


def test_functional_grad_and_vmap(impl):
    c = make_post_pre_inputs(6, 2, 4, dtype=torch.float64, batch=2)

    def loss(*args):
        outputs, upstream = weigh(call(dict(zip(LEAVES, args, strict=True)), impl), c)
        return sum((o * g).sum() for o, g in zip(outputs, upstream, strict=True))

    args = tuple(leaves(c, ()).values())
    got = torch.func.grad(loss, argnums=tuple(range(9)))(*args)
    for name, a, b in zip(LEAVES, got, autograd(impl, c).values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=name)

    def one(x, h_res, h_out, h_post):
        return tuple(mhc_post_pre(x, h_res, h_out, h_post, *c[4:8], out_bias=c.out_bias, impl=impl))

    mapped = torch.func.vmap(one)(*c[:4])
    for name, a, b in zip(OUTPUTS, mapped, one(*c[:4]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=name)


def test_autocast_changes_nothing(impl):
    c = make_post_pre_inputs(9, 4, 24)
    want, grads = forward(impl, c, num_iters=20), autograd(impl, c, num_iters=20)
    with torch.autocast("cpu", dtype=torch.float16):
        assert_same_bits(forward(impl, c, num_iters=20), want)
        inside = autograd(impl, c, num_iters=20)
    assert_same_bits(tuple(inside.values()), tuple(grads.values()))


def test_saved_for_backward(impl):
    """Inputs and x_next by reference; every other saved tensor is a few numbers a token."""
    tokens, n, d, f = 64, 4, 256, 24
    made = leaves(make_post_pre_inputs(tokens, n, d))
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        out = call(made, impl, num_iters=20)
    owned = {t.untyped_storage().data_ptr() for t in (*made.values(), out.x_next)}
    extra = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in packed}
    assert out.x_next.untyped_storage().data_ptr() in extra
    assert sum(v for k, v in extra.items() if k not in owned) <= 4 * tokens * (1 + f + 2 * n)


def test_writing_into_x_next_is_noticed(impl):
    c = make_post_pre_inputs(6, 3, 5)
    made = leaves(c)
    out = call(made, impl)
    out.x_next.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(out.h_in, made["x"], c.grad_h_in)


def test_strided_upstream_gradients(impl):
    """Autograd hands over whatever layout it has, such as the expanded one of sum()."""
    c = make_post_pre_inputs(6, 3, 5)
    made = leaves(c)
    out = call(made, impl)
    got = torch.autograd.grad(sum(t.sum() for t in out), list(made.values()))
    ones = c._replace(**{
        grad: torch.ones_like(getattr(c, grad))
        for grad in ("grad_x_next", "grad_h_in", "grad_h_post_next", "grad_h_res_next")
    })  # fmt: skip
    assert_same_bits(got, backward(impl, ones, forward(impl, c)))


def test_names_of_the_gradients(impl):
    c = make_post_pre_inputs(2, 2, 2)
    assert backward(impl, c, forward(impl, c))._fields == GRADIENTS
