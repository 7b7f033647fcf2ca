"""Other libraries' conventions: the numbers reach both directions, the rows keep their meaning."""

from dataclasses import replace

import pytest
import torch

from mhc_ops import Convention, mhc_pre
from mhc_ops.errors import ArgumentError
from mhc_ops.testing import make_pre_inputs

from . import oracle
from .cases import (
    LEAVES,
    assert_same_bits,
    autograd,
    backward,
    backward_args,
    check_outputs,
    forward,
    leaves,
    weigh,
)

PRESETS = {
    "deepseek_v4": Convention.deepseek_v4(),
    "cann": Convention.cann(),
    "cann_no_residual": Convention.cann(residual=False),
    "megatron": Convention.megatron(),
    "megatron_dev": Convention.megatron(branch="dev"),
    "liger": Convention.liger(),
    "transformer_engine": Convention.transformer_engine(),
    "hy_v4": Convention.hy_v4(magnitude=1.5),
    # Large numbers: a preset's 1e-6 would hide in the rounding if it were dropped.
    "large": Convention(norm_eps=0.2, hc_eps=0.03, post_scale=1.3, post_eps=0.04),
    "large_outside": Convention(
        norm_eps=0.2, norm_eps_outside=True, hc_eps=0.03, post_scale=0.7, post_eps=-0.1,
        res_rows="to_from",
    ),
}  # fmt: skip

# What the published tables say, restated as this package's numbers.
PUBLISHED = {
    "deepseek_v4": (1e-6, False, 1e-6, 2.0, 0.0, "from_to"),
    "cann": (1e-6, False, 1e-6, 2.0, 0.0, "from_to"),
    "cann_no_residual": (1e-6, False, 1e-6, 2.0, 1e-6, "from_to"),
    "megatron": (1e-6, True, 0.0, 2.0, 0.0, "to_from"),
    "megatron_dev": (1e-6, True, 1e-6, 2.0, 0.0, "from_to"),
    "liger": (1e-6, False, 0.0, 2.0, 0.0, "to_from"),
    "transformer_engine": (2.0**-23, False, 0.0, 2.0, 0.0, "from_to"),
}


def numbers_of(convention):
    names = ("norm_eps", "norm_eps_outside", "hc_eps", "post_scale", "post_eps")
    return {name: getattr(convention, name) for name in names}


def with_rows(convention, h_res):
    """h_res as [from, to] from rows in the convention's order, or back: the swap undoes itself."""
    if h_res is None or convention.res_rows == "from_to":
        return h_res
    return h_res.transpose(-1, -2)


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_say_what_was_published(name):
    c = PRESETS[name]
    assert (*numbers_of(c).values(), c.res_rows) == PUBLISHED[name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("residual", ["matrix", "permutation", "none"])
@pytest.mark.parametrize("name", PRESETS)
def test_values_in_both_directions(impl, name, residual, dtype):
    convention = PRESETS[name]
    numbers = numbers_of(convention)
    swapped = convention if residual == "matrix" else replace(convention, res_rows="from_to")
    c = make_pre_inputs(9, 3, 20, residual=residual, dtype=dtype)
    fwd = forward(impl, c, convention=convention)
    truth = lambda work: oracle.forward(*c.forward_args, **numbers, work=work)  # noqa: E731
    rows = fwd._replace(h_res=with_rows(swapped, fwd.h_res))
    scales = oracle.forward_scales(*c.forward_args, **numbers)
    check_outputs(dtype, rows, truth, scales, terms=60)

    got = backward(impl, c, fwd, convention=convention)
    by_rows = c._replace(grad_h_res=with_rows(swapped, c.grad_h_res))
    args = backward_args(by_rows, fwd)
    truth = lambda work: oracle.backward(*args, **numbers, work=work)  # noqa: E731
    check_outputs(dtype, got, truth, oracle.backward_scales(*args, **numbers), terms=60)


@pytest.mark.parametrize("name", ["large", "large_outside"])
def test_the_differentiable_operator_has_them_too(impl, name):
    convention = PRESETS[name]
    c = make_pre_inputs(9, 3, 20, dtype=torch.float64)
    made = leaves(c)
    outputs, upstream = weigh(mhc_pre(**made, impl=impl, convention=convention), c)
    got = torch.autograd.grad(outputs, list(made.values()), upstream)

    made = leaves(c)
    truth = oracle.forward(*made.values(), **numbers_of(convention))
    outputs = (truth.h_in, truth.h_post, with_rows(convention, truth.h_res), made["x"] * 1)
    want = torch.autograd.grad(outputs, list(made.values()), upstream)
    for leaf, a, b in zip(LEAVES, got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12 * float(b.abs().max())), leaf


@pytest.mark.parametrize("name", ["large", "large_outside"])
def test_both_doors_agree_bit_for_bit(impl, name):
    convention = PRESETS[name]
    c = make_pre_inputs(9, 3, 20)
    bare = backward(impl, c, forward(impl, c, convention=convention), convention=convention)
    assert_same_bits(tuple(autograd(impl, c, convention=convention).values()), bare)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_zero_rows_with_the_eps_outside(impl, dtype):
    """rms is 0 there, and the derivative of sqrt(mean x^2) is taken as 0, not as 0/0."""
    convention = Convention.megatron()
    c = make_pre_inputs(9, 4, 24, dtype=dtype)
    c.x[4] = 0
    fwd = forward(impl, c, convention=convention)
    assert float(fwd.inv_rms[4]) == pytest.approx(1e6, rel=1e-6)
    for name, grad in backward(impl, c, fwd, convention=convention)._asdict().items():
        assert grad.isfinite().all(), name


def test_the_defaults_are_the_canonical_form(impl):
    c = make_pre_inputs(9, 3, 20)
    fwd = forward(impl, c)
    assert_same_bits(forward(impl, c, convention=Convention()), fwd)
    assert_same_bits(
        backward(impl, c, fwd, convention=Convention.deepseek_v4()), backward(impl, c, fwd)
    )


def test_a_number_named_twice_is_refused(impl):
    c = make_pre_inputs(9, 3, 20)
    with pytest.raises(ArgumentError, match=r"^mhc_pre_forward: hc_eps=0.5 .*replace"):
        forward(impl, c, hc_eps=0.5, convention=Convention.liger())


def test_numbers_that_no_library_uses_are_refused():
    with pytest.raises(ValueError, match="res_rows must be"):
        Convention(res_rows="rows")
    with pytest.raises(ValueError, match="post_scale must not be 0"):
        Convention(post_scale=0.0)
    with pytest.raises(ValueError, match="branch must be"):
        Convention.megatron(branch="old")
