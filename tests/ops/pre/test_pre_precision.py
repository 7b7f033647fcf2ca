"""precision="hf32": matmul operands of 10 fraction bits, everything else float32."""

import pytest
import torch

from mhc_ops.testing import make_pre_inputs

from . import oracle
from .cases import (
    assert_same_bits,
    autograd,
    backward,
    backward_args,
    check_outputs,
    forward,
    saved,
)

# One operand errs by at most 2^-11 of itself, a product of two by 2^-10 + 2^-22.
PRODUCT = 2.0**-10 + 2.0**-22


@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_forward_equals_float64_of_rounded_operands(impl, dtype, gamma):
    c = make_pre_inputs(33, 4, 130, dtype=dtype, gamma=gamma)
    numbers = {"hf32": True}
    check_outputs(
        dtype,
        forward(impl, c, precision="hf32"),
        lambda work: oracle.forward(*c.forward_args, **numbers, work=work),
        oracle.forward_scales(*c.forward_args, **numbers),
        terms=520,
    )


def test_forward_differs_from_fp32_within_its_bound(impl):
    c = make_pre_inputs(33, 4, 130, dtype=torch.float32)
    fine, coarse = forward(impl, c), forward(impl, c, precision="hf32")
    assert not torch.equal(fine.h_mix, coarse.h_mix)
    assert_same_bits((coarse.inv_rms,), (fine.inv_rms,))
    scaled = (c.x * c.gamma).double().abs().flatten(1)
    sizes = scaled @ c.phi.double().abs().T
    gap = (coarse.h_mix.double() - oracle.forward(*c.forward_args).h_mix).abs()
    # The float32 sums add their own rounding: 520 terms at most 520 * 2^-24 of the sizes.
    assert (gap <= (PRODUCT + 520 * 2.0**-24) * sizes).all()
    assert float((gap / sizes).max()) > 1e-6


def test_values_of_ten_bits_make_hf32_exact(impl):
    """bf16 x without gamma and phi of ten bits: no operand changes, and neither does a bit."""
    c = make_pre_inputs(33, 4, 130, gamma=False)
    c = c._replace(phi=oracle.to_hf32(c.phi))
    assert_same_bits(forward(impl, c, precision="hf32"), forward(impl, c))


# 0x7fffffff is the NaN that half a unit added to the bits would turn into -0.
@pytest.mark.parametrize("pattern", [0x7F800000, -0x00800000, 0x7FC00000, 0x7FFFFFFF])
def test_infinity_and_nan_pass_unchanged(impl, pattern):
    c = make_pre_inputs(5, 3, 7, dtype=torch.float32, gamma=False)
    c.x[2, 1, 3] = torch.tensor([pattern], dtype=torch.int32).view(torch.float32)[0]
    got, clean = (forward(impl, c, precision=p) for p in ("hf32", "fp32"))
    want = oracle.forward(*c.forward_args, hf32=True)
    assert torch.equal(got.h_mix[2].isnan(), want.h_mix[2].isnan())
    assert torch.equal(got.h_mix[2].isinf(), clean.h_mix[2].isinf())
    assert got.h_mix[[0, 1, 3, 4]].isfinite().all()


def exact_case(dtype):
    """Saved tensors and upstream gradients for which g is exact in float32 in any order.

    h_pre = 1/2 and hc_eps = 0 give s*(1-s) = 1/4, h_post = 1 gives p*(1-p/2) = 1/2, alpha and
    inv_rms are powers of two, and dh_pre is a sum of small multiples of 1/4.
    """
    c = make_pre_inputs(33, 4, 24, dtype=dtype)
    quarter = (c.x.float() * 4).round() / 4
    c = c._replace(
        x=quarter.to(dtype),
        alpha=torch.tensor([2.0, 0.5, 4.0]),
        grad_h_in=((c.grad_h_in.float() * 4).round() / 4).to(dtype),
    )
    fwd = saved(c)
    power = 2.0 ** (torch.arange(33) % 5 - 2)
    return c, fwd._replace(
        h_pre=torch.full_like(fwd.h_pre, 0.5),
        h_post=torch.ones_like(fwd.h_post),
        inv_rms=power,
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_backward_equals_float64_of_rounded_operands(impl, dtype):
    c, fwd = exact_case(dtype)
    args = backward_args(c, fwd)
    numbers = {"hc_eps": 0.0, "hf32": True}
    check_outputs(
        dtype,
        backward(impl, c, fwd, precision="hf32", hc_eps=0.0),
        lambda work: oracle.backward(*args, **numbers, work=work),
        oracle.backward_scales(*args, **numbers),
        terms=24 + 24 + 33,
    )


def test_backward_differs_from_fp32_only_behind_the_matmuls(impl):
    c = make_pre_inputs(33, 4, 24, dtype=torch.float32)
    fwd = saved(c)
    fine, coarse = (backward(impl, c, fwd, precision=p) for p in ("fp32", "hf32"))
    for name in ("grad_x", "grad_phi", "grad_gamma"):
        assert not torch.equal(getattr(fine, name), getattr(coarse, name)), name
    assert_same_bits(coarse[2:4], fine[2:4])
    truth = oracle.backward(*backward_args(c, fwd))
    # |g| and |phi| bound u: the sizes of the products behind grad_x and grad_phi.
    _, m = oracle.gate_gradients(
        *(t.double() for t in (c.x, c.alpha, c.grad_h_in, c.grad_h_post)),
        c.grad_h_res.double(),
        fwd.h_pre.double(),
        fwd.h_post.double(),
    )
    g = (m * fwd.inv_rms.double()[:, None]).abs()
    scaled = (c.x * c.gamma).double().abs().flatten(1)
    slack = PRODUCT + 100 * 2.0**-24
    gap = (coarse.grad_phi.double() - truth.grad_phi).abs()
    assert (gap <= slack * (g.T @ scaled) + 1e-6).all()
    gap = (coarse.grad_x.double() - truth.grad_x).abs().flatten(1)
    sizes = (g @ c.phi.double().abs()) * c.gamma.double().abs().flatten()
    assert (gap <= slack * sizes + 4e-6).all()


def test_the_differentiable_operator_uses_it_both_ways(impl):
    c = make_pre_inputs(33, 4, 24, dtype=torch.float32)
    got = autograd(impl, c, precision="hf32")
    fwd = forward(impl, c, precision="hf32")
    assert_same_bits(tuple(got.values()), backward(impl, c, fwd, precision="hf32"))
