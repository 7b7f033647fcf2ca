"""The oracle against plain loops and against autograd, so that the truth itself is tested."""

import pytest
import torch

from mhc_ops.testing import make_pre_inputs

from . import oracle


def test_einsums_equal_loops():
    c = make_pre_inputs(3, 3, 5, dtype=torch.float64)
    for got, want in zip(
        oracle.forward(*c.forward_args), oracle.loops(*c.forward_args), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("residual", ["matrix", "permutation", "none"])
def test_equations_equal_autograd(residual, outside):
    c = make_pre_inputs(5, 3, 7, residual=residual, dtype=torch.float64)
    numbers = {
        "norm_eps": 0.25,
        "norm_eps_outside": outside,
        "hc_eps": 0.03,
        "post_scale": 1.5,
        "post_eps": 0.02,
    }
    leaves = [t.clone().requires_grad_() for t in c.forward_args]
    out = oracle.forward(*leaves, **numbers)
    chosen = [(out.h_in, c.grad_h_in), (out.h_post, c.grad_h_post), (leaves[0] * 1, c.grad_x_post)]
    if residual != "none":
        chosen.append((out.h_res, c.grad_h_res))
    outputs, upstream = zip(*chosen, strict=True)
    want = torch.autograd.grad(outputs, leaves, upstream)
    saved = (out.inv_rms, out.h_mix, out.h_pre, out.h_post)
    got = oracle.backward(
        c.x, c.phi, c.alpha, c.grad_h_in, c.grad_h_post, c.grad_h_res,
        *(t.detach() for t in saved), c.gamma, c.grad_x_post, **numbers,
      )  # fmt: skip
    for name, a, b in zip(got._fields, got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13, msg=lambda m, n=name: f"{n}: {m}")


def test_hf32_keeps_ten_bits_and_rounds_ties_away():
    unit = 2.0**-10
    given = [
        1 + unit / 2,
        -(1 + unit / 2),
        1 + unit * 0.499,
        1 + unit * 1.5,
        1 + unit,
        2.0**-149,
        0.0,
    ]
    want = [1 + unit, -(1 + unit), 1.0, 1 + 2 * unit, 1 + unit, 0.0, 0.0]
    given += [2.0**-137, 3.4028235e38, float("inf"), float("-inf")]
    want += [2.0**-136, float("inf"), float("inf"), float("-inf")]
    assert oracle.to_hf32(torch.tensor(given)).tolist() == want
    assert oracle.to_hf32(torch.tensor(torch.nan)).isnan()
