"""Bit-for-bit promises: repeats, threads, batch invariance, superblocks, layouts, no-grad."""

import pytest
import torch

from mhc_ops import mhc_pre
from mhc_ops.testing import LAYOUTS, expanded, make_pre_inputs

from .cases import PARAMETERS, PER_TOKEN, assert_same_bits, backward, forward, leaves, saved

DTYPES = [torch.bfloat16, torch.float32]
# Products of these widths with 24 rows cross torch's switches between vector and matrix kernels:
# 4 is tiny, 96 below and 1024 above a cache line of blocks, 333 off every tile.
WIDTHS = [4, 96, 333, 1024]


def pair(impl, c, **options):
    fwd = forward(impl, c, **options)
    return fwd, backward(impl, c, fwd, **options)


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_run_to_run(impl, dtype, precision):
    c = make_pre_inputs(300, 4, 96, dtype=dtype)
    first, second = (pair(impl, c, precision=precision) for _ in range(2))
    assert_same_bits(second[0], first[0])
    assert_same_bits(second[1], first[1])


@pytest.mark.parametrize("shape", [(300, 4, 96), (33, 4, 1024), (600, 3, 40)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_thread_count(impl, dtype, shape, threads):
    c = make_pre_inputs(*shape, dtype=dtype)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(pair(impl, c))
    for other in results[1:]:
        assert_same_bits(other[0], results[0][0])
        assert_same_bits(other[1], results[0][1])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_token_alone_equals_itself_in_a_batch(impl, dtype, width, threads):
    threads(2)
    c = make_pre_inputs(300, 4, width, dtype=dtype)
    fwd, bwd = pair(impl, c)
    for part in (slice(0, 1), slice(17, 18), slice(299, 300), slice(3, 8), slice(100, 290)):
        alone_fwd, alone_bwd = pair(impl, c.tokens(part))
        for name in PER_TOKEN:
            assert_same_bits((getattr(alone_fwd, name),), (getattr(fwd, name)[part],), f"{name} ")
        assert_same_bits((alone_bwd.grad_x,), (bwd.grad_x[part],), f"grad_x {part} ")


@pytest.mark.parametrize(("streams", "residual"), [(1, "matrix"), (3, "none"), (4, "permutation")])
def test_batch_invariance_of_other_forms(impl, streams, residual):
    c = make_pre_inputs(70, streams, 50, residual=residual, gamma=False)
    fwd, bwd = pair(impl, c)
    for t in (0, 31, 69):
        part = slice(t, t + 1)
        alone_fwd, alone_bwd = pair(impl, c.tokens(part))
        for name in PER_TOKEN:
            if getattr(fwd, name) is not None:
                assert_same_bits((getattr(alone_fwd, name),), (getattr(fwd, name)[part],), name)
        assert_same_bits((alone_bwd.grad_x,), (bwd.grad_x[part],), f"grad_x {t} ")


def test_batch_invariance_in_hf32(impl):
    c = make_pre_inputs(40, 4, 64)
    fwd, bwd = pair(impl, c, precision="hf32")
    alone_fwd, alone_bwd = pair(impl, c.tokens(slice(39, 40)), precision="hf32")
    assert_same_bits((alone_fwd.h_mix, alone_fwd.h_in), (fwd.h_mix[39:], fwd.h_in[39:]))
    assert_same_bits((alone_bwd.grad_x,), (bwd.grad_x[39:],))


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parameter_gradients_are_sums_of_superblocks_in_order(impl, dtype, gamma, precision):
    """808 tokens: three superblocks of 256 and a rest of 40, each summed from zero, then added."""
    c = make_pre_inputs(808, 4, 24, dtype=dtype, gamma=gamma)
    fwd, whole = pair(impl, c, precision=precision)

    def part(cut):
        taken = type(fwd)(*(None if t is None else t[cut] for t in fwd))
        return backward(impl, c.tokens(cut), taken, precision=precision)

    for first in (256, 512, 768):
        cuts = [slice(0, first), *(slice(a, min(a + 256, 808)) for a in range(first, 808, 256))]
        pieces = [part(cut) for cut in cuts]
        for name in PARAMETERS:
            grads = [getattr(p, f"grad_{name}") for p in pieces]
            if grads[0] is None:
                continue
            total = grads[0]
            for grad in grads[1:]:
                total = total + grad
            assert_same_bits((total,), (getattr(whole, f"grad_{name}"),), f"{first} {name} ")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_training_and_no_grad_give_the_same_bits(impl, dtype):
    c = make_pre_inputs(40, 4, 24, dtype=dtype)
    bare = forward(impl, c)
    trained = mhc_pre(**leaves(c), impl=impl)
    with torch.no_grad():
        quiet = mhc_pre(**leaves(c), impl=impl)
    with torch.inference_mode():
        inference = mhc_pre(*c.forward_args, impl=impl)
    want = (bare.h_in, bare.h_post, bare.h_res, c.x)
    for got in (trained, quiet, inference):
        assert_same_bits(tuple(got), want)
    assert trained.x.requires_grad


def test_batched_layout_equals_flat(impl):
    flat = make_pre_inputs(300, 4, 24)
    batched = make_pre_inputs(300, 4, 24, layout="BSND", batch=3)
    fwd, bwd = pair(impl, flat)
    fwd3, bwd3 = pair(impl, batched)
    assert fwd3.h_res.shape == (3, 100, 4, 4)
    assert_same_bits([t.flatten(0, 1) for t in fwd3], fwd)
    assert_same_bits([bwd3.grad_x.flatten(0, 1), *bwd3[1:]], bwd)


# Parameters are small beside x, yet a view of a fused weight or a transposed checkpoint is common.
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lead", ["TND", "BSND"])
def test_memory_layout_changes_nothing(impl, layout, lead):
    c = make_pre_inputs(12, 3, 10, layout=lead)
    fwd, bwd = pair(impl, c)
    view = LAYOUTS[layout]
    placed, saved_view = c.map(view), type(fwd)(*map(view, fwd))
    assert_same_bits(forward(impl, placed), fwd)
    assert_same_bits(backward(impl, placed, saved_view), bwd)


def test_each_input_may_have_its_own_layout(impl):
    c = make_pre_inputs(12, 3, 10)
    fwd = saved(c)
    want = backward(impl, c, fwd)
    for name, view in [("x", "transposed"), ("grad_h_in", "strided"), ("grad_x_post", "padded"),
                       ("grad_h_post", "transposed"), ("grad_h_res", "transposed"),
                       ("phi", "transposed"), ("gamma", "transposed")]:  # fmt: skip
        placed = c._replace(**{name: LAYOUTS[view](getattr(c, name))})
        assert_same_bits(backward(impl, placed, fwd), want, f"{name} ")


def test_expanded_inputs_equal_their_copies(impl):
    c = make_pre_inputs(9, 3, 10)
    wide = c._replace(
        x=expanded(c.x),
        grad_h_in=expanded(c.grad_h_in),
        grad_h_post=expanded(c.grad_h_post),
        grad_h_res=expanded(c.grad_h_res),
        grad_x_post=expanded(c.grad_x_post),
    )
    dense = wide.map(torch.Tensor.contiguous)
    want_fwd, want_bwd = pair(impl, dense)
    got_fwd, got_bwd = pair(impl, wide)
    assert_same_bits(got_fwd, want_fwd)
    assert_same_bits(got_bwd, want_bwd)


def test_inputs_are_left_alone(impl):
    c = make_pre_inputs(9, 3, 10)
    kept = c.map(torch.clone)
    fwd = forward(impl, c)
    kept_fwd = type(fwd)(*map(torch.clone, fwd))
    backward(impl, c, fwd)
    assert_same_bits(c, kept)
    assert_same_bits(fwd, kept_fwd)
