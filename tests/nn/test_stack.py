"""HyperConnectionStack: the values and gradients of its layers one after the other."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

from mhc_ops import Convention
from mhc_ops.errors import ArgumentError
from mhc_ops.nn import HyperConnection, HyperConnectionStack
from mhc_ops.testing import strided

from .unfused import disturb, gradients, layer

OPTIONS = {
    "plain": {},
    "gamma": {"gamma": True, "num_iters": 3},
    "lite": {"residual": "lite"},
    "identity": {"residual": "identity", "out_bias": True},
    "megatron": {"convention": replace(Convention.megatron(), norm_eps=1e-2)},
}


class Sublayer(nn.Module):
    """A linear map and a tanh."""

    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, h, *, factor=1.0):
        return factor * torch.tanh(self.linear(h))


def draw(*shape, dtype=torch.float64, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()


def make(k, sublayers=5, dim=8, streams=4, dtype=torch.float32, seed=0, **options):
    stack = HyperConnectionStack(
        [Sublayer(dim) for _ in range(sublayers)], dim, streams, recompute_every=k, **options
    )
    return disturb(stack, seed).to(dtype)


def unfused(stack, x, **kwargs):
    for connection, sublayer in zip(stack.connections, stack.sublayers, strict=True):
        x = layer(connection, x, lambda h, f=sublayer: f(h, **kwargs))
    return x


def same_bits(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equals_the_unfused_layers(options, k):
    stack, x = make(k, streams=3, dtype=torch.float64, **options), draw(2, 3, 3, 8)
    got, want = stack(x, factor=0.5), unfused(stack, x, factor=0.5)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("impl", ["auto", "torch", "reference"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_recomputing_gives_the_same_bits(options, dtype, impl):
    x = draw(6, 4, 8, dtype=dtype)
    plain = make(1, sublayers=8, dtype=dtype, impl=impl, **options)
    want = plain(x)
    grads = gradients(want, plain, x)
    looped = x
    for connection, sublayer in zip(plain.connections, plain.sublayers, strict=True):
        looped = connection(looped, sublayer)
    assert torch.equal(looped, want)
    for k in (2, 3, 4, 8, 20):
        stack = make(k, sublayers=8, dtype=dtype, impl=impl, **options)
        calls = []
        for sublayer in stack.sublayers:
            sublayer.register_forward_hook(lambda module, *_: calls.append(module))  # noqa: B023
        got = stack(x)
        assert torch.equal(got, want)
        same_bits(gradients(got, stack, x), grads)
        assert calls == list(stack.sublayers)


@pytest.mark.parametrize("sublayers", [1, 2, 3, 4])
def test_short_stacks(sublayers):
    x = draw(3, 4, 8, dtype=torch.float32)
    plain, stack = make(1, sublayers), make(3, sublayers)
    assert torch.equal(stack(x), plain(x))
    same_bits(gradients(stack(x), stack, x), gradients(plain(x), plain, x))


@pytest.mark.parametrize("k", [1, 2])
def test_layouts_strides_and_no_tokens(k):
    stack, x = make(k), draw(2, 3, 4, 8, dtype=torch.float32).detach()
    want = stack(x)
    assert torch.equal(stack(x.flatten(0, 1)).view(x.shape), want)
    assert torch.equal(stack(strided(x)), want)
    none = x[:, :0].clone().requires_grad_()
    grads = gradients(stack(none), stack, none)
    assert grads[0].shape == (2, 0, 4, 8)
    assert not any(g.any() for g in grads)
    with torch.no_grad():
        assert torch.equal(stack(x), want)
        assert not stack(x).requires_grad


@pytest.mark.parametrize("k", [2, 4])
def test_dropout_is_kept_not_drawn_again(k):
    x = draw(6, 4, 8, dtype=torch.float32)
    results = []
    for every in (1, k):
        stack = make(every, dropout=0.3, out_bias=True)
        torch.manual_seed(3)
        out = stack(x)
        results.append((out, *gradients(out, stack, x)))
    same_bits(*results)
    assert not torch.equal(results[0][0], make(1, out_bias=True)(x))


def test_subsets_of_gradients():
    x = draw(6, 4, 8, dtype=torch.float32)
    for frozen in ("", "sublayers", "connections", "phi", "connections.1", "sublayers.2"):
        grads = []
        for k in (1, 3):
            stack = make(k)
            for name, p in stack.named_parameters():
                p.requires_grad_(not frozen or frozen not in name)
            kept = [p for p in stack.parameters() if p.requires_grad]
            upstream = draw(6, 4, 8, dtype=torch.float32, seed=8).detach()
            for inputs in (kept, [x, *kept], kept[-1:]):
                source = x if any(i is x for i in inputs) else x.detach()
                grads.append(torch.autograd.grad(stack(source), inputs, upstream))
        for a, b in zip(grads[:3], grads[3:], strict=True):
            same_bits(a, b)
    stack.requires_grad_(False)
    assert not stack(x.detach()).requires_grad


class WithWeights(Sublayer):
    """Returns its input beside the output, as attention returns its weights."""

    def forward(self, h):
        return super().forward(h), h, None


def with_weights(k):
    sublayers = [WithWeights(8) if i % 2 else Sublayer(8) for i in range(5)]
    return disturb(HyperConnectionStack(sublayers, 8, 4, recompute_every=k))


def test_what_sublayers_return_beside():
    x = draw(6, 4, 8, dtype=torch.float32)
    plain, stack = with_weights(1), with_weights(3)
    out, extras = stack(x)
    want, seen = plain(x)
    assert torch.equal(out, want)
    assert [len(e) for e in extras] == [0, 2, 0, 2, 0]
    assert torch.equal(extras[3][0], seen[3][0])
    assert extras[3][1] is None


@pytest.mark.parametrize("which", [1, 3])
def test_a_loss_on_the_way_needs_no_later_boundary(which):
    """Boundaries after the loss never run backward: those before rebuild x by themselves."""
    x = draw(6, 4, 8, dtype=torch.float32)
    upstream = draw(6, 8, dtype=torch.float32, seed=9).detach()
    grads = []
    for k in (1, 5):
        stack = with_weights(k)
        auxiliary = stack(x)[1][which][0]
        inputs = [x, stack.connections[0].phi, stack.sublayers[0].linear.weight]
        grads.append(torch.autograd.grad(auxiliary, inputs, upstream))
    same_bits(*grads)


def test_backward_twice_and_in_part():
    x = draw(6, 4, 8, dtype=torch.float32)
    stack, plain = make(4, 8), make(1, 8)
    out, want = stack(x), plain(x)
    upstream = torch.ones_like(out)
    late = [stack.connections[6].phi], [plain.connections[6].phi]
    same_bits(
        torch.autograd.grad(out, late[0], upstream, retain_graph=True),
        torch.autograd.grad(want, late[1], upstream, retain_graph=True),
    )
    grads = [
        torch.autograd.grad(o, [x, *s.parameters()], upstream, retain_graph=True)
        for o, s in ((want, plain), (out, stack), (out, stack))
    ]
    same_bits(grads[1], grads[0])
    same_bits(grads[2], grads[0])


def test_second_derivatives_need_every_x():
    x = draw(2, 2, 3)
    stack = make(1, 3, dim=3, streams=2, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(stack, x)
    stack = make(2, 3, dim=3, streams=2, dtype=torch.float64)
    (grad,) = torch.autograd.grad(stack(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_a_write_changed_in_place_is_noticed():
    class Reuses(nn.Module):
        def __init__(self):
            super().__init__()
            self.buffer = torch.zeros(3, 8)

        def forward(self, h):
            self.buffer.copy_(h.detach())
            return self.buffer

    shared = Reuses()
    stack = HyperConnectionStack([shared, shared, shared], 8, 4, recompute_every=3)
    out = stack(draw(3, 4, 8, dtype=torch.float32))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward(torch.ones_like(out))


def test_given_connections_may_differ():
    x = draw(3, 4, 8)
    connections = [
        HyperConnection(8, 4, **o) for o in (OPTIONS["lite"], OPTIONS["identity"], OPTIONS["gamma"])
    ]
    sublayers = [Sublayer(8) for _ in range(3)]
    for k in (1, 3):
        stack = HyperConnectionStack(sublayers, connections=connections, recompute_every=k)
        disturb(stack.double())
        got, want = stack(x), unfused(stack, x)
        for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


def test_copies_state_and_repr():
    stack, x = make(2), draw(3, 4, 8, dtype=torch.float32)
    stack(x).sum().backward()
    for twin in (copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))):
        assert torch.equal(twin(x), stack(x))
        assert repr(twin) == repr(stack)
    names = list(stack.state_dict())
    assert "connections.4.phi" in names
    assert "sublayers.0.linear.weight" in names
    assert len(names) == 5 * (3 + 2)
    assert "recompute_every=2" in repr(stack)
    doubled = {n: 2 * p.detach() for n, p in stack.named_parameters()}
    got = torch.func.functional_call(stack, doubled, (x,))
    stack.load_state_dict(doubled)
    assert torch.equal(got, stack(x))


@pytest.mark.parametrize(
    ("sublayers", "options", "text"),
    [
        (1, {}, "dim and streams must be integers .* got None and None"),
        (0, {"dim": 8, "streams": 4}, "at least one sublayer, got 0 for 0"),
        (1, {"dim": 8, "streams": 4, "recompute_every": 0}, "must be an integer >= 1, got 0"),
        (2, {"connections": [HyperConnection(8, 4)]}, "got 1 for 2"),
        (1, {"connections": [HyperConnection(8, 4)], "dim": 8}, "no effect on given connections"),
        (1, {"connections": [HyperConnection(8, 4)], "gamma": True}, "no effect on given"),
    ],
)
def test_errors(sublayers, options, text):
    with pytest.raises(ArgumentError, match=f"^HyperConnectionStack: .*{text}"):
        HyperConnectionStack([Sublayer(8) for _ in range(sublayers)], **options)
