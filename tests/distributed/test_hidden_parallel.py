"""Hidden-sharded mHC against the operators on whole channels, in float64 and by its collectives."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import mhc_ops
from mhc_ops.convention import Convention
from mhc_ops.distributed import hidden_parallel as hidden
from mhc_ops.errors import ArgumentError

from .drawn import F, N, draw, leaves, upstream
from .traffic import counted

WHOLE = ("alpha", "bias")  # the same on every rank


def share(name, t, rank, world):
    """Rank's share of a tensor of `draw`."""
    if name in WHOLE:
        return t.clone()
    if name == "phi":
        return hidden.shard_columns(t, N, rank, world)
    return t.chunk(world, -1)[rank].clone()


def sublayers(t, ops, options, **group):
    """Two sublayers; ops is mhc_ops or hidden_parallel."""
    parameters = (t["phi"], t["alpha"], t["bias"], t["gamma"])
    h_in, h_post, logits, x = ops.mhc_pre(t["x"], *parameters, **options, **group)
    h_res = mhc_ops.sinkhorn(logits, num_iters=3)
    h_out = torch.tanh(h_in) + t["h_out"]
    x = ops.mhc_post(x, h_res, h_out, h_post, bias=t["out_bias"], **group)
    h_in, h_post, h_res, x = ops.mhc_pre_sinkhorn(x, *parameters, **options, **group)
    x = ops.mhc_post(x, h_res, h_in, h_post, **group)
    head = ops.stream_head(x, t["phi"][:N], t["bias"][:N], t["alpha"][:1], **group)
    return x, head


def run_both(rank, world, lead, dtype, options):
    given = draw(*lead, dtype=dtype)
    if dtype == torch.float64:
        given = {k: v.double() for k, v in given.items()}
    whole = leaves(given)
    outputs = sublayers(whole, mhc_ops, options)
    grads = upstream(outputs)
    torch.autograd.backward(outputs, grads)
    mine = leaves({k: share(k, v, rank, world) for k, v in given.items()})
    found = sublayers(mine, hidden, options, group=dist.group.WORLD)
    torch.autograd.backward(found, [g.chunk(world, -1)[rank] for g in grads])
    return whole, outputs, mine, found


def agree_in_float64(rank, world, lead, options):
    whole, outputs, mine, found = run_both(rank, world, lead, torch.float64, options)
    for ours, expected in zip(found, outputs, strict=True):
        torch.testing.assert_close(
            ours, expected.chunk(world, -1)[rank], rtol=1e-12, atol=1e-12, msg=str
        )
    for name, t in mine.items():
        expected = share(name, whole[name].grad, rank, world)
        torch.testing.assert_close(t.grad, expected, rtol=1e-11, atol=1e-11, msg=f"{name}")


def test_float64(ranks):
    ranks.run(2, agree_in_float64, (2, 5), {})
    ranks.run(4, agree_in_float64, (70,), {"convention": Convention.megatron()})


def bits_of_one_rank(rank, world, options):
    """A group of this rank alone gives the bits of impl="torch" on the whole, where the mean square
    crosses the ranks unrounded.
    """
    groups = [dist.new_group([r]) for r in range(world)]
    given = {k: v.double() for k, v in draw(70).items()}
    gates = {"num_iters": 3, **options}
    found = []
    for run, more in (
        (mhc_ops.mhc_pre_sinkhorn, {"impl": "torch"}),
        (hidden.mhc_pre_sinkhorn, {"group": groups[rank]}),
    ):
        t = leaves(given)
        outputs = run(t["x"], t["phi"], t["alpha"], t["bias"], t["gamma"], **gates, **more)
        torch.autograd.backward(outputs, upstream(outputs))
        named = [t[k].grad for k in ("x", "phi", "alpha", "bias", "gamma")]
        found.append([*outputs, *named])
    for ours, expected in zip(*found, strict=True):
        assert torch.equal(ours, expected)


def test_one_rank_is_impl_torch(ranks):
    ranks.run(2, bits_of_one_rank, {})
    ranks.run(2, bits_of_one_rank, {"precision": "hf32"})


def same_bits_and_error(rank, world, dtype):
    """Gates and gradients of what is replicated: the same bits everywhere, and close to truth."""
    whole, outputs, mine, _ = run_both(rank, world, (3, 41), dtype, {})
    x, phi, alpha, bias, gamma = (mine[k] for k in ("x", "phi", "alpha", "bias", "gamma"))
    read = hidden.mhc_pre_sinkhorn(x, phi, alpha, bias, gamma, group=dist.group.WORLD)
    replicated = [read.h_post, read.h_res, alpha.grad, bias.grad]
    for t in replicated:
        gathered = [torch.empty_like(t) for _ in range(world)]
        dist.all_gather(gathered, t.detach().contiguous())
        assert all(torch.equal(g, gathered[0]) for g in gathered)
    truth = leaves({k: v.detach().double() for k, v in whole.items()})
    exact = sublayers(truth, mhc_ops, {})
    torch.autograd.backward(exact, [g.double() for g in upstream(outputs)])
    errors = {}
    for name, t in mine.items():
        right = share(name, truth[name].grad, rank, world)
        ours = (t.grad - right).abs().max()
        single = (whole[name].grad.double() - truth[name].grad).abs().max()
        errors[name] = float(ours / single)
    return errors


