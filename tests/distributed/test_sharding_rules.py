"""Every operator on DTensors: values, placements, gradients."""

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import mhc_ops
from mhc_ops.distributed import sharding_rules
from mhc_ops.errors import ArgumentError, UnsupportedError
from mhc_ops.nn import HyperConnectionStack

from .drawn import D, N, draw, leaves, upstream
from .traffic import counted

PARAMETERS = ("phi", "alpha", "bias", "gamma", "out_bias")


def through(t, boundary):
    """Two sublayers by separate operators, or with the fused boundary; all outputs."""
    parameters = (t["phi"], t["alpha"], t["bias"], t["gamma"])
    if boundary:
        h_in, h_post, h_res, x = mhc_ops.mhc_pre_sinkhorn(t["x"], *parameters, num_iters=3)
        x, h_in2, h_post2, h_res2 = mhc_ops.mhc_post_pre(
            x, h_res, torch.tanh(h_in) + t["h_out"], h_post, *parameters, num_iters=2,
            out_bias=t["out_bias"],
        )  # fmt: skip
    else:
        h_in, h_post, logits, x = mhc_ops.mhc_pre(t["x"], *parameters)
        h_res = mhc_ops.sinkhorn(logits, num_iters=3)
        x = mhc_ops.mhc_post(x, h_res, torch.tanh(h_in) + t["h_out"], h_post, bias=t["out_bias"])
        h_in2, h_post2, h_res2, x = mhc_ops.mhc_pre_sinkhorn(x, *parameters, num_iters=2)
    head = mhc_ops.stream_head(x, t["phi"][:N], t["bias"][:N], t["alpha"][:1])
    return x, h_in2, h_post2, h_res2, head


def agree(rank, world, lead, dim, boundary):
    """Sharded along `dim`: outputs and token gradients are the bits of one process."""
    mesh = init_device_mesh("cpu", (world,))
    whole = leaves(draw(*lead))
    outputs = through(whole, boundary)
    grads = upstream(outputs)
    torch.autograd.backward(outputs, grads)

    shard = [Shard(dim)]
    parts = {
        k: distribute_tensor(v, mesh, [Replicate()] if k in PARAMETERS else shard)
        for k, v in draw(*lead).items()
    }
    parts = leaves(parts)
    found = through(parts, boundary)
    torch.autograd.backward(found, [distribute_tensor(g, mesh, shard) for g in grads])
    for ours, expected in zip(found, outputs, strict=True):
        assert list(ours.placements) == shard
        assert torch.equal(ours.full_tensor(), expected)
    for name, t in parts.items():
        expected = whole[name].grad
        if name in PARAMETERS:
            assert isinstance(t.grad, DTensor)
            # Two uses of one parameter: torch 2.7 adds the partial sums up at once.
            assert list(t.grad.placements) in ([Partial()], [Replicate()])
            torch.testing.assert_close(t.grad.full_tensor(), expected, rtol=2e-5, atol=2e-5)
        else:
            assert list(t.grad.placements) == shard
            torch.testing.assert_close(t.grad.full_tensor(), expected, rtol=0, atol=0)


def test_tokens_sharded_parameters_replicated(ranks):
    ranks.run(2, agree, (2, 6), 0, False)
    ranks.run(2, agree, (2, 6), 1, True)
    ranks.run(2, agree, (7,), 0, True)


def on_four(rank, world):
    """Batch over one dimension of a 2 x 2 mesh, sequence over the other."""
    mesh = init_device_mesh("cpu", (2, 2))
    whole = leaves(draw(2, 6))
    outputs = through(whole, True)
    grads = upstream(outputs)
    torch.autograd.backward(outputs, grads)
    shards, replicated = [Shard(0), Shard(1)], [Replicate(), Replicate()]
    parts = leaves(
        {
            k: distribute_tensor(v, mesh, replicated if k in PARAMETERS else shards)
            for k, v in draw(2, 6).items()
        }
    )
    found = through(parts, True)
    torch.autograd.backward(found, [distribute_tensor(g, mesh, shards) for g in grads])
    assert torch.equal(found[0].full_tensor(), outputs[0])
    assert len(parts["phi"].grad.placements) == 2
    for name, t in parts.items():
        torch.testing.assert_close(t.grad.full_tensor(), whole[name].grad, rtol=2e-5, atol=2e-5)


