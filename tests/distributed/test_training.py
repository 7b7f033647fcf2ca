"""Five optimizer steps of a small mHC language model: one process against each way to spread it."""

from functools import partial

import pytest
import torch
from torch import nn

from . import plans
from .model import make_model, plain_step, train

WAYS = {
    "ddp": 2,
    "fsdp": 2,
    "hsdp": 4,
    "fsdp_and_hidden": 4,
    "hidden": 2,
    "sequence": 2,
    "pipeline": 2,
}


@pytest.fixture(scope="module")
def one_process():
    """The run of one process in float32, and in float64, the truth."""
    single = train(plain_step, make_model())
    truth = train(plain_step, make_model().double())
    return single, truth


def spread(rank, world, way, **compiling):
    prepare = partial(nn.Module.compile, **compiling) if compiling else plans.leave
    torch._dynamo.reset()
    model, step = getattr(plans, way)(rank, world, prepare)
    return train(step, model, plans.whole)


def usual(name, t, rank, way):
    """A parameter's name and shape in one process."""
    if way == "pipeline":
        name = name.replace("blocks.0", f"blocks.{rank}")
    if name.endswith(("phi", "fn")) and t.dim() == 3:
        t = t.flatten(1)
    return name, t


def check(found, one, right, what):
    """No further from float64 than four times one process in float32 is, or one rounding of the
    largest number around; and every tensor to four digits of its own largest.
    """
    rounding = 2**-24 * max(float(t.abs().max()) for t in right.values())
    for name, t in found.items():
        error = float((t - right[name]).abs().max())
        single = float((one[name] - right[name]).abs().max())
        assert error <= 4 * max(single, rounding), (what, name, error, single)
        assert error <= 1e-4 * float(right[name].abs().max()), (what, name, error)


def compare(results, one_process, way):
    single, truth = one_process
    seen = set()
    for rank, (losses, *tensors) in enumerate(results):
        for ours, right in zip(losses, truth[0], strict=True):
            assert abs(ours - right) <= 2**-21 * right  # a few roundings of the mean
        for found, one, right, what in zip(
            tensors, single[1:], truth[1:], ("gradients", "parameters"), strict=True
        ):
            named = dict(usual(name, t, rank, way) for name, t in found.items())
            check(named, one, right, f"{way}, rank {rank}, {what}")
            seen |= named.keys()
    assert seen == truth[1].keys()
    if way != "pipeline":  # every rank holds the same whole tensors, to the bit
        for _, gradients, final in results[1:]:
            assert all(torch.equal(t, results[0][1][k]) for k, t in gradients.items())
            assert all(torch.equal(t, results[0][2][k]) for k, t in final.items())


@pytest.mark.parametrize("way", WAYS)
def test_training(ranks, one_process, way):
    compare(ranks.run(WAYS[way], spread, way), one_process, way)


def spread_compiled(rank, world, way, backend, fullgraph):
    return spread(rank, world, way, backend=backend, fullgraph=fullgraph)


def test_training_compiled_in_one_graph(ranks, one_process):
    """DTensors need no break in the graph of a block."""
    results = ranks.run(2, spread_compiled, "sequence", "aot_eager", True)
    compare(results, one_process, "sequence")


@pytest.mark.long
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("way", WAYS)
def test_training_compiled(ranks, one_process, way, backend):
    compare(ranks.run(WAYS[way], spread_compiled, way, backend, False), one_process, way)
