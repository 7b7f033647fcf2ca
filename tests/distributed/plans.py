"""The model of model.py under each way of spreading it: a model and how one step of it runs."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from mhc_ops.distributed import HiddenParallel, TokenParallel, pipeline_stage, shard_model

from .model import BATCH, LAYERS, loss_of, make_model


def leave(module):
    """What `prepare` does to the modules that one would compile: nothing."""


def whole(t):
    return t.full_tensor() if isinstance(t, DTensor) else t


def local(t):
    return t.to_local() if isinstance(t, DTensor) else t


def data_parallel_step(model, inputs, targets, rank, ranks):
    """One step of this rank's part of the batch; the gradients are averaged by the wrapper."""
    mine = [t.chunk(ranks)[rank] for t in (inputs, targets)]
    loss = loss_of(local(model(mine[0])), mine[1])
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def ddp(rank, world, prepare=leave):
    model = make_model()
    wrapped = DistributedDataParallel(model)
    prepare(wrapped)

    def step(_, inputs, targets):
        return data_parallel_step(wrapped, inputs, targets, rank, world)

    return model, step


def fsdp(rank, world, prepare=leave):
    mesh = init_device_mesh("cpu", (world,))
    model = make_model()
    for block in model.blocks:
        prepare(block)
    shard_model(model, mesh=mesh, blocks=model.blocks)

    def step(model, inputs, targets):
        return data_parallel_step(model, inputs, targets, rank, world)

    return model, step


def hsdp(rank, world, prepare=leave):
    """Sharded over one dimension of a 2 x 2 mesh, replicated over the other."""
    model = make_model()
    for block in model.blocks:
        prepare(block)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    shard_model(model, mesh=mesh, blocks=model.blocks)

    def step(model, inputs, targets):
        return data_parallel_step(model, inputs, targets, rank, world)

    return model, step


def fsdp_and_hidden(rank, world, prepare=leave):
    """Data parallel over one dimension of a 2 x 2 mesh, D over the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = make_model()
    hidden_plan(model, mesh["tp"])
    for block in model.blocks:
        prepare(block)
    shard_model(model, mesh=mesh["dp"], blocks=model.blocks)

    def step(model, inputs, targets):
        return data_parallel_step(model, inputs, targets, mesh["dp"].get_local_rank(), 2)

    return model, step


def hidden_plan(model, mesh):
    """Streams sharded along D, heads and MLP columns with them."""
    gather = PrepareModuleInput(
        input_layouts=Shard(-1), desired_input_layouts=Replicate(), use_local_output=True
    )
    scattered = RowwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    plan = {
        "first.embed": ColwiseParallel(use_local_output=False),
        "last.head": HiddenParallel(),
        "last.norm": gather,
        "last.lm": ColwiseParallel(output_layouts=Replicate(), use_local_output=False),
    }
    for i in range(LAYERS):
        plan |= {
            f"blocks.{i}.hc1": HiddenParallel(),
            f"blocks.{i}.attention": gather,
            **{f"blocks.{i}.attention.{name}": ColwiseParallel() for name in "qkv"},
            f"blocks.{i}.attention.out": scattered,
            f"blocks.{i}.hc2": HiddenParallel(),
            f"blocks.{i}.mlp": gather,
            f"blocks.{i}.mlp.up": ColwiseParallel(),
            f"blocks.{i}.mlp.down": scattered,
        }
    return parallelize_module(model, mesh, plan)


def hidden(rank, world, prepare=leave):
    mesh = init_device_mesh("cpu", (world,))
    model = hidden_plan(make_model(), mesh)
    for block in model.blocks:
        prepare(block)

    def step(model, inputs, targets):
        loss = loss_of(local(model(inputs)), targets)
        loss.backward()
        return loss.detach()

    return model, step


def sequence(rank, world, prepare=leave):
    """Streams sharded along the sequence; attention and MLP by heads and columns."""
    mesh = init_device_mesh("cpu", (world,))
    model = make_model()
    scattered = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
    gathered = ColwiseParallel(input_layouts=Shard(1))
    plan = {
        "last.head": TokenParallel(),
        "last.norm": SequenceParallel(),
        "last.lm": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    for i in range(LAYERS):
        plan |= {
            f"blocks.{i}.hc1": TokenParallel(),
            f"blocks.{i}.attention.norm": SequenceParallel(),
            **{f"blocks.{i}.attention.{name}": gathered for name in "qkv"},
            f"blocks.{i}.attention.out": scattered,
            f"blocks.{i}.hc2": TokenParallel(),
            f"blocks.{i}.mlp.norm": SequenceParallel(),
            f"blocks.{i}.mlp.up": gathered,
            f"blocks.{i}.mlp.down": scattered,
        }
    parallelize_module(model, mesh, plan)
    distribute_module(model.first.embed, mesh)
    for block in model.blocks:
        prepare(block)

    def step(model, inputs, targets):
        shared = distribute_tensor(inputs, mesh, [Shard(1)])
        loss = loss_of(model(shared), targets)
        loss.backward()
        return loss.detach()

    return model, step


def pipeline(rank, world, prepare=leave):
    """Two stages of one block each, 1F1B over four microbatches."""
    model = make_model()
    for block in model.blocks:
        prepare(block)
    stage = pipeline_stage(
        [lambda block=block: block for block in model.blocks],
        first=lambda: model.first,
        last=lambda: model.last,
        device="cpu",
    )
    schedule = Schedule1F1B(stage, n_microbatches=BATCH, loss_fn=loss_of)

    def step(_, inputs, targets):
        losses = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=targets, losses=losses)
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        dist.all_reduce(loss)
        return loss

    return stage.submod, step
