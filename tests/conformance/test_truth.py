"""The kit's float64 equations: the backward is the forward's gradient, and HF32 rounds right."""

import pytest
import torch

from mhc_ops.conformance.truth import hf32, mhc_pre, mhc_pre_backward

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


def test_hf32_keeps_ten_fraction_bits_with_ties_away_from_zero():
    step = 2.0**-10
    values = torch.tensor([1 + step / 2, -1 - step / 2, 1 + step / 2 - 2**-23, 1.0, torch.inf])
    assert hf32(values).tolist() == [1 + step, -1 - step, 1.0, 1.0, torch.inf]
    assert hf32(torch.tensor([torch.nan])).isnan().all()
