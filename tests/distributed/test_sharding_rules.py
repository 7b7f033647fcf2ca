"""Every operator on DTensors: values, placements, gradients."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import mhc_ops
from mhc_ops.distributed import sharding_rules

from .drawn import D, F, N, draw, leaves, upstream

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
        x = mhc_ops.mhc_post(
            x, h_res, torch.tanh(h_in) + t["h_out"], h_post, bias=t["out_bias"]
        )
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
            assert list(t.grad.placements) == [Partial()], (name, t.grad.placements)
            torch.testing.assert_close(t.grad.full_tensor(), expected, rtol=2e-5, atol=2e-5)
        else:
            assert list(t.grad.placements) == shard
            torch.testing.assert_close(t.grad.full_tensor(), expected, rtol=0, atol=0)


def test_tokens_sharded_parameters_replicated(ranks):
    ranks.run(2, agree, (2, 6), 0, False)
    ranks.run(2, agree, (2, 6), 1, True)
    ranks.run(2, agree, (7,), 0, True)
