"""What torch does with modules: copies, pickles, functional calls, parametrizations, compile."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

from mhc_ops import Convention
from mhc_ops.nn import ExpandStreams, HyperConnection, StreamHead

from .unfused import disturb, gradients


class Model(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.expand = ExpandStreams(4)
        self.hc = nn.ModuleList(HyperConnection(8, 4, **options) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.head = StreamHead(8, 4)

    def forward(self, h):
        x = self.expand(h)
        for hc, mlp in zip(self.hc, self.mlp, strict=True):
            x = hc(x, mlp)
        return self.head(x)


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2)).requires_grad_()


def same(a, b, h):
    assert torch.equal(a(h), b(h))
    for x, y in zip(gradients(a(h), a, h), gradients(b(h), b, h), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize(
    "options",
    [{}, {"residual": "lite", "gamma": True}, {"residual": "identity", "out_bias": True}],
)
def test_copies_and_pickles(options):
    model, h = disturb(Model(convention=Convention.hy_v4(), **options)), draw(3, 8)
    same(model, copy.deepcopy(model), h)
    same(model, pickle.loads(pickle.dumps(model)), h)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    same(model, torch.load(buffer, weights_only=False), h)
    assert repr(copy.deepcopy(model)) == repr(model)


def test_state_dict_holds_the_parameters_alone():
    hc = HyperConnection(8, 4, gamma=True, out_bias=True, dropout=0.5)
    assert list(hc.state_dict()) == ["phi", "alpha", "bias", "gamma", "out_bias"]
    assert list(HyperConnection(8, 4).state_dict()) == ["phi", "alpha", "bias"]
    assert list(StreamHead(8, 4).state_dict()) == ["fn", "base", "scale"]
    assert not StreamHead(8, 4, learned=False).state_dict()
    model, h = disturb(Model()), draw(3, 8)
    other = Model()
    assert not torch.equal(model(h), other(h))
    other.load_state_dict(model.state_dict())
    same(model, other, h)


def test_functional_call_and_per_sample_gradients():
    hc, x = disturb(HyperConnection(8, 4)), draw(3, 4, 8)
    parameters = {n: p.detach() for n, p in hc.named_parameters()}
    got = torch.func.functional_call(hc, {**parameters, "bias": 2 * hc.bias}, (x, torch.tanh))
    other = copy.deepcopy(hc)
    with torch.no_grad():
        other.bias.mul_(2)
    assert torch.equal(got, other(x, torch.tanh))

    weight = draw(3, 4, 8).detach()

    def loss(parameters, x, weight):
        out = torch.func.functional_call(hc, parameters, (x[None], torch.tanh))
        return (out[0] * weight).sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, x.detach(), weight)
    whole = torch.autograd.grad(hc(x, torch.tanh), list(hc.parameters()), weight)
    for got, want in zip(each.values(), whole, strict=True):
        torch.testing.assert_close(got.sum(0), want)


class Doubled(nn.Module):
    def forward(self, phi):
        return 2 * phi


def test_parametrizations():
    hc, x = disturb(HyperConnection(8, 4)), draw(3, 4, 8)
    twin = copy.deepcopy(hc)
    with torch.no_grad():
        twin.phi.mul_(2)
    parametrize.register_parametrization(hc, "phi", Doubled())
    assert torch.equal(hc(x, torch.tanh), twin(x, torch.tanh))
    hc.bfloat16()
    assert hc.parametrizations.phi.original.dtype == torch.float32
    assert torch.equal(hc(x, torch.tanh), twin(x, torch.tanh))


def test_checkpoint():
    model, h = disturb(Model()), draw(3, 8)
    x = model.expand(h)
    hc, mlp = model.hc[0], model.mlp[0]
    got = checkpoint(hc, x, mlp, use_reentrant=False)
    want = hc(x, mlp)
    assert torch.equal(got, want)
    for a, b in zip(gradients(got, hc, h), gradients(want, hc, h), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    "options", [{}, {"residual": "lite"}, {"residual": "identity", "gamma": True}]
)
def test_one_graph(options):
    torch._dynamo.reset()
    model, h = disturb(Model(**options)), draw(5, 8)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(h), model(h), rtol=1e-6, atol=1e-6)
    for a, b in zip(gradients(compiled(h), model, h), gradients(model(h), model, h), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(compiled(h), model(h), rtol=1e-6, atol=1e-6)


def test_export():
    model, h = disturb(Model()), draw(5, 8).detach()
    exported = torch.export.export(model, (h,))
    torch.testing.assert_close(exported.module()(h), model(h), rtol=1e-6, atol=1e-6)
