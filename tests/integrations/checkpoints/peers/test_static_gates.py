"""hyper-connections and mhc-mlx: gates that do not look at x, which become our bias."""

from functools import partial

import numpy as np
import pytest
import torch

from mhc_ops.errors import ArgumentError
from mhc_ops.integrations.checkpoints import convert_state_dict

from ..steps import leaves, normal, our_step
from .peer import STDS, find, judge

pytest.importorskip("mlx", reason="needs the extra: pip install '.[peers]'")
pytest.importorskip("hyper_connections", reason="needs the extra: pip install '.[peers]'")
mx = find("mlx.core")
mhc_mlx = find("mhc_mlx.reference")
hyper_connections = find("hyper_connections.manifold_constrained_hyper_connections")

B, N, D = 23, 4, 24
X, UPSTREAM = normal(0, B, N, D), normal(1, B, N, D)


def gradients(step, x, tensors):
    """Output, gradient of x and of every tensor; `step` maps x and tensors to the output."""
    x, tensors = x.clone().requires_grad_(), leaves(tensors)
    out = step(x, tensors)
    grads = torch.autograd.grad(out, (x, *tensors.values()), UPSTREAM.to(out.dtype))
    return {"out": out.detach(), **dict(zip(("x", *tensors), grads, strict=True))}


def mixed(x, pre, post, h_res, sublayer):
    """x [B, n, D] after the sublayer; h_res [from, to] for all tokens."""
    h_out = sublayer((pre[:, None] * x).sum(1))
    return torch.einsum("ij,bid->bjd", h_res, x) + post[:, None] * h_out[:, None]


def rms_norm(h, weight):
    return h * (h.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def mlx_truth(x, t):
    h = t["H_res_raw"].softmax(1)  # [out, in]
    for k in range(1, 40):
        total = h.sum(1 - k % 2, keepdim=True)
        assert float(total.detach().min()) > 1e-5  # below, mhc-mlx zeroes the column
        h = h / total
    pre, post = t["H_pre_raw"].sigmoid(), 2 * t["H_post_raw"].sigmoid()
    return mixed(x, pre, post, h.T, partial(rms_norm, weight=t["rms_weight"]))


def mlx_theirs(x, tensors):
    """Through mlx and its own differentiation."""
    names = ("H_pre_raw", "H_post_raw", "H_res_raw", "rms_weight")
    arrays = [mx.array(t.numpy()) for t in (x, *(tensors[name] for name in names))]
    upstream = mx.array(UPSTREAM.numpy())

    def loss(*given):
        return (mhc_mlx.mhc_forward_reference(*given) * upstream).sum()

    with mx.stream(mx.cpu):
        results = mhc_mlx.mhc_forward_reference(*arrays), *mx.grad(loss, tuple(range(5)))(*arrays)
        tensors = [torch.from_numpy(np.array(a)) for a in results]
    return dict(zip(("out", "x", *names), tensors, strict=True))


@pytest.mark.parametrize("std", STDS)
def test_mhc_mlx(std):
    tensors = {
        "H_pre_raw": std * normal(2, N),
        "H_post_raw": std * normal(3, N),
        "H_res_raw": std * normal(4, N, N),
        "rms_weight": 1 + 0.3 * normal(5, D),
    }
    truth = gradients(mlx_truth, X.double(), {name: t.double() for name, t in tensors.items()})
    ours = convert_state_dict(tensors, source="mhc_mlx", target="ours")
    assert ours.tensors["rms_weight"] is tensors["rms_weight"]

    def step(x, t):
        sublayer = partial(rms_norm, weight=t["rms_weight"])
        return our_step(x, t, ours.convention, sublayer)[0]

    found = gradients(step, X, ours.tensors)
    pre, post, res = found.pop("bias").split([N, N, N * N])
    del found["phi"], found["alpha"]
    # Our rows are [from, to], its matrix is [out, in].
    got = {**found, "H_pre_raw": pre, "H_post_raw": post, "H_res_raw": res.reshape(N, N).T}
    theirs = mlx_theirs(X, tensors)
    ordered = [{name: r[name] for name in truth} for r in (got, theirs)]
    judge(*ordered, truth, terms=B * N * D)


def fresh(std):
    """A module with static gates of this size; a fresh one has them nearly one-hot."""
    module = hyper_connections.ManifoldConstrainedHyperConnections(N, dim=D, layer_index=1)
    with torch.no_grad():
        module.static_alpha.copy_(std * normal(2, N, N + 1))
        module.static_beta.copy_(std * normal(3, N))
    return module


@pytest.mark.parametrize("std", STDS)
def test_hyper_connections(std):
    module = fresh(std)
    state = {name: t.detach() for name, t in module.state_dict().items()}
    static = {name: state[name] for name in ("static_alpha", "static_beta")}
    ours = convert_state_dict(state, source="hyper_connections", target="ours")
    assert sorted(ours.tensors) == ["alpha", "bias", "phi"]

    def theirs(x, t):
        add = torch.func.functional_call(module, {**state, **t}, (x.flatten(0, 1),))
        h_in, add_residual = add
        return add_residual(torch.tanh(h_in)).unflatten(0, (B, N))

    def truth(x, t):
        h = t["static_alpha"][:, 1:].softmax(0)  # [from, to], over from first
        for k in range(1, 40):
            h = h / h.sum(k % 2, keepdim=True)
        pre, post = t["static_alpha"][:, 0].sigmoid(), 2 * t["static_beta"].sigmoid()
        return mixed(x, pre, post, h, torch.tanh)

    def step(x, t):
        return our_step(x, t, ours.convention, torch.tanh)[0]

    found = gradients(step, X, ours.tensors)
    assert not found["alpha"].any()
    pre, post, res = found["bias"].split([N, N, N * N])
    got = {
        "out": found["out"],
        "x": found["x"],
        "static_alpha": torch.cat([pre[:, None], res.reshape(N, N)], 1),
        "static_beta": post,
    }
    doubled = {name: t.double() for name, t in static.items()}
    judge(got, gradients(theirs, X, static), gradients(truth, X.double(), doubled), B * N * D)


def test_trained_dynamic_gates_are_refused():
    state = dict(fresh(1).state_dict())
    state["dynamic_beta_fn"] = normal(0, D)
    with pytest.raises(ArgumentError, match="dynamic_beta_fn must be 0, since trained ones have"):
        convert_state_dict(state, source="hyper_connections", target="ours")


@pytest.mark.parametrize("option", ["num_input_views", "num_fracs", "num_dynamic_alpha_proposals"])
def test_other_forms_are_refused(option):
    module = hyper_connections.ManifoldConstrainedHyperConnections(
        N, dim=D, layer_index=1, **{option: 2}
    )
    with pytest.raises(ArgumentError, match="only one input view, one fraction and one proposal"):
        convert_state_dict(dict(module.state_dict()), source="hyper_connections", target="ours")
