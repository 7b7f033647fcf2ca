"""Bit-for-bit promises: repeats, threads, batch invariance, layouts, no-grad, autocast."""

import pytest
import torch

from mhc_ops import sinkhorn, sinkhorn_backward, sinkhorn_forward
from mhc_ops.testing import LAYOUTS, expanded

from ..pre.cases import assert_same_bits
from .cases import ORDERS, make

SIZES = [(300, 4), (70, 3), (5000, 2), (40, 8), (33, 1)]


def both(impl, logits, grad, **options):
    return (
        *sinkhorn_forward(logits, impl=impl, return_defect=True, **options),
        sinkhorn_backward(logits, grad, impl=impl, **options),
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_runs_and_threads(impl, size, threads):
    logits, grad = make(*size, std=2.0)
    results = []
    for count in (1, 1, 2, 3):
        threads(count)
        results.append(both(impl, logits, grad))
    for other in results[1:]:
        assert_same_bits(other, results[0])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_token_alone_equals_itself_in_a_batch(impl, size, order, threads):
    threads(2)
    logits, grad = make(*size, std=2.0)
    whole = both(impl, logits, grad, order=order)
    last = size[0] - 1
    for part in (slice(0, 1), slice(17, 18), slice(last, None), slice(3, 8), slice(7, 30)):
        alone = both(impl, logits[part], grad[part], order=order)
        assert_same_bits(alone, [t[part] for t in whole], f"{part} ")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lead", [(12,), (3, 4)], ids=str)
def test_memory_layout_changes_nothing(impl, layout, lead):
    logits, grad = (t.view(*lead, 3, 3) for t in make(12, 3))
    view = LAYOUTS[layout]
    want = both(impl, logits, grad)
    assert_same_bits(both(impl, view(logits), view(grad)), want)
    assert_same_bits(both(impl, logits, view(grad)), want)
    assert_same_bits(both(impl, view(logits), grad), want)


def test_expanded_inputs_equal_their_copies(impl):
    logits, grad = (expanded(t) for t in make(9, 4))
    want = both(impl, logits.contiguous(), grad.contiguous())
    assert_same_bits(both(impl, logits, grad), want)


def test_batched_layout_equals_flat(impl):
    logits, grad = make(60, 4)
    flat = both(impl, logits, grad)
    batched = both(impl, logits.view(3, 20, 4, 4), grad.view(3, 20, 4, 4))
    assert_same_bits([t.flatten(0, 1) for t in batched], flat)


def test_training_and_no_grad_give_the_same_bits(impl):
    logits, _ = make(40, 4)
    want = sinkhorn_forward(logits, impl=impl).h_res
    trained = sinkhorn(logits.clone().requires_grad_(), impl=impl)
    assert trained.requires_grad
    with torch.no_grad():
        quiet = sinkhorn(logits.clone().requires_grad_(), impl=impl)
    with torch.inference_mode():
        inference = sinkhorn(logits, impl=impl)
    for got in (trained, quiet, inference):
        assert_same_bits((got,), (want,))


def test_autocast_changes_nothing(impl):
    logits, grad = make(40, 4)
    want = both(impl, logits, grad)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits(both(impl, logits, grad), want)


def test_inputs_are_left_alone(impl):
    logits, grad = make(40, 4)
    kept = logits.clone(), grad.clone()
    both(impl, logits, grad)
    assert_same_bits((logits, grad), kept)
