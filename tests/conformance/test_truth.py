"""The kit's float64 equations: each backward is its forward's gradient, and HF32 rounds right."""

import pytest
import torch

from mhc_ops.conformance.truth import (
    hf32,
    iterates,
    mhc_post,
    mhc_post_backward,
    mhc_pre,
    mhc_pre_backward,
    mhc_pre_sinkhorn,
    mhc_pre_sinkhorn_backward,
    mhc_sinkhorn,
    mhc_sinkhorn_backward,
    saved_by_forward,
)

ATTRS = {"norm_eps": 1e-3, "hc_eps": 1e-2, "op_impl_mode": 0}


@pytest.mark.parametrize("rows", [9, 6], ids=["matrix", "permutation"])
@pytest.mark.parametrize("with_gamma", [True, False])
def test_the_backward_is_the_gradient_of_the_forward(rows, with_gamma):
    n, d, tokens = 3, 5, 7
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.requires_grad_()

    leaves = {
        "x": normal(tokens, n, d),
        "phi": normal(2 * n + rows, n * d),
        "alpha": normal(3),
        "bias": normal(2 * n + rows),
    }
    if with_gamma:
        leaves["gamma"] = normal(n, d)
    inputs = {"gamma": None, **leaves}
    out = mhc_pre(inputs, ATTRS)
    grads = {name: torch.randn_like(out[name]) for name in ("hin", "h_post", "h_res")}
    expected = torch.autograd.grad(
        [out[name] for name in grads], list(leaves.values()), list(grads.values())
    )
    saved = {name: out[name].detach() for name in ("inv_rms", "h_mix", "h_pre", "h_post")}
    upstream = {"grad_h_in": grads["hin"], "grad_h_post": grads["h_post"]}
    upstream |= {"grad_h_res": grads["h_res"], "grad_x_post": None}
    got = mhc_pre_backward(inputs | saved | upstream, ATTRS)
    for name, want in zip(leaves, expected, strict=True):
        assert torch.allclose(got[f"grad_{name}"], want, rtol=1e-12, atol=1e-12), name
    if not with_gamma:
        assert not got["grad_gamma"].any()


def normals(**shapes):
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for name, shape in shapes.items()
    }


def assert_gradients(got, leaves, outputs, upstream):
    expected = torch.autograd.grad(outputs, list(leaves.values()), upstream)
    for name, want in zip(got, expected, strict=True):
        assert torch.allclose(got[name], want, rtol=1e-9, atol=1e-11), name


@pytest.mark.parametrize("with_h_res", [True, False])
def test_the_backward_of_post(with_h_res):
    leaves = normals(x=(7, 3, 5), h_res=(7, 3, 3), h_out=(7, 5), h_post=(7, 3))
    if not with_h_res:
        identity = torch.eye(3, dtype=torch.float64).expand(7, 3, 3)
        leaves["h_res"] = identity.clone().requires_grad_()
    y = mhc_post(leaves, {})["y"]
    upstream = torch.randn_like(y)
    detached = {name: t.detach() for name, t in leaves.items()} | {"grad_y": upstream}
    if not with_h_res:
        assert torch.allclose(mhc_post({**leaves, "h_res": None}, {})["y"], y)
        detached["h_res"] = None
    assert_gradients(mhc_post_backward(detached, {}), leaves, [y], [upstream])


@pytest.mark.parametrize("n", [4, 8])
def test_the_backward_of_sinkhorn(n):
    leaves = normals(h_res=(2, 3, n, n))
    y = mhc_sinkhorn(leaves, {"num_iters": 4, "eps": 1e-6})["y"]
    upstream = torch.randn_like(y)
    sizes = {"norm": torch.empty(8 * 6 * n * 8), "sum": torch.empty(8 * 6 * 8)}
    saved = saved_by_forward("MhcSinkhornBackward", leaves, {}, sizes)
    assert {name: t.shape for name, t in saved.items()} == {
        name: t.shape for name, t in sizes.items()
    }
    saved = {name: t.detach() for name, t in saved.items()}
    got = mhc_sinkhorn_backward({"grad_y": upstream, **saved}, {})
    assert_gradients(got, leaves, [y], [upstream])


def test_iterates_stay_at_equal_entries():
    norms, sums = iterates(torch.zeros(1, 4, 4, dtype=torch.float64), 2, 0.25)
    assert [float(m[0, 1, 2]) for m in norms] == pytest.approx([1 / 4, 2 / 9, 8 / 41, 32 / 169])
    assert [float(s[0, 3]) for s in sums] == pytest.approx([4, 9 / 4, 41 / 36, 169 / 164])


@pytest.mark.parametrize("tokens", [5, 515])
def test_the_backward_of_pre_sinkhorn(tokens):
    """515 tokens make more than one block."""
    n, d, f = 3, 2, 15
    leaves = normals(x=(tokens, n, d), phi=(f, n * d), alpha=(3,), bias=(f,))
    attrs = {"num_iters": 3, "hc_eps": 1e-2, "norm_eps": 1e-6}
    out = mhc_pre_sinkhorn(leaves, attrs)
    upstream = {name: torch.randn_like(out[name]) for name in ("hin", "h_post", "h_res")}
    grads = {f"grad_{name}": g for name, g in upstream.items()}
    saved = saved_by_forward(
        "MhcPreSinkhornBackward", leaves, {"eps": 1e-2}, {"sum_out": out["sum_out"]}
    )
    assert all(torch.equal(t, out[name]) for name, t in saved.items())
    detached = {name: t.detach() for name, t in (leaves | saved).items()}
    got = mhc_pre_sinkhorn_backward({**detached, **grads}, {"eps": 1e-2})
    assert_gradients(got, leaves, [out[name] for name in upstream], list(upstream.values()))


def test_hf32_keeps_ten_fraction_bits_with_ties_away_from_zero():
    step = 2.0**-10
    values = torch.tensor([1 + step / 2, -1 - step / 2, 1 + step / 2 - 2**-23, 1.0, torch.inf])
    assert hf32(values).tolist() == [1 + step, -1 - step, 1.0, 1.0, torch.inf]
    assert hf32(torch.tensor([torch.nan])).isnan().all()
