"""HiddenParallel and TokenParallel: every kind of module, state dicts, what they refuse."""

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import parallelize_module

from mhc_ops.convention import Convention
from mhc_ops.distributed import HiddenParallel, TokenParallel, shard_model
from mhc_ops.errors import ArgumentError, UnsupportedError
from mhc_ops.nn import HyperConnection, HyperConnectionStack, StreamHead

from .drawn import D, N

KINDS = {
    "usual": {},
    "gamma, bias": {"gamma": True, "out_bias": True},
    "lite": {"residual": "lite"},
    "identity": {"residual": "identity", "out_bias": True},
    "megatron": {"convention": Convention.megatron()},
    "hy_v4": {"convention": Convention.hy_v4(), "residual": "identity"},
    "hf32": {"precision": "hf32"},
}


class Ends(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.hc = HyperConnection(D, N, init="paper", **options)
        self.learned, self.mean = StreamHead(D, N), StreamHead(D, N, learned=False)

    def forward(self, x, by_hand=False):
        if by_hand:
            h_in, ctx = self.hc.pre(x)
            x = self.hc.post(torch.tanh(h_in), ctx)
        else:
            x, _ = self.hc(x, lambda h: (torch.tanh(h), None))
        return x, self.learned(x), self.mean(x)


def made(options):
    torch.manual_seed(2)
    model = Ends(options)
    for p in model.parameters():
        nn.init.uniform_(p, -0.8, 0.9)
    return model


def gradients(model, outputs, upstream):
    torch.autograd.backward(outputs, upstream)
    found = {name: p.grad for name, p in model.named_parameters()}
    return {n: g.full_tensor() if isinstance(g, DTensor) else g for n, g in found.items()}


def every_kind(rank, world, style):
    """As DTensors and as plain shares, the whole module's values and gradients."""
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(5)
    x = torch.randn(2, 6, N, D)
    upstream = [torch.randn(2, 6, N, D), torch.randn(2, 6, D), torch.randn(2, 6, D)]
    for kind, options in KINDS.items():
        whole = made(options)
        outputs = whole(x)
        expected = gradients(whole, outputs, upstream)
        for plain, by_hand in ((False, False), (True, True)):
            if style is TokenParallel and plain:
                continue  # a DTensor comes out whatever goes in
            model = made(options)
            plan = {name: style() for name in ("hc", "learned", "mean")}
            parallelize_module(model, mesh, plan)
            dim = (lambda t: t.dim() - 1) if style is HiddenParallel else (lambda t: 1)
            parts = [distribute_tensor(t, mesh, [Shard(dim(t))]) for t in (x, *upstream)]
            if plain:
                parts = [t.to_local() for t in parts]
            found = model(parts[0], by_hand)
            got = gradients(model, found, parts[1:])
            for ours, right, part in zip(found, outputs, parts[1:], strict=True):
                assert type(ours) is type(part)
                right = right if not plain else right.chunk(world, -1)[rank]
                ours = ours.full_tensor() if isinstance(ours, DTensor) else ours
                torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-4, msg=kind)
            for name, right in expected.items():
                ours = got[name].flatten(1) if got[name].dim() == 3 else got[name]
                limit = 1e-4 * float(right.abs().max())
                torch.testing.assert_close(ours, right, rtol=1e-4, atol=limit, msg=kind + name)


def plain_tokens(rank, world):
    """TokenParallel takes this rank's plain tokens, and tokens that lie otherwise."""
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(5)
    x = torch.randn(2, 6, N, D)
    expected = made({})(x)[1]
    model = made({})
    parallelize_module(model, mesh, {n: TokenParallel(1) for n in ("hc", "learned", "mean")})
    assert torch.equal(model(x.chunk(world, 1)[rank])[1].full_tensor(), expected)
    for placement in (Shard(3), Replicate()):
        found = model(distribute_tensor(x, mesh, [placement]))[1]
        assert torch.equal(found.full_tensor(), expected)


def states(rank, world):
    """A plain state dict goes in; a whole one comes out, under FSDP2 on top of it too."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    given = made({"gamma": True}).state_dict()
    torch.manual_seed(rank)  # other values until they are loaded
    model = Ends({"gamma": True})
    parallelize_module(model, mesh["tp"], {n: HiddenParallel() for n in ("hc", "learned")})
    model.load_state_dict(given)
    shard_model(model, mesh=mesh["dp"])
    model(torch.randn(2, N, D // 2))
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    if rank == 0:
        assert full.keys() == given.keys()
        for name, t in full.items():
            assert torch.equal(t.flatten(1) if t.dim() == 3 else t, given[name]), name
    again = Ends({"gamma": True})
    parallelize_module(again, mesh["tp"], {n: HiddenParallel() for n in ("hc", "learned")})
    again.load_state_dict({k: v.clone() for k, v in given.items()})
    assert torch.equal(again.hc.phi.full_tensor().flatten(1), model.hc.phi.full_tensor().flatten(1))


def refusals(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    for style in (HiddenParallel(), TokenParallel()):
        with pytest.raises(ArgumentError, match="takes a HyperConnection or a StreamHead, got Li"):
            parallelize_module(nn.Linear(2, 2), mesh, style)
    with pytest.raises(ArgumentError, match="divisible by the 2 ranks of the mesh, got 7"):
        parallelize_module(HyperConnection(7, N), mesh, HiddenParallel())
    with pytest.raises(UnsupportedError, match="impl='cpu' computes gates and sums in one go"):
        parallelize_module(HyperConnection(D, N, impl="cpu"), mesh, HiddenParallel())
    connection = parallelize_module(HyperConnection(D, N), mesh, HiddenParallel())
    with pytest.raises(UnsupportedError, match="draw initial values before parallelize_module"):
        connection.reset_parameters()
    mean = parallelize_module(StreamHead(D, N, learned=False), mesh, TokenParallel())
    with pytest.raises(ArgumentError, match=r"got dim=1 and x \[3, 4, 8\]"):
        mean(torch.randn(3, 4, 8))
    stack = HyperConnectionStack([nn.Tanh(), nn.Tanh()], connections=[connection] * 2)
    with pytest.raises(UnsupportedError, match="no boundary operator"):
        stack(torch.randn(3, N, D // 2))


@pytest.mark.parametrize("style", [HiddenParallel, TokenParallel])
def test_every_kind(ranks, style):
    ranks.run(2, every_kind, style)


@pytest.mark.parametrize("check", [plain_tokens, refusals])
def test_on_two(ranks, check):
    ranks.run(2, check)


def test_states(ranks):
    ranks.run(4, states)
