"""Values of sinkhorn and its backward against the float64 truth; properties; the defects."""

import pytest
import torch

from mhc_ops import sinkhorn, sinkhorn_backward, sinkhorn_forward
from mhc_ops.types import Sinkhorn

from ..rooms import INTERPRETED
from . import oracle
from .cases import MODES, ORDERS, check, make, normal

# The interpreter takes minutes for the backward of many iterations.
WIDE_STREAMS = (1, 2, 5) if INTERPRETED else range(1, 13)
WIDE_ITERATIONS = (0, 1, 3) if INTERPRETED else (0, 1, 2, 5, 20, 100)

DTYPES = [torch.float32, torch.float64]


def test_the_oracle_equals_plain_loops():
    logits = normal(5, 3, 3, std=3.0, dtype=torch.float64)
    for k in (0, 1, 4):
        for token in logits:
            want = torch.tensor(oracle.forward_by_loops(token.tolist(), k, 0.01)).double()
            got = oracle.forward(token, num_iters=k, eps=0.01)
            assert torch.allclose(got, want, rtol=1e-6)


# Every N up to 8; 37 tokens leave a rest beside vectors of 4, 8 and 16.
@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("std", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_published_form(impl, dtype, std, n):
    check(impl, *make(37, n, std, dtype=dtype))


@pytest.mark.parametrize("std", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
def test_every_option(impl, eps_mode, order, std):
    for n, num_iters, eps, temperature in (
        (4, 20, 1e-6, 1.0), (3, 10, 1e-2, 0.7), (5, 1, 0.1, 2.0), (4, 2, 0.3, 1.5),
        (2, 0, 0.2, 1.0), (8, 50, 1e-6, 1.3), (1, 3, 0.25, 1.0),
    ):  # fmt: skip
        check(
            impl, *make(33, n, std, seed=n), num_iters=num_iters, eps=eps, eps_mode=eps_mode,
            order=order, temperature=temperature,
        )  # fmt: skip


@pytest.mark.parametrize("num_iters", [100, 1000])
def test_many_iterations(impl, num_iters):
    check(impl, *make(17, 4, 3.0), num_iters=num_iters)


def test_clamping_bites(impl):
    """With eps of 0.6 sums fall on both sides of it, so both branches count."""
    for order in ORDERS:
        check(impl, *make(64, 4, 3.0), eps=0.6, eps_mode="clamp", order=order, num_iters=6)


@pytest.mark.parametrize("lead", [(), (7,), (2, 3), (2, 1, 3)], ids=str)
def test_leading_dimensions(impl, lead):
    logits, grad = normal(*lead, 3, 3), normal(*lead, 3, 3, seed=1)
    check(impl, logits, grad)
    found = sinkhorn_forward(logits, return_defect=True, impl=impl)
    assert found.row_defect.shape == found.column_defect.shape == lead


@pytest.mark.parametrize("lead", [(0,), (2, 0), (0, 3)], ids=str)
def test_no_tokens(impl, lead):
    logits = torch.empty(*lead, 4, 4)
    found = sinkhorn_forward(logits, return_defect=True, impl=impl)
    assert found.h_res.shape == logits.shape
    assert found.row_defect.shape == lead
    assert sinkhorn_backward(logits, logits, impl=impl).shape == logits.shape


def test_zero_iterations_are_the_softmax(impl):
    logits = normal(9, 4, 4, std=3.0)
    plain = torch.softmax(logits, -1)
    for mode, want in (("add", plain + 0.25), ("clamp", plain), ("none", plain)):
        got = sinkhorn(logits, num_iters=0, eps=0.25, eps_mode=mode, impl=impl)
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("order", ORDERS)
def test_sums(impl, order):
    """The sums normalised last are within eps and rounding of 1, the others have converged."""
    logits = normal(200, 4, 4)
    h = sinkhorn(logits, order=order, num_iters=200, impl=impl)
    last, other = (-2, -1) if order == "columns_last" else (-1, -2)
    assert (h.sum(last) - 1).abs().max() < 2e-6
    assert (h.sum(other) - 1).abs().max() < 1e-5
    assert (h > 0).all()


def test_rows_last_is_the_transpose_of_columns_last(impl):
    logits = normal(33, 4, 4, std=3.0)
    a = sinkhorn(logits, order="rows_last", impl=impl)
    b = sinkhorn(logits.mT, impl=impl).mT
    assert torch.equal(a, b)
    assert not torch.allclose(a, sinkhorn(logits, impl=impl), atol=1e-3)


@pytest.mark.parametrize("order", ORDERS)
def test_relabelled_streams(impl, order):
    logits = normal(33, 5, 5, std=2.0, dtype=torch.float32)
    rows, columns = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([1, 4, 0, 2, 3])
    moved = sinkhorn(logits[:, rows][..., columns], order=order, impl=impl)
    want = sinkhorn(logits, order=order, impl=impl)[:, rows][..., columns]
    torch.testing.assert_close(moved, want, rtol=1e-5, atol=1e-6)


def test_shifting_a_row_changes_nothing(impl):
    """Whole numbers, so that the shift itself rounds nothing."""
    logits = normal(33, 4, 4, std=3.0).round()
    shift = torch.tensor([[5.0], [-3.0], [0.0], [64.0]])
    assert torch.equal(sinkhorn(logits + shift, impl=impl), sinkhorn(logits, impl=impl))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("num_iters", [0, 1, 20])
def test_defects_are_those_of_the_result(impl, num_iters, order):
    logits = normal(70, 4, 4, std=4.0)
    options = {"num_iters": num_iters, "order": order, "impl": impl}
    found = sinkhorn(logits, return_defect=True, **options)
    assert isinstance(found, Sinkhorn)
    assert torch.equal(found.h_res, sinkhorn(logits, **options))
    for got, dim in ((found.row_defect, -1), (found.column_defect, -2)):
        sums = found.h_res.double().sum(dim)
        want = (sums - 1).abs().amax(-1)
        # Three additions and a subtraction round to 2^-24 of values up to the largest sum.
        assert (got.double() - want).abs().max() <= 4 * 2.0**-24 * sums.max()
    assert max(found.row_defect.max(), found.column_defect.max()) > 1e-3


def test_an_eps_of_zero_is_no_eps(impl):
    logits, grad = make(20, 4, 2.0)
    want = sinkhorn(logits, eps_mode="none", impl=impl)
    for mode in ("add", "clamp"):
        assert torch.equal(sinkhorn(logits, eps=0.0, eps_mode=mode, impl=impl), want)
        check(impl, logits, grad, eps=0.0, eps_mode=mode)


@pytest.mark.long
@pytest.mark.parametrize("std", [0.1, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("eps_mode", MODES)
def test_wide_grid(impl, eps_mode, order, std):
    for n in WIDE_STREAMS:
        for num_iters in WIDE_ITERATIONS:
            check(
                impl, *make(501, n, std, seed=n), num_iters=num_iters, eps_mode=eps_mode,
                order=order,
            )  # fmt: skip