def test_two_mesh_dimensions(ranks):
    ranks.run(4, on_four)


def bare_backward(rank, world):
    """`wanted` is part of what a rule answers to: with another one, it is another call."""
    mesh = init_device_mesh("cpu", (world,))
    t = draw(6)
    fwd = mhc_ops.mhc_pre_forward(t["x"], t["phi"], t["alpha"], t["bias"])
    made = torch.Generator().manual_seed(3)
    of_tokens = (
        *(torch.randn(s.shape, generator=made) for s in (fwd.h_in, fwd.h_post, fwd.h_res)),
        *(fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post),
    )
    plain = (t["x"], t["phi"], t["alpha"], *of_tokens)
    sharded = [distribute_tensor(v, mesh, [Shard(0)]) for v in plain]
    sharded[1:3] = [distribute_tensor(v, mesh, [Replicate()]) for v in plain[1:3]]
    for wanted in (("x", "phi"), ("phi",), ("alpha", "x"), None):
        expected = mhc_ops.mhc_pre_backward(*plain, wanted=wanted)
        found = mhc_ops.mhc_pre_backward(*sharded, wanted=wanted)
        for name, ours in found._asdict().items():
            expected_placement = [Shard(0) if name == "grad_x" else Partial()]
            assert ours is None or list(ours.placements) == expected_placement
        for ours, whole in zip(found, expected, strict=True):
            assert (ours is None) == (whole is None)
            if ours is not None:
                assert ours.shape == whole.shape
                torch.testing.assert_close(ours.full_tensor(), whole, rtol=2e-5, atol=2e-5)
    parameters = [distribute_tensor(t[k], mesh, [Replicate()]) for k in ("phi", "alpha", "bias")]
    gamma = distribute_tensor(torch.ones(N, D), mesh, [Replicate()])
    by_name = torch.ops.mhc.pre_forward(sharded[0], *parameters, gamma=gamma, hc_eps=1e-6)
    assert torch.equal(by_name[0].full_tensor(), fwd.h_in)


