"""shard_model: mixed precision, the ways to call mHC modules, checkpointing, what it refuses."""

import warnings

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from mhc_ops.distributed import shard_model
from mhc_ops.errors import ArgumentError, DtypeError
from mhc_ops.nn import HyperConnection, HyperConnectionStack, StreamHead
from mhc_ops.nn.parameters import Float32Module

from .model import Mlp, loss_of, make_model, tokens
from .plans import whole

BFLOAT16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def gradients_of(run, model, rank, world):
    """Whole gradients of a step on this rank's part of the batch, twice: accumulated."""
    found = {}
    for _ in range(2):
        inputs, targets = (t.chunk(world)[rank] for t in tokens(0))
        loss_of(run(inputs), targets).backward()
    for name, p in model.named_parameters():
        found[name.replace("_checkpoint_wrapped_module.", "")] = whole(p.grad)
    return found


def mixed_precision(rank, world):
    """mHC parameters reach the operators and are reduced in float32; the rest is bfloat16."""
    mesh = init_device_mesh("cpu", (world,))
    model = make_model()
    seen = []
    for module in model.modules():
        if isinstance(module, Float32Module):
            module.register_forward_hook(
                lambda module, args, out: seen.extend(
                    [args[0].dtype, out.dtype, *(p.dtype for p in module.parameters(False))]
                )
            )
    model.blocks[0].mlp.register_forward_hook(
        lambda module, args, out: seen.append(module.up.weight.dtype)
    )
    shard_model(model, mesh=mesh, blocks=model.blocks, mp_policy=BFLOAT16)
    found = gradients_of(model, model, rank, world)
    streams = torch.bfloat16
    assert seen.count(streams) == 2 * (2 * 5 + 1)  # x in, x out; and mlp.up.weight
    assert seen.count(torch.float32) == 2 * (2 * 7 + 3)
    assert all(t.dtype == torch.float32 for t in found.values())
    whole_model = make_model()
    inputs, targets = tokens(0)
    for _ in range(2):
        loss_of(whole_model(inputs), targets).backward()
    right = torch.cat([p.grad.flatten() for p in whole_model.parameters()])
    ours = torch.cat([found[name].flatten() for name, _ in whole_model.named_parameters()])
    assert (ours - right).norm() < 0.05 * right.norm()  # some ten roundings to 8 bits in a row

    plain = make_model()
    fully_shard(plain, mesh=mesh, mp_policy=BFLOAT16)
    with pytest.raises(DtypeError, match="exclude them from"):
        plain(inputs)


class Stacked(nn.Module):
    """The model of model.py with all sublayers in one stack, or called through pre and post."""

    def __init__(self, by_hand, recompute_every=1):
        super().__init__()
        model = make_model()
        self.first, self.last, self.by_hand = model.first, model.last, by_hand
        sublayers = [s for b in model.blocks for s in (b.attention, b.mlp)]
        connections = [c for b in model.blocks for c in (b.hc1, b.hc2)]
        self.stack = HyperConnectionStack(
            sublayers, connections=connections, recompute_every=recompute_every
        )

    def forward(self, inputs):
        x = self.first(inputs)
        if not self.by_hand:
            return self.last(self.stack(x))
        for connection, sublayer in zip(self.stack.connections, self.stack.sublayers, strict=True):
            h_in, ctx = connection.pre(x)
            x = connection.post(sublayer(h_in), ctx)
        return self.last(x)


def ways_to_call(rank, world):
    """The same gradients by forward, by a stack, by pre and post, and with blocks recomputed."""
    mesh = init_device_mesh("cpu", (world,))
    model = make_model()
    shard_model(model, mesh=mesh, blocks=model.blocks)
    expected = gradients_of(model, model, rank, world)
    again = make_model()
    for i, block in enumerate(again.blocks):
        again.blocks[i] = checkpoint_wrapper(block)
    shard_model(again, mesh=mesh, blocks=again.blocks)
    recomputed = gradients_of(again, again, rank, world)
    assert all(torch.equal(recomputed[name], t) for name, t in expected.items())
    for by_hand, every, blocks in ((True, 1, False), (False, 1, True), (False, 2, False)):
        other = Stacked(by_hand, every)
        shard_model(other, mesh=mesh, blocks=[other.stack] if blocks else ())
        found = gradients_of(other, other, rank, world)
        for name, t in found.items():
            right = expected[in_blocks(name)]
            torch.testing.assert_close(t, right, rtol=1e-4, atol=1e-4 * float(right.abs().max()))


def in_blocks(name):
    """The name in model.py's model of a parameter of Stacked."""
    part, number, *rest = name.removeprefix("stack.").split(".")
    if part not in ("connections", "sublayers"):
        return name
    block, second = divmod(int(number), 2)
    modules = ("hc1", "hc2") if part == "connections" else ("attention", "mlp")
    return ".".join(["blocks", str(block), modules[second], *rest])


def refusals(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    model = make_model()
    with pytest.raises(ArgumentError, match="got a HyperConnection itself"):
        shard_model(model, mesh=mesh, blocks=[model.blocks[0].hc1])
    with pytest.raises(ArgumentError, match="inside the model, got a Mlp"):
        shard_model(model, mesh=mesh, blocks=[Mlp()])


def one_optimizer(rank, world):
    """All parameters are DTensors of one mesh: one call clips them, one AdamW steps them."""
    mesh = init_device_mesh("cpu", (world,))
    model = make_model()
    shard_model(model, mesh=mesh, blocks=model.blocks)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    inputs, targets = (t.chunk(world)[rank] for t in tokens(0))
    loss_of(model(inputs), targets).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    assert float(whole(norm)) > 0.1
    optimizer.step()


def from_meta(rank, world):
    """A model made on the meta device: sharded first, drawn afterwards."""
    mesh = init_device_mesh("cpu", (world,))
    with torch.device("meta"):
        model = nn.Sequential(HyperConnection(8, 4, gamma=True), StreamHead(8, 4))
    shard_model(model, mesh=mesh)
    model.to_empty(device="cpu")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "DTensor random operators may not have complete support")
        for module in model:
            module.reset_parameters()
    fresh = HyperConnection(8, 4, gamma=True)
    for name in ("alpha", "bias", "gamma"):
        assert torch.equal(whole(getattr(model[0], name).detach()), getattr(fresh, name))
    assert 0.5 < float(whole(model[0].phi.detach()).std()) * 32**0.5 < 1.5


@pytest.mark.parametrize(
    "check", [from_meta, mixed_precision, ways_to_call, refusals, one_optimizer]
)
def test_on_two(ranks, check):
    ranks.run(2, check)
