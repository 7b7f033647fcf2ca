"""Bit for bit: the chain of the two operators, repeats, threads, batches, layouts, no-grad."""

import itertools

import pytest
import torch

from mhc_ops import Convention, mhc_pre, mhc_pre_sinkhorn, sinkhorn
from mhc_ops.testing import LAYOUTS, make_pre_inputs, nan_scratch
from mhc_ops.types import MhcPreSinkhorn

from ..pre.cases import LEAVES, PARAMETERS, PER_TOKEN, assert_same_bits, leaves
from .cases import (
    OTHER,
    autograd,
    backward,
    chain,
    chain_backward,
    chain_forward,
    forward,
    fused,
    saved,
)

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
SHAPES = [(300, 4, 96), (33, 3, 65), (1, 4, 512), (5, 1, 7), (9, 8, 24)]
EVERY_OTHER = {"norm_eps": 0.3, "hc_eps": 0.05, "post_eps": 0.02, **OTHER}


def pair(impl, c, **options):
    fwd = forward(impl, c, **options)
    options.pop("norm_eps", None)
    return fwd, backward(impl, c, fwd, **options)


@pytest.mark.parametrize("options", [{}, EVERY_OTHER], ids=["defaults", "others"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_chain_of_the_bare_operators(impl, dtype, shape, options):
    c = make_pre_inputs(*shape, dtype=dtype)
    fwd, bwd = pair(impl, c, **options)
    want, logits = chain_forward(impl, c, **options)
    assert_same_bits(fwd, want)
    assert_same_bits(bwd, chain_backward(impl, c, want, logits, **options))


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
@pytest.mark.parametrize("gamma", [True, False])
def test_the_chain_in_both_precisions(impl, gamma, precision):
    c = make_pre_inputs(300, 4, 40, gamma=gamma, layout="BSND")
    fwd, bwd = pair(impl, c, precision=precision)
    want, logits = chain_forward(impl, c, precision=precision)
    assert_same_bits(fwd, want)
    assert_same_bits(bwd, chain_backward(impl, c, want, logits, precision=precision))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_chain_of_the_differentiable_operators(impl, dtype):
    c = make_pre_inputs(40, 4, 24, dtype=dtype)
    got, want = (run(*c.forward_args) for run in (fused(impl), lambda *a: chain(*a, impl=impl)))
    assert_same_bits(tuple(got), tuple(want))
    assert_same_bits(
        tuple(autograd(fused(impl), c).values()),
        tuple(autograd(lambda *a: chain(*a, impl=impl), c).values()),
    )


@pytest.mark.parametrize("used", ["h_in", "h_post", "h_res", "x"])
def test_the_chain_where_a_loss_uses_one_output(impl, used):
    c = make_pre_inputs(40, 4, 24)

    def gradients(run):
        made = leaves(c)
        out = getattr(run(*made.values(), impl=impl), used)
        upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
        return torch.autograd.grad(out, list(made.values()), upstream, allow_unused=True)

    got, want = gradients(mhc_pre_sinkhorn), gradients(chain)
    for name, a, b in zip(LEAVES, got, want, strict=True):
        zero = torch.zeros_like(getattr(c, name))
        assert_same_bits((zero if a is None else a,), (zero if b is None else b,), f"{name} ")


CONVENTIONS = {
    "megatron": Convention.megatron(),
    "transformer_engine": Convention.transformer_engine(),
    "large": Convention(
        norm_eps=0.2, norm_eps_outside=True, hc_eps=0.03, post_scale=0.7, post_eps=-0.1,
        res_rows="to_from", num_iters=3, sinkhorn_eps=0.01, order="rows_last", temperature=1.4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_chain_under_a_convention(impl, name):
    """Rows [to, from] are turned between the two operators of the chain, and inside this one."""
    convention = CONVENTIONS[name]
    c = make_pre_inputs(33, 4, 24)
    c.alpha[2] = 3
    options = {"convention": convention, "impl": impl}
    got = mhc_pre_sinkhorn(*c.forward_args, **options)
    logits_chain = two_conventions(convention, impl)
    assert_same_bits(tuple(got), tuple(logits_chain(*c.forward_args)))
    every = autograd(fused(impl, convention=convention), c)
    assert_same_bits(tuple(every.values()), tuple(autograd(logits_chain, c).values()))
    fwd, bwd = pair(impl, c, convention=convention)
    assert_same_bits(fwd[:3], got[:3])
    assert_same_bits(bwd, tuple(every.values()))
    targets = type(fwd)(*(torch.full_like(t, torch.nan) for t in fwd))
    assert_same_bits(forward(impl, c, convention=convention, out=targets), fwd)
    assert_same_bits(targets, fwd)


def two_conventions(convention, impl):
    """The chain in which each operator takes the convention."""

    def run(*args):
        h_in, h_post, logits, x = mhc_pre(*args, convention=convention, impl=impl)
        return MhcPreSinkhorn(h_in, h_post, sinkhorn(logits, convention=convention, impl=impl), x)

    return run


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_run_to_run_and_thread_count(impl, dtype, threads):
    c = make_pre_inputs(300, 4, 96, dtype=dtype)
    first = pair(impl, c)
    for count in (1, 2, 3):
        threads(count)
        fwd, bwd = pair(impl, c)
        assert_same_bits(fwd, first[0])
        assert_same_bits(bwd, first[1])


@pytest.mark.parametrize("streams", [3, 4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_token_alone_equals_itself_in_a_batch(impl, dtype, streams, threads):
    threads(2)
    c = make_pre_inputs(300, streams, 96, dtype=dtype)
    fwd, bwd = pair(impl, c)
    for part in (slice(0, 1), slice(17, 18), slice(299, 300), slice(3, 8), slice(100, 290)):
        alone_fwd, alone_bwd = pair(impl, c.tokens(part))
        for name in PER_TOKEN:
            assert_same_bits((getattr(alone_fwd, name),), (getattr(fwd, name)[part],), f"{name} ")
        assert_same_bits((alone_bwd.grad_x,), (bwd.grad_x[part],), f"grad_x {part} ")


def test_parameter_gradients_are_sums_of_superblocks_in_order(impl):
    c = make_pre_inputs(552, 4, 24)
    fwd, whole = pair(impl, c)

    def part(cut):
        return backward(impl, c.tokens(cut), type(fwd)(*(t[cut] for t in fwd)))

    pieces = [part(slice(a, min(a + 256, 552))) for a in range(0, 552, 256)]
    for name in PARAMETERS:
        total = getattr(pieces[0], f"grad_{name}")
        for piece in pieces[1:]:
            total = total + getattr(piece, f"grad_{name}")
        assert_same_bits((total,), (getattr(whole, f"grad_{name}"),), f"{name} ")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lead", ["TND", "BSND"])
def test_memory_layout_changes_nothing(impl, layout, lead):
    c = make_pre_inputs(12, 3, 10, layout=lead)
    fwd, bwd = pair(impl, c)
    view = LAYOUTS[layout]
    placed, saved_view = c.map(view), type(fwd)(*map(view, fwd))
    assert_same_bits(forward(impl, placed), fwd)
    assert_same_bits(backward(impl, placed, saved_view), bwd)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_training_and_no_grad_give_the_same_bits(impl, dtype):
    c = make_pre_inputs(40, 4, 24, dtype=dtype)
    bare = forward(impl, c)
    trained = mhc_pre_sinkhorn(**leaves(c), impl=impl)
    with torch.no_grad():
        quiet = mhc_pre_sinkhorn(**leaves(c), impl=impl)
    with torch.inference_mode():
        inference = mhc_pre_sinkhorn(*c.forward_args, impl=impl)
    for got in (trained, quiet, inference):
        assert_same_bits(tuple(got), (bare.h_in, bare.h_post, bare.h_res, c.x))
    assert trained.x.requires_grad


def test_wanted_computes_what_it_names_and_nothing_else(impl):
    c = make_pre_inputs(40, 4, 24)
    fwd = saved(c)
    every = backward(impl, c, fwd)
    for size in range(len(LEAVES) + 1):
        for needed in itertools.combinations(LEAVES, size):
            got = backward(impl, c, fwd, wanted=tuple(f"grad_{name}" for name in needed))
            want = [g if f in needed else None for f, g in zip(LEAVES, every, strict=True)]
            assert_same_bits(got, want, f"{needed} ")


def test_inputs_are_left_alone_and_scratch_is_not_read(impl):
    c = make_pre_inputs(300, 3, 50)
    kept = c.map(torch.clone)
    fwd, bwd = pair(impl, c)
    with nan_scratch():
        again = pair(impl, c)
    assert_same_bits(again[0], fwd)
    assert_same_bits(again[1], bwd)
    assert_same_bits(c, kept)
