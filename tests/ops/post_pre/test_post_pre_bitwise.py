"""Bit-for-bit promises: repeats, threads, batch invariance, superblocks, layouts, no-grad."""

import pytest
import torch

from mhc_ops import mhc_post_pre
from mhc_ops.testing import LAYOUTS, make_post_pre_inputs

from ..pre.cases import assert_same_bits
from .cases import UPSTREAM, backward, call, forward, leaves

DTYPES = [torch.bfloat16, torch.float32]
PER_TOKEN = 7 + 4  # outputs, and gradients before those of the parameters


def both(impl, c, **options):
    fwd = forward(impl, c, **options)
    return (*fwd, *backward(impl, c, fwd, **options))


@pytest.mark.parametrize("shape", [(300, 4, 96), (33, 4, 1024), (600, 3, 41)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_repeats_and_thread_counts(impl, dtype, shape, threads):
    c = make_post_pre_inputs(*shape, dtype=dtype)
    first = both(impl, c, num_iters=20)
    for count in (1, 2, 3):
        threads(count)
        assert_same_bits(both(impl, c, num_iters=20), first, f"{count} threads ")


# 4 is below every tile, 333 off every tile; tokens 64 and on are a second block of impl="torch".
@pytest.mark.parametrize("width", [4, 96, 333])
@pytest.mark.parametrize("h_res", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_token_alone_equals_itself_in_a_batch(impl, dtype, h_res, width, threads):
    threads(2)
    c = make_post_pre_inputs(90, 4, width, dtype=dtype, h_res=h_res)
    whole = both(impl, c, num_iters=20)[:PER_TOKEN]
    for part in (slice(0, 1), slice(17, 18), slice(89, 90), slice(3, 8), slice(50, 80)):
        alone = both(impl, c.tokens(part), num_iters=20)[:PER_TOKEN]
        assert_same_bits(alone, [t[part] for t in whole], f"{part} ")


@pytest.mark.parametrize("streams", [1, 2, 3, 5, 8])
def test_batch_invariance_of_other_numbers_of_streams(impl, streams, threads):
    threads(2)
    c = make_post_pre_inputs(3, streams, 50)
    whole = both(impl, c)[:PER_TOKEN]
    alone = both(impl, c.tokens(slice(1, 2)))[:PER_TOKEN]
    assert_same_bits(alone, [t[1:2] for t in whole])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parameter_gradients_sum_superblocks_in_order(impl, dtype):
    """808 tokens: three superblocks of 256 and a rest of 40, each summed from zero, then added."""
    c = make_post_pre_inputs(808, 4, 24, dtype=dtype)
    whole = both(impl, c)[PER_TOKEN:]
    for first in (256, 512, 768):
        cuts = [slice(0, first), *(slice(a, min(a + 256, 808)) for a in range(first, 808, 256))]
        pieces = [both(impl, c.tokens(cut))[PER_TOKEN:] for cut in cuts]
        total = pieces[0]
        for piece in pieces[1:]:
            total = [a + b for a, b in zip(total, piece, strict=True)]
        assert_same_bits(total, whole, f"{first} ")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("options", [{}, {"num_iters": 5}], ids=str)
def test_training_and_no_grad_give_the_same_bits(impl, options, dtype):
    c = make_post_pre_inputs(40, 4, 24, dtype=dtype)
    want = forward(impl, c, **options)[:4]
    trained = call(leaves(c), impl, **options)
    assert all(t.requires_grad for t in trained)
    with torch.no_grad():
        quiet = call(leaves(c), impl, **options)
    with torch.inference_mode():
        inference = mhc_post_pre(*c[:8], out_bias=c.out_bias, impl=impl, **options)
    for got in (trained, quiet, inference):
        assert_same_bits(got, want)


def test_batched_layout_equals_flat(impl):
    flat, batched = make_post_pre_inputs(300, 4, 24), make_post_pre_inputs(300, 4, 24, batch=3)
    got = both(impl, batched)
    merged = [*(t.flatten(0, 1) for t in got[:PER_TOKEN]), *got[PER_TOKEN:]]
    assert_same_bits(merged, both(impl, flat))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [None, 2])
def test_memory_layout_changes_nothing(impl, layout, batch):
    c = make_post_pre_inputs(12, 3, 10, batch=batch)
    want = both(impl, c, num_iters=3)
    assert_same_bits(both(impl, c.map(LAYOUTS[layout]), num_iters=3), want)
    for name in (*c._fields[:9], *UPSTREAM):
        one = c._replace(**{name: LAYOUTS[layout](getattr(c, name))})
        assert_same_bits(both(impl, one, num_iters=3), want, f"{name} ")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_saved_tensors_may_be_strided(impl, layout):
    c = make_post_pre_inputs(12, 3, 10)
    fwd = forward(impl, c)
    moved = type(fwd)(*(LAYOUTS[layout](t) for t in fwd))
    assert_same_bits(backward(impl, c, moved), backward(impl, c, fwd))


def test_inputs_are_left_alone(impl):
    for h_res in (True, False):
        c = make_post_pre_inputs(9, 3, 10, dtype=torch.float32, h_res=h_res)
        kept = c.map(torch.clone)
        results = both(impl, c, num_iters=3)
        assert_same_bits(c, kept)
        pointers = {t.data_ptr() for t in c if t is not None}
        assert not pointers & {t.data_ptr() for t in results}
