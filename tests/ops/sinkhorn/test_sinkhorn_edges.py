"""Values at the edges: huge logits, infinities, NaN in its token, NaN-filled scratch."""

import math

import pytest
import torch

from mhc_ops import sinkhorn_backward, sinkhorn_forward
from mhc_ops.testing import nan_scratch

from ..pre.cases import assert_same_bits
from . import oracle
from .cases import MODES, ORDERS, make, normal


def both(impl, logits, grad, **options):
    h_res, rows, columns = sinkhorn_forward(logits, impl=impl, return_defect=True, **options)
    return h_res, rows, columns, sinkhorn_backward(logits, grad, impl=impl, **options)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", ["add", "clamp"])
@pytest.mark.parametrize("num_iters", [1, 20, 200])
def test_huge_logits_stay_finite(impl, num_iters, eps_mode, order):
    """Whole columns underflow here; upstream gradients of 1e3 must not overflow on the way."""
    for seed in range(4):
        signs, grad = make(64, 4, seed=seed)
        for logits in (1e4 * signs.sign(), 1e4 * signs, -1e4 + signs):
            options = {"num_iters": num_iters, "eps_mode": eps_mode, "order": order}
            for t in both(impl, logits, 1e3 * grad, **options):
                assert t.isfinite().all()
            if eps_mode == "clamp" and logits.abs().unique().numel() > 1:
                continue  # weights that only float64 holds grow to any size within 200 iterations
            got = sinkhorn_forward(logits, impl=impl, **options).h_res
            # The difference of two logits near 1e4 is rounded to 2^-11 at the most.
            want = oracle.forward(logits, **options)
            torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
def test_minus_infinity_is_a_weight_of_zero(impl, eps_mode, order):
    logits, grad = make(40, 4, 2.0)
    logits[:, 0, 1] = logits[:, 2, 3] = -math.inf
    options = {"eps_mode": eps_mode, "order": order}
    h_res, _, _, grad_logits = both(impl, logits, grad, **options)
    torch.testing.assert_close(
        h_res.double(), oracle.forward(logits, **options), rtol=1e-5, atol=1e-6
    )
    assert eps_mode == "add" or not h_res[:, 0, 1].any()
    assert grad_logits.isfinite().all()
    assert not grad_logits[:, 0, 1].any()


def test_a_column_without_weight(impl):
    """Under "add" it holds equal shares of eps; under "clamp" it stays empty."""
    logits, grad = make(20, 4, 2.0)
    logits[:, :, 2] = -math.inf
    for mode in ("add", "clamp"):
        h_res, _, columns, grad_logits = both(impl, logits, grad, eps_mode=mode)
        torch.testing.assert_close(
            h_res.double(), oracle.forward(logits, eps_mode=mode), rtol=1e-4, atol=1e-6
        )
        assert grad_logits.isfinite().all()
        assert not grad_logits[:, :, 2].any()
        assert (columns == 1).all() == (mode == "clamp")
    assert both(impl, logits, grad, eps_mode="none")[0].isnan().any()


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
def test_bad_logits_stay_in_their_token(impl, eps_mode, order, bad):
    logits, grad = make(37, 4, 2.0)
    options = {"eps_mode": eps_mode, "order": order}
    clean = both(impl, logits, grad, **options)
    spoiled = logits.clone()
    spoiled[17, 2, 1] = bad
    got = both(impl, spoiled, grad, **options)
    keep = [t for t in range(37) if t != 17]
    assert_same_bits([t[keep] for t in got], [t[keep] for t in clean])
    for t in got:
        assert t[17].isnan().all()


def test_a_row_of_minus_infinity_is_not_a_number(impl):
    logits, grad = make(5, 4)
    logits[3, 1] = -math.inf
    h_res, _, _, grad_logits = both(impl, logits, grad)
    assert h_res[3].isnan().all()
    assert grad_logits[3].isnan().all()
    assert h_res[[0, 1, 2, 4]].isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=str)
def test_a_bad_upstream_gradient_stays_in_its_token(impl, bad):
    logits, grad = make(37, 4)
    clean = sinkhorn_backward(logits, grad, impl=impl)
    spoiled = grad.clone()
    spoiled[11, 0, 3] = bad
    got = sinkhorn_backward(logits, spoiled, impl=impl)
    keep = [t for t in range(37) if t != 11]
    assert_same_bits((got[keep],), (clean[keep],))
    assert got[11].isnan().any()


def test_scratch_is_written_before_it_is_read(impl):
    logits, grad = make(37, 3)
    want = both(impl, logits, grad)
    with nan_scratch():
        assert_same_bits(both(impl, logits, grad), want)


def test_tiny_and_huge_temperatures(impl):
    logits = normal(20, 4, 4)
    for temperature in (1e-30, 1e-3, 1e30):
        got = sinkhorn_forward(logits, temperature=temperature, impl=impl).h_res
        assert got.isfinite().all()
    torch.testing.assert_close(got, torch.full_like(got, 0.25), rtol=1e-4, atol=0)
