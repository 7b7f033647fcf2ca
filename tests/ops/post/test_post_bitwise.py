"""Bit-for-bit promises: repeats, threads, batch invariance, superblocks, layouts, no-grad."""

import pytest
import torch

from mhc_ops import mhc_post
from mhc_ops.testing import LAYOUTS, expanded, make_post_inputs

from ..pre.cases import assert_same_bits
from .cases import LEAVES, backward, call, forward, leaves

DTYPES = [torch.bfloat16, torch.float32]


def both(impl, c):
    return (forward(impl, c), *backward(impl, c))


@pytest.mark.parametrize("shape", [(300, 4, 96), (33, 4, 1024), (600, 3, 41)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_repeats_and_thread_counts(impl, dtype, shape, threads):
    c = make_post_inputs(*shape, dtype=dtype)
    first = both(impl, c)
    for count in (1, 2, 3):
        threads(count)
        assert_same_bits(both(impl, c), first, f"{count} threads ")


# 4 is below every tile, 333 off every tile; tokens 64 and on are a second block of impl="torch".
@pytest.mark.parametrize("width", [4, 96, 333])
@pytest.mark.parametrize("h_res", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_token_alone_equals_itself_in_a_batch(impl, dtype, h_res, width, threads):
    threads(2)
    c = make_post_inputs(90, 4, width, dtype=dtype, h_res=h_res)
    whole = both(impl, c)
    for part in (slice(0, 1), slice(17, 18), slice(89, 90), slice(3, 8), slice(50, 80)):
        alone = both(impl, c.tokens(part))
        assert_same_bits(alone[:-1], [t[part] for t in whole[:-1]], f"{part} ")


@pytest.mark.parametrize("streams", [1, 2, 3, 5, 8])
def test_batch_invariance_of_other_numbers_of_streams(impl, streams, threads):
    """One token of one stream and 40000 channels is the sum that torch would split by threads."""
    threads(2)
    c = make_post_inputs(3, streams, 40000 if streams == 1 else 50)
    whole = both(impl, c)
    alone = both(impl, c.tokens(slice(1, 2)))
    assert_same_bits(alone[:-1], [t[1:2] for t in whole[:-1]])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_bias_gradient_sums_superblocks_in_order(impl, dtype):
    """808 tokens: three superblocks of 256 and a rest of 40, each summed from zero, then added."""
    c = make_post_inputs(808, 4, 24, dtype=dtype)
    whole = backward(impl, c).grad_bias
    for first in (256, 512, 768):
        cuts = [slice(0, first), *(slice(a, min(a + 256, 808)) for a in range(first, 808, 256))]
        pieces = [backward(impl, c.tokens(cut)).grad_bias for cut in cuts]
        total = pieces[0]
        for piece in pieces[1:]:
            total = total + piece
        assert_same_bits((total,), (whole,), f"{first} ")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_training_and_no_grad_give_the_same_bits(impl, dtype):
    c = make_post_inputs(40, 4, 24, dtype=dtype)
    want = (forward(impl, c),)
    trained = call(leaves(c), impl)
    assert trained.requires_grad
    with torch.no_grad():
        quiet = call(leaves(c), impl)
    with torch.inference_mode():
        inference = mhc_post(*c.forward_args, bias=c.bias, impl=impl)
    for got in (trained, quiet, inference):
        assert_same_bits((got,), want)


def test_batched_layout_equals_flat(impl):
    flat, batched = make_post_inputs(300, 4, 24), make_post_inputs(300, 4, 24, batch=3)
    got = both(impl, batched)
    assert_same_bits([*(t.flatten(0, 1) for t in got[:-1]), got[-1]], both(impl, flat))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [None, 2])
def test_memory_layout_changes_nothing(impl, layout, batch):
    c = make_post_inputs(12, 3, 10, batch=batch)
    want = both(impl, c)
    assert_same_bits(both(impl, c.map(LAYOUTS[layout])), want)
    for name in (*LEAVES, "grad_out"):
        one = c._replace(**{name: LAYOUTS[layout](getattr(c, name))})
        assert_same_bits(both(impl, one), want, f"{name} ")


def test_expanded_inputs_equal_their_copies(impl):
    c = make_post_inputs(9, 3, 10)
    wide = c.map(expanded)._replace(bias=c.bias)
    assert_same_bits(both(impl, wide), both(impl, wide.map(torch.Tensor.contiguous)))


def test_inputs_are_left_alone(impl):
    for h_res in (True, False):
        c = make_post_inputs(9, 3, 10, dtype=torch.float32, h_res=h_res)
        kept = c.map(torch.clone)
        out = forward(impl, c)
        grads = backward(impl, c)
        assert_same_bits(c, kept)
        pointers = {t.data_ptr() for t in c if t is not None}
        assert not pointers & {t.data_ptr() for t in (out, *grads)}