@pytest.mark.parametrize(("world", "dtype"), [(2, torch.float32), (4, torch.bfloat16)])
def test_same_bits_on_every_rank_and_error_of_one(ranks, world, dtype):
    for errors in ranks.run(world, same_bits_and_error, dtype):
        # Sums are split otherwise, which moves the largest error of some hundred elements about.
        assert all(ratio < 4 for ratio in errors.values()), errors


def numbers_sent(rank, world, T):
    t = leaves({k: share(k, v, rank, world) for k, v in draw(T).items()})
    parameters = (t["phi"], t["alpha"], t["bias"], t["gamma"])
    with counted() as forward:
        h_in, h_post, h_res, x = hidden.mhc_pre_sinkhorn(
            t["x"], *parameters, group=dist.group.WORLD
        )
        x = hidden.mhc_post(x, h_res, h_in, h_post, group=dist.group.WORLD)
    with counted() as backward:
        x.backward(torch.randn_like(x))
    return forward, backward


def test_one_packed_all_reduce_each(ranks):
    T = 33
    for forward, backward in ranks.run(2, numbers_sent, T):
        assert forward == [("all_reduce", 4 * T * (F + 1))]
        # mhc_post's gates, then dh_pre.
        assert backward == [("all_reduce", 4 * T * (N * N + N)), ("all_reduce", 4 * T * N)]


def in_flight(rank, world):
    """The gates' gradients leave mhc_post's backward before their all-reduce is waited for."""
    t = leaves({k: share(k, v, rank, world) for k, v in draw(9).items()})
    parameters = (t["phi"], t["alpha"], t["bias"], t["gamma"])
    h_in, h_post, h_res, x = hidden.mhc_pre_sinkhorn(t["x"], *parameters, group=dist.group.WORLD)
    seen = []
    for gate in (h_post, h_res):
        gate.register_hook(lambda g: seen.append(type(g)))
    x = hidden.mhc_post(x, h_res, torch.tanh(h_in), h_post, group=dist.group.WORLD)
    x.backward(torch.ones_like(x))
    assert seen == [AsyncCollectiveTensor] * 2
    assert all(type(v.grad) is torch.Tensor for k, v in t.items() if v.grad is not None)


def subsets(rank, world):
    """Frozen inputs, an identity residual, no tokens: gradients where asked for, and only there."""
    group = dist.group.WORLD
    t = {k: share(k, v, rank, world) for k, v in draw(5).items()}
    for name in ("x", "phi", "alpha", "bias", "gamma"):
        one = {k: v.detach().requires_grad_(k == name) for k, v in t.items()}
        read = hidden.mhc_pre(
            *(one[k] for k in ("x", "phi", "alpha", "bias", "gamma")), group=group
        )
        read.h_in.backward(torch.ones_like(read.h_in))
        assert [k for k, v in one.items() if v.grad is not None] == [name]
    two = {**t, "phi": t["phi"][: 2 * N], "alpha": t["alpha"][:2], "bias": t["bias"][: 2 * N]}
    two = leaves(two)
    h_in, h_post, none, x = hidden.mhc_pre(
        two["x"], two["phi"], two["alpha"], two["bias"], group=group
    )
    assert none is None
    x = hidden.mhc_post(x, None, h_in, h_post, group=group)
    x.backward(torch.ones_like(x))
    assert two["phi"].grad is not None
    empty = leaves({k: v[:0] if k in ("x", "h_out") else v for k, v in t.items()})
    h_in, h_post, h_res, x = hidden.mhc_pre_sinkhorn(
        *(empty[k] for k in ("x", "phi", "alpha", "bias", "gamma")), group=group
    )
    x = hidden.mhc_post(x, h_res, h_in, h_post, group=group)
    x.backward(torch.ones_like(x))
    assert empty["phi"].grad.abs().sum() == 0


def refusals(rank, world):
    t = draw(5)
    mesh = init_device_mesh("cpu", (world,))
    inputs = (t["x"], t["phi"], t["alpha"], t["bias"])
    with pytest.raises(ArgumentError, match="group must be a process group or a DeviceMesh, got"):
        hidden.mhc_pre(*inputs, group="tp")
    wide = DTensor.from_local(t["x"], mesh, [Shard(2)])
    with pytest.raises(ArgumentError, match=r"pass its \.to_local\(\)"):
        hidden.mhc_pre(wide, *inputs[1:], group=mesh)
    with pytest.raises(ArgumentError, match="D divisible by 3 ranks"):
        hidden.shard_columns(t["phi"], N, 0, 3)


def test_subsets_in_flight_and_refusals(ranks):
    ranks.run(2, subsets)
    ranks.run(2, in_flight)
    ranks.run(2, refusals)