def other_placements(rank, world):
    """Channels or streams sharded: gathered. A partial sum: reduced. Few tokens: replicated."""
    mesh = init_device_mesh("cpu", (world,))
    t = draw(6)
    parameters = [t[k] for k in ("phi", "alpha", "bias", "gamma")]
    expected = mhc_ops.mhc_pre_forward(t["x"], *parameters)
    split_phi = [distribute_tensor(p, mesh, [Shard(0)]) for p in parameters]
    for placement in (Shard(1), Shard(2), Replicate()):
        x = distribute_tensor(t["x"], mesh, [placement])
        found = mhc_ops.mhc_pre_forward(x, *split_phi)
        assert torch.equal(found.h_in.full_tensor(), expected.h_in)
        assert torch.equal(found.h_res.full_tensor(), expected.h_res)
    halves = DTensor.from_local(t["x"] / world, mesh, [Partial()])
    assert torch.equal(
        mhc_ops.mhc_pre_forward(halves, *split_phi).h_in.full_tensor(), expected.h_in
    )
    one = distribute_tensor(t["x"][:1], mesh, [Shard(0)])
    found = mhc_ops.mhc_pre_forward(one, *split_phi)
    assert torch.equal(found.h_in.full_tensor(), expected.h_in[:1])

    x = distribute_tensor(t["x"], mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
        mhc_ops.mhc_pre(x, *parameters)
    with pytest.raises(UnsupportedError, match="an input is a DTensor; leave out= away"):
        mhc_ops.mhc_pre_forward(x, *split_phi, out=(None,) * 6)
    with pytest.raises(ArgumentError, match=r"out.h_in must be a plain tensor, got a DTensor"):
        mhc_ops.mhc_pre_forward(
            t["x"], *parameters, out=(distribute_tensor(expected.h_in, mesh), *(None,) * 5)
        )


def other_operators(rank, world):
    """mHC-lite, the identity residual, Sinkhorn's defects, the ends of a model."""
    mesh = init_device_mesh("cpu", (world,))
    t = draw(6)

    def whole_and_sharded(run, tensors, parameters=()):
        whole = leaves(dict(enumerate(tensors)))
        parts = leaves(
            {
                i: distribute_tensor(v, mesh, [Replicate() if i in parameters else Shard(0)])
                for i, v in enumerate(tensors)
            }
        )
        outputs, found = run(*whole.values()), run(*parts.values())
        grads = upstream(outputs)
        torch.autograd.backward(outputs, grads)
        torch.autograd.backward(found, [distribute_tensor(g, mesh, [Shard(0)]) for g in grads])
        for ours, expected in zip(found, outputs, strict=True):
            assert torch.equal(ours.full_tensor(), expected)
        for i, v in parts.items():
            torch.testing.assert_close(v.grad.full_tensor(), whole[i].grad, rtol=2e-5, atol=2e-5)

    made = torch.Generator().manual_seed(5)
    whole_and_sharded(
        lambda logits: [mhc_ops.permutation_mix(logits)], [torch.randn(6, 24, generator=made)]
    )

    def identity(x, phi, alpha, bias):
        h_in, h_post, _, x = mhc_ops.mhc_pre(x, phi, alpha, bias)
        return [mhc_ops.mhc_post(x, None, h_in, h_post)]

    two = (t["x"], t["phi"][: 2 * N], t["alpha"][:2], t["bias"][: 2 * N])
    whole_and_sharded(identity, two, parameters=(1, 2, 3))
    whole_and_sharded(lambda h: [mhc_ops.expand_streams(h, N)], [t["h_out"]])
    whole_and_sharded(lambda x: [mhc_ops.stream_head(x)], [t["x"]])
    logits = torch.randn(6, N, N, generator=made)
    expected = mhc_ops.sinkhorn(logits, return_defect=True)
    found = mhc_ops.sinkhorn(distribute_tensor(logits, mesh, [Shard(0)]), return_defect=True)
    assert all(torch.equal(f.full_tensor(), e) for f, e in zip(found, expected, strict=True))


def rebuilding_stack(rank, world):
    """A stack that rebuilds x in the backward runs on DTensors, and gathers nothing for it."""
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(1)
    stack = HyperConnectionStack((nn.Tanh() for _ in range(5)), D, N, recompute_every=2)
    x = draw(2, 6)["x"].requires_grad_()
    out = stack(x)
    (grad,) = upstream([out])
    out.backward(grad)
    expected = {name: p.grad for name, p in stack.named_parameters()}
    for connection in stack.connections:
        for name, p in list(connection.named_parameters()):
            replicated = distribute_tensor(p.detach(), mesh, [Replicate()])
            connection.register_parameter(name, nn.Parameter(replicated))
    xs = distribute_tensor(x.detach(), mesh, [Shard(1)]).requires_grad_()
    found = stack(xs)
    assert torch.equal(found.full_tensor(), out)
    sharded_grad = distribute_tensor(grad, mesh, [Shard(1)])
    with counted() as calls:
        found.backward(sharded_grad)
    assert calls == []
    assert torch.equal(xs.grad.full_tensor(), x.grad)
    for name, p in stack.named_parameters():
        torch.testing.assert_close(p.grad.full_tensor(), expected[name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "check", [bare_backward, other_placements, other_operators, rebuilding_stack]
)
def test_on_two(ranks, check):
    ranks.run(2, check)


def test_every_operator_has_a_rule():
    names = {
        name.removeprefix("mhc::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("mhc::")
    }
    assert names == set(sharding_rules.OPERATORS)
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    assert all(getattr(torch.ops.mhc, name).default in strategies for name in names)
