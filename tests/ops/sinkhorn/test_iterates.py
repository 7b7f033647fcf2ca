"""The iterates and the backward from them: against plain loops, and autograd, in float64."""

import math

import pytest
import torch

from mhc_ops import sinkhorn
from mhc_ops.ops.sinkhorn.iterates import Iterates, backward_from_iterates, sinkhorn_iterates


def logits(*lead, n=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*lead, n, n, generator=generator, dtype=torch.float64) * 2


def looped(x, num_iters, eps):
    """Matrices and sums of one token, entry by entry, as the specification writes them."""
    n = len(x)
    rows = range(n)
    e = [[math.exp(x[i][j] - max(x[i])) for j in rows] for i in rows]
    sums = [[sum(e[i]) for i in rows]]
    norms = [[[e[i][j] / sums[0][i] for j in rows] for i in rows]]
    h = [[norms[0][i][j] + eps for j in rows] for i in rows]
    for it in range(num_iters):
        if it:
            r = [sum(h[i]) + eps for i in rows]
            h = [[h[i][j] / r[i] for j in rows] for i in rows]
            sums.append(r)
            norms.append(h)
        c = [sum(h[i][j] for i in rows) + eps for j in rows]
        h = [[h[i][j] / c[j] for j in rows] for i in rows]
        sums.append(c)
        norms.append(h)
    return norms, sums


@pytest.mark.parametrize("num_iters", [1, 2, 5])
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_iterates_are_those_of_the_equations(num_iters, eps):
    x = logits(2, 3)
    got = sinkhorn_iterates(x, num_iters=num_iters, eps=eps)
    assert got.norm.shape == (2 * num_iters, 2, 3, 3, 3)
    assert got.sum.shape == (2 * num_iters, 2, 3, 3)
    for b in range(2):
        for t in range(3):
            norms, sums = looped(x[b, t].tolist(), num_iters, eps)
            assert got.norm[:, b, t].tolist() == [
                [pytest.approx(row, rel=1e-13) for row in matrix] for matrix in norms
            ]
            assert got.sum[:, b, t].tolist() == [pytest.approx(s, rel=1e-13) for s in sums]
    assert torch.equal(got.norm[-1], sinkhorn(x, num_iters=num_iters, eps=eps, impl="reference"))


@pytest.mark.parametrize("num_iters", [1, 2, 7])
@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.2])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_the_backward_from_iterates_is_the_gradient(num_iters, eps, n):
    x = logits(6, n=n).requires_grad_()
    y = sinkhorn(x, num_iters=num_iters, eps=eps, impl="reference")
    upstream = logits(6, n=n, seed=1)
    (want,) = torch.autograd.grad(y, x, upstream)
    saved = sinkhorn_iterates(x.detach(), num_iters=num_iters, eps=eps)
    got = backward_from_iterates(upstream, saved)
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-12)


def test_the_sum_of_the_exponentials_is_not_used():
    saved = sinkhorn_iterates(logits(4), num_iters=2)
    blind = Iterates(saved.norm, torch.cat([saved.sum[:1] * torch.nan, saved.sum[1:]]))
    upstream = logits(4, seed=1)
    assert torch.equal(
        backward_from_iterates(upstream, blind), backward_from_iterates(upstream, saved)
    )


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="num_iters must be at least 1, got 0"):
        sinkhorn_iterates(logits(4), num_iters=0)
    with pytest.raises(ValueError, match=r"sinkhorn_iterates: eps must be in \[0, 1\)"):
        sinkhorn_iterates(logits(4), eps=1.0)
    saved = sinkhorn_iterates(logits(4), num_iters=2)
    for wrong in (
        Iterates(saved.norm, saved.sum[:2]),
        Iterates(saved.norm[:3], saved.sum[:3]),
        Iterates(saved.norm, saved.sum[:, :3]),
    ):
        with pytest.raises(ValueError, match="norm and sum must be"):
            backward_from_iterates(logits(4), wrong)
    with pytest.raises(ValueError, match="backward_from_iterates: grad_h_res must be"):
        backward_from_iterates(logits(5), saved)
