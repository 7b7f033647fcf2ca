"""The formulas of mhc_ops.distributed.traffic against the messages that processes really send."""

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import ScheduleGPipe
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.parallel import DistributedDataParallel

from mhc_ops.distributed import (
    HiddenParallel,
    TokenParallel,
    pipeline_stage,
    shard_model,
    traffic,
)
from mhc_ops.nn import HyperConnection

from .traffic import counted

T, N, D = 20, 4, 8
SUBLAYER = traffic.Sublayer(T, N, D, 2 * N + N * N, element=4, gamma=True)


class Alone(nn.Module):
    """One sublayer without weights of its own."""

    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.hc = HyperConnection(D, N, **options)

    def forward(self, x):
        return self.hc(x, torch.tanh)


def messages(run, x, after=lambda: None):
    """(when, kind, bytes) of a forward, a backward and what comes after."""
    found = []
    with counted() as calls:
        out = run(x)
    found += [("forward", *call) for call in calls]
    with counted() as calls:
        out.backward(torch.ones_like(out))
    found += [("backward", *call) for call in calls]
    with counted() as calls:
        after()
    return found + [("step", *call) for call in calls]


def streams():
    torch.manual_seed(3)
    return torch.randn(T, N, D)


def of_way(rank, world, way):
    mesh = init_device_mesh("cpu", (world,))
    identity = way == "hidden_sharded_identity"
    model = Alone(residual="identity") if identity else Alone(gamma=True)
    if way == "data_parallel":
        return messages(DistributedDataParallel(model), streams())
    if way == "fully_sharded":
        wrapped = nn.Sequential(model)
        shard_model(wrapped, mesh=mesh, blocks=[model])
        return messages(wrapped, streams().requires_grad_())
    if way.startswith("hidden_sharded"):
        parallelize_module(model, mesh, {"hc": HiddenParallel()})
        return messages(model, streams().chunk(world, -1)[rank].clone())
    parallelize_module(model, mesh, {"hc": TokenParallel(0)})
    x = distribute_tensor(streams(), mesh, [Shard(0)])
    return messages(model, x, lambda: [p.grad.full_tensor() for p in model.parameters()])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(
    "way", ["data_parallel", "fully_sharded", "hidden_sharded", "token_sharded"]
)
def test_formula(ranks, way, world):
    expected = [m[:3] for m in getattr(traffic, way)(SUBLAYER, world)]
    for found in ranks.run(world, of_way, way):
        if way == "data_parallel":  # DDP sends during the backward, once a step
            found = [("step", *call[1:]) for call in found]
        assert found == expected


def test_formula_without_residual_part(ranks):
    identity = SUBLAYER._replace(rows=2 * N, gamma=False)
    expected = [m[:3] for m in traffic.hidden_sharded(identity, 2)]
    assert ranks.run(2, of_way, "hidden_sharded_identity") == [expected] * 2


def across_stages(rank, world):
    stage = pipeline_stage(
        [Alone, Alone], first=nn.Identity, last=lambda: nn.Flatten(1), device="cpu"
    )
    loss = nn.MSELoss()
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss)

    def step():
        x = torch.cat([streams(), streams()])
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=x.flatten(1))

    step()  # finds out shapes
    with counted() as calls:
        step()
    return calls


def test_pipeline_boundary(ranks):
    forward, backward = traffic.pipeline_boundary(SUBLAYER)
    first, second = ranks.run(2, across_stages)
    assert first == [(forward.kind, forward.nbytes)] * 2  # two microbatches
    assert second == [(backward.kind, backward.nbytes)] * 2


def test_ring():
    assert traffic.Message("step", "all_reduce", 100, 4).sent == 150
    assert traffic.Message("step", "all_gather", 100, 4).sent == 75
    assert traffic.Message("step", "send", 100, 2).sent == 100
