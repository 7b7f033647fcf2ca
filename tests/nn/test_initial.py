"""A fresh layer is a plain residual within the bounds that nn/README.md derives."""

import math

import pytest
import torch

from mhc_ops import Convention, expand_streams
from mhc_ops.nn import HyperConnection, StreamHead
from mhc_ops.nn.initial import LEAK

CONVENTIONS = {
    "deepseek_v4": (Convention(), {}),
    "megatron": (Convention.megatron(), {}),
    "hot": (Convention(hc_eps=0.0, temperature=3.0, sinkhorn_eps=1e-4), {}),
    "softmax": (None, {"num_iters": 0}),
    "one": (None, {"num_iters": 1, "eps_mode": "none"}),
}


def draw(*shape):
    return 10 * torch.randn(*shape, generator=torch.Generator().manual_seed(1)).double()


def h_res_of(hc, x):
    h_res = hc.pre(x)[1].h_res
    return torch.eye(x.shape[-2]).double() if h_res is None else h_res


@pytest.mark.parametrize("streams", [1, 2, 4, 6])
@pytest.mark.parametrize(
    ("convention", "options"),
    [
        *CONVENTIONS.values(),
        (Convention(), {"residual": "lite"}),
        (Convention.hy_v4(), {"residual": "identity"}),
    ],
    ids=[*CONVENTIONS, "lite", "identity"],
)
@torch.no_grad()
def test_fresh_layer_is_a_plain_residual(convention, options, streams):
    hc = HyperConnection(7, streams, convention=convention, **options).double()
    x = draw(50, streams, 7)
    eps = hc.sinkhorn_options.get("eps", 0.0)
    rounding = 1e-6  # of bias, drawn up in float32

    h_in, ctx = hc.pre(x)
    mean = x.mean(-2)
    gap = LEAK if streams == 1 else 0.0
    assert float((h_in - mean).abs().max()) <= (gap + rounding) * float(x.abs().max())
    assert float((ctx.h_post - 1).abs().max()) <= rounding
    off = (h_res_of(hc, x) - torch.eye(streams)).abs()
    assert float(off.max()) <= LEAK + streams * eps + rounding
    column = (h_res_of(hc, x).sum(-2) - 1).abs()
    assert float(column.max()) <= streams * eps + rounding

    got, want = hc(x, torch.tanh), x + torch.tanh(h_in)[:, None]
    bound = 2 * (LEAK + streams * eps) + rounding
    assert float((got - want).abs().max()) <= bound * float(x.abs().max())

    # Equal streams, as expand_streams makes them: a plain residual on each.
    h = draw(50, 7)
    got = hc(expand_streams(h, streams), torch.sin)
    want = (h + torch.sin(h * (1 - gap)))[:, None]
    bound = streams * eps + 3 * rounding
    assert float((got - want).abs().max()) <= bound * float(h.abs().max())


@torch.no_grad()
def test_the_bound_of_h_res_is_reached_but_not_by_much():
    hc = HyperConnection(7, 4)
    off = (h_res_of(hc, draw(3, 4, 7).float()) - torch.eye(4)).abs().amax()
    assert 0.99 * LEAK < float(off) < 1.01 * LEAK + 4e-6


def test_streams_part_after_one_step():
    """alpha 0 and a random phi: a fresh model is symmetric in its streams, a trained one is not."""
    torch.manual_seed(0)
    hc, head = HyperConnection(6, 4), StreamHead(6, 4)
    parameters = [*hc.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    h = draw(20, 6).float()
    for _ in range(2):
        optimizer.zero_grad()
        x = hc(expand_streams(h, 4), torch.tanh)
        (head(x) * draw(20, 6).float()).sum().backward()
        optimizer.step()
    x = hc(expand_streams(h, 4), torch.tanh).detach()
    assert float((x[:, 0] - x[:, 1]).abs().max()) > 1e-3
    assert all(p.grad.abs().max() > 0 for p in hc.parameters())


@torch.no_grad()
def test_paper():
    hc = HyperConnection(32, 4, gamma=True, out_bias=True, init="paper")
    assert hc.alpha.tolist() == [pytest.approx(0.01)] * 3
    assert not hc.bias.any()
    assert not hc.out_bias.any()
    assert (hc.gamma == 1).all()
    limit = math.sqrt(6 / (24 + 128))
    assert 0.95 * limit < float(hc.phi.abs().max()) <= limit


@torch.no_grad()
def test_phi_has_unit_logits():
    hc = HyperConnection(128, 4)
    x = torch.randn(256, 4, 128, generator=torch.Generator().manual_seed(2))
    w = torch.nn.functional.normalize(x.flatten(1)) * 512**0.5 @ hc.phi.T
    assert 0.9 < float(w.std()) < 1.1


@pytest.mark.parametrize("streams", [1, 2, 4, 7])
@torch.no_grad()
def test_fresh_head_is_the_mean(streams):
    head = StreamHead(7, streams, eps=1e-4).double()
    x = draw(20, streams, 7)
    gap = LEAK if streams == 1 else 0.0
    assert float((head(x) - x.mean(-2)).abs().max()) <= (gap + 1e-6) * float(x.abs().max())
