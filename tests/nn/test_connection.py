"""HyperConnection: its values and gradients are those of the layer written out in plain torch."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from mhc_ops import Convention, mhc_post, mhc_pre, sinkhorn
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError
from mhc_ops.nn import HyperConnection, HyperConnectionContext
from mhc_ops.testing import strided

from .unfused import disturb, gradients, layer

OPTIONS = {
    "plain": {},
    "gamma": {"gamma": True},
    "out_bias": {"out_bias": True},
    "lite": {"residual": "lite", "gamma": True},
    "identity": {"residual": "identity"},
    "hy_v4": {"residual": "identity", "convention": Convention.hy_v4(magnitude=1.5)},
    "megatron": {"convention": replace(Convention.megatron(), norm_eps=1e-2, num_iters=2)},
    "transformer_engine": {"convention": Convention.transformer_engine(), "num_iters": 20},
    "sinkhorn": {"num_iters": 3, "eps": 1e-2, "temperature": 0.7},
}


def draw(*shape, dtype=torch.float64, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()


@pytest.mark.parametrize("streams", [1, 3, 4])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equals_the_unfused_layer(options, streams):
    hc = disturb(HyperConnection(5, streams, **options).double())
    x, weight = draw(2, 3, streams, 5), draw(5, 5, seed=6)

    def sublayer(h):
        return torch.tanh(h @ weight)

    got, want = hc(x, sublayer), layer(hc, x, sublayer)
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)
    for a, b in zip(gradients(got, hc, x, weight), gradients(want, hc, x, weight), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


def test_options_of_sinkhorn_come_from_either_side():
    theirs = Convention(num_iters=3, order="rows_last", sinkhorn_eps=1e-3)
    hc = disturb(HyperConnection(6, 4, convention=theirs))
    twin = disturb(HyperConnection(6, 4, num_iters=3, order="rows_last", eps=1e-3))
    assert hc.convention == twin.convention == theirs
    x = draw(3, 4, 6, dtype=torch.float32)
    assert torch.equal(hc(x, torch.tanh), twin(x, torch.tanh))
    assert not torch.equal(hc(x, torch.tanh), disturb(HyperConnection(6, 4))(x, torch.tanh))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_is_the_operators_bit_for_bit(dtype):
    hc = disturb(HyperConnection(33, 4, gamma=True, num_iters=7))
    x = draw(6, 4, 33, dtype=dtype)
    h_in, h_post, logits, handed_on = mhc_pre(x, hc.phi, hc.alpha, hc.bias, hc.gamma)
    want = mhc_post(handed_on, sinkhorn(logits, num_iters=7), torch.tanh(h_in), h_post)
    got = hc(x, torch.tanh)
    assert got.dtype == dtype
    assert torch.equal(got, want)
    for a, b in zip(gradients(got, hc, x), gradients(want, hc, x), strict=True):
        assert torch.equal(a, b)


def test_layouts_strides_and_no_tokens():
    hc = disturb(HyperConnection(6, 4))
    x = draw(2, 3, 4, 6, dtype=torch.float32).detach()
    want = hc(x, torch.tanh)
    assert torch.equal(hc(x.flatten(0, 1), torch.tanh).view(x.shape), want)
    assert torch.equal(hc(strided(x), torch.tanh), want)
    assert hc(x[:, :0], torch.tanh).shape == (2, 0, 4, 6)


def test_pre_and_post_are_the_halves_of_forward():
    hc = disturb(HyperConnection(6, 4))
    x = draw(3, 4, 6, dtype=torch.float32)
    h_in, ctx = hc.pre(x)
    assert isinstance(ctx, HyperConnectionContext)
    assert h_in.shape == (3, 6)
    assert ctx.h_res.shape == (3, 4, 4)
    assert ctx.h_post.shape == (3, 4)
    assert torch.equal(hc.post(torch.tanh(h_in), ctx), hc(x, torch.tanh))
    bias = draw(6, dtype=torch.float32)
    want = mhc_post(ctx.x, ctx.h_res, torch.tanh(h_in), ctx.h_post, bias=bias)
    assert torch.equal(hc.post(torch.tanh(h_in), ctx, bias=bias), want)
    assert torch.equal(hc.post(torch.tanh(h_in).double(), ctx), hc(x, torch.tanh))


class Pair(NamedTuple):
    hidden: torch.Tensor
    weights: str


def test_arguments_pass_and_tuples_come_back_with_the_new_x():
    hc = disturb(HyperConnection(6, 4))
    x = draw(3, 4, 6, dtype=torch.float32)
    want = hc(x, lambda h: 2 * h)
    assert torch.equal(hc(x, lambda h, factor, *, shift: factor * h + shift, 2, shift=0), want)
    got = hc(x, lambda h: (2 * h, "weights", None))
    assert torch.equal(got[0], want)
    assert got[1:] == ("weights", None)
    got = hc(x, lambda h: Pair(2 * h, "weights"))
    assert isinstance(got, Pair)
    assert torch.equal(got.hidden, want)
    assert got.weights == "weights"
    with pytest.raises(ArgumentError, match=r"^mhc_post: h_out must be a tensor, got dict"):
        hc(x, lambda h: {"hidden": h})


@pytest.mark.parametrize("out_bias", [False, True])
def test_dropout_acts_on_the_sublayer_alone_and_in_training_alone(out_bias):
    hc = HyperConnection(512, 2, residual="identity", dropout=0.25, out_bias=out_bias)
    if out_bias:
        nn.init.constant_(hc.out_bias, 3.0)
    x = torch.zeros(16, 2, 512)

    def ones(h):
        return torch.ones_like(h)

    level = 4.0 if out_bias else 1.0  # h_post is 1 in a fresh layer
    torch.testing.assert_close(hc.eval()(x, ones), torch.full_like(x, level))
    dropped = hc.train()(x, ones)
    assert torch.equal(dropped[:, 0], dropped[:, 1])
    kept = dropped[:, 0] != 0
    torch.testing.assert_close(
        dropped[:, 0][kept], torch.full_like(dropped[:, 0][kept], level / 0.75)
    )
    # 8192 draws: the share of zeros is 0.25 with a standard deviation of 0.0048.
    assert abs(float((~kept).double().mean()) - 0.25) < 6 * 0.0048


def test_unlike_logits_tell_the_directions_of_h_res_apart():
    hc = disturb(HyperConnection(4, 3, num_iters=500).double()).requires_grad_(False)
    with torch.no_grad():
        hc.bias[6:] = 3 * draw(9, seed=8).detach()
    x = draw(5, 3, 4).detach()
    _, ctx = hc.pre(x)
    mixed = hc.post(torch.zeros(5, 4, dtype=torch.float64), ctx)
    torch.testing.assert_close(mixed, torch.einsum("tij,tid->tjd", ctx.h_res, x))
    assert float((mixed - torch.einsum("tji,tid->tjd", ctx.h_res, x)).abs().max()) > 0.1
    # Rows sum to 1, and so the sum over the streams is kept.
    torch.testing.assert_close(mixed.sum(1), x.sum(1), rtol=1e-3, atol=1e-3)


def test_frozen_parameters_get_no_gradient():
    hc = disturb(HyperConnection(6, 4))
    hc.requires_grad_(False)
    hc.bias.requires_grad_()
    hc(draw(3, 4, 6, dtype=torch.float32), torch.tanh).backward(torch.ones(3, 4, 6))
    assert hc.phi.grad is None
    assert hc.alpha.grad is None
    assert hc.bias.grad is not None


def test_repr_names_what_differs_from_the_defaults():
    assert repr(HyperConnection(8, 4)) == (
        "HyperConnection(dim=8, streams=4, residual='sinkhorn', init='residual')"
    )
    text = repr(
        HyperConnection(
            8, 4, True, out_bias=True, dropout=0.1, init="paper",
            convention=replace(Convention.liger(), num_iters=10), precision="hf32", impl="torch",
        )
    )  # fmt: skip
    for part in (
        *("gamma=True", "out_bias=True", "dropout=0.1", "init='paper'"),
        "convention=Convention(hc_eps=0.0, res_rows='to_from', num_iters=10, order='rows_last')",
        *("precision='hf32'", "impl='torch'"),
    ):
        assert part in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dim": 0}, "dim must be an integer >= 1, got 0"),
        ({"streams": 2.0}, "streams must be an integer >= 1, got 2.0"),
        ({"residual": "mix"}, "residual must be one of 'sinkhorn', 'lite', 'identity', got 'mix'"),
        ({"init": "zero"}, "init must be one of 'residual', 'paper', got 'zero'"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"num_iters": -1}, r"num_iters must be in 0..1000, got -1"),
        ({"residual": "lite", "streams": 7}, r"up to 6 streams \(N! rows\), got 7"),
        ({"residual": "lite", "num_iters": 3}, "would have no effect on 'lite'"),
        ({"residual": "identity", "eps": 0.1}, "would have no effect on 'identity'"),
        ({"precision": "fp8"}, "precision must be one of 'fp32', 'hf32'"),
        ({"impl": "gpu"}, "impl must be one of"),
        ({"convention": "cann"}, "convention must be a Convention"),
        ({"convention": Convention(num_iters=5), "num_iters": 6}, "num_iters=6 contradicts"),
        ({"convention": Convention(hc_eps=0.3)}, "needs hc_eps < 1/N"),
        ({"convention": Convention(post_scale=0.5)}, "use init='paper'"),
    ],
)
def test_errors(options, text):
    with pytest.raises(ArgumentError, match=f"^HyperConnection: .*{text}"):
        HyperConnection(**{"dim": 8, "streams": 4, **options})


def test_errors_of_calls():
    hc = HyperConnection(8, 4, out_bias=True)
    x = torch.zeros(2, 4, 8)
    with pytest.raises(ShapeError, match=r"phi must be \[F, N\*D\]"):
        hc(x[:, :3], torch.tanh)
    with pytest.raises(DtypeError, match=r"phi must be torch.float64"):
        hc(x.double(), torch.tanh)
    h_in, ctx = hc.pre(x)
    with pytest.raises(ArgumentError, match=r"^HyperConnection.post: bias must be None"):
        hc.post(h_in, ctx, bias=torch.zeros(8))
