"""Composed gains against their definition on maps whose sums differ in both directions."""

import pytest
import torch

from mhc_ops.monitor.gains import gains_of


def test_by_hand():
    """out[to] = sum over from of h_res[from, to] x[from]: only stream 2 receives, threefold."""
    one = torch.tensor([[0.0, 1.0], [0.0, 2.0]])
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    gains = gains_of([one, swap])
    assert gains.single_forward == (3.0, 1.0)
    assert gains.single_backward == (2.0, 1.0)
    assert gains.forward == (3.0, 3.0)
    assert gains.backward == (2.0, 1.0)


def test_against_a_signal_and_a_gradient():
    torch.manual_seed(0)
    maps = [torch.randn(3, 3, dtype=torch.float64) for _ in range(5)]
    gains = gains_of(maps)
    for depth in range(5):
        x = torch.eye(3, dtype=torch.float64)  # [which stream is 1, stream]
        for this in maps[: depth + 1]:
            x = torch.einsum("ft,bf->bt", this, x)
        assert gains.forward[depth] == pytest.approx(x.abs().sum(0).max().item(), rel=1e-12)
        g = torch.eye(3, dtype=torch.float64)
        for this in reversed(maps[depth:]):
            g = torch.einsum("ft,bt->bf", this, g)
        assert gains.backward[depth] == pytest.approx(g.abs().sum(0).max().item(), rel=1e-12)


def test_doubly_stochastic_maps_have_gain_one():
    maps = [torch.eye(4)[torch.randperm(4)] * 0.7 + 0.3 / 4 for _ in range(9)]
    assert all(g == pytest.approx(1.0, rel=1e-6) for row in gains_of(maps) for g in row)
