"""Values at the edges: NaN and infinity, zero rows, huge and tiny numbers, saturated gates."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mhc_ops.testing import assert_within_budget, make_pre_inputs, nan_scratch, round_to

from ..rooms import IMPLS
from . import oracle
from .cases import (
    PER_TOKEN,
    assert_same_bits,
    backward,
    backward_args,
    bits,
    check_backward,
    check_forward,
    forward,
    saved,
)

UPSTREAM = ("grad_h_in", "grad_h_post", "grad_h_res", "grad_x_post")


def others(result, token):
    """The rows of every other token."""
    keep = [t for t in range(result.shape[0]) if t != token]
    return result[keep]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_bad_element_of_x_stays_in_its_token(impl, dtype, bad):
    c = make_pre_inputs(37, 4, 24, dtype=dtype)
    token = 17
    spoiled = c._replace(x=c.x.clone())
    spoiled.x[token, 2, 5] = bad
    clean, got = forward(impl, c), forward(impl, spoiled)
    for name in PER_TOKEN:
        a, b = getattr(got, name), getattr(clean, name)
        assert_same_bits((others(a, token),), (others(b, token),), f"{name} ")
    assert not got.h_in[token].isfinite().any()
    truth = oracle.forward(*spoiled.forward_args)
    assert got.h_mix[token].isnan().tolist() == truth.h_mix[token].isnan().tolist()
    a, b = backward(impl, spoiled, got), backward(impl, c, clean)
    assert_same_bits((others(a.grad_x, token),), (others(b.grad_x, token),), "grad_x ")
    assert a.grad_x[token].isnan().all()


@pytest.mark.parametrize("where", UPSTREAM)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_upstream_gradient_stays_in_its_token(impl, bad, where):
    c = make_pre_inputs(37, 4, 24)
    fwd = saved(c)
    token = 11
    spoiled = c._replace(**{where: getattr(c, where).clone()})
    getattr(spoiled, where)[token].view(-1)[1] = bad
    a, b = backward(impl, spoiled, fwd), backward(impl, c, fwd)
    assert_same_bits((others(a.grad_x, token),), (others(b.grad_x, token),))
    truth = oracle.backward(*backward_args(spoiled, fwd)).grad_x[token]
    assert a.grad_x[token].isfinite().tolist() == truth.isfinite().tolist()
    if where == "grad_x_post":
        assert_same_bits(a[1:], b[1:])


@pytest.mark.parametrize("norm_eps", [1e-6, 1e-30])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_zero_rows(impl, dtype, norm_eps):
    """norm_eps 1e-30 makes inv_rms 1e15, whose cube overflows float32; the row's own term is 0."""
    c = make_pre_inputs(9, 4, 24, dtype=dtype)
    c.x[4] = 0
    check_forward(impl, c, norm_eps=norm_eps)
    fwd = forward(impl, c, norm_eps=norm_eps)
    assert float(fwd.inv_rms[4]) == pytest.approx(norm_eps**-0.5, rel=1e-6)
    got = backward(impl, c, fwd)
    for name, grad in got._asdict().items():
        assert grad.isfinite().all(), name
    check_backward(impl, c, fwd)


# 1e20 and 1e-20 leave float32 when squared, 1e36 and 1e-30 also in products with inv_rms.
@pytest.mark.parametrize(
    ("factor", "norm_eps"), [(1e20, 1e-6), (1e36, 1e-6), (1e-20, 0.0), (1e-30, 0.0)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_x_whose_square_leaves_float32(impl, dtype, factor, norm_eps):
    """Plain float32 loses the mean square here, so the truth itself is the bar."""
    c = make_pre_inputs(9, 4, 24, dtype=dtype, grad_x_post=False)
    c = c._replace(x=(c.x.double() * factor).to(dtype))

    def check(got, truth, scales):
        for name in truth._fields:
            want, scale = getattr(truth, name), getattr(scales, name)
            assert want.isfinite().all(), name
            assert_within_budget(name, getattr(got, name), want, want, terms=157, scale=scale)

    fwd = forward(impl, c, norm_eps=norm_eps)
    args = c.forward_args
    check(
        fwd,
        oracle.forward(*args, norm_eps=norm_eps),
        oracle.forward_scales(*args, norm_eps=norm_eps),
    )
    if impl == "cpu" and factor < 1:
        # Beyond its limits: one coefficient a token holds inv_rms^2, and 1e19 squared overflows.
        return
    args = backward_args(c, fwd)
    check(backward(impl, c, fwd), oracle.backward(*args), oracle.backward_scales(*args))


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_saturated_gates(impl, dtype, size):
    c = make_pre_inputs(9, 4, 24, dtype=dtype)
    c = c._replace(alpha=c.alpha * size)
    fwd = forward(impl, c)
    assert float(fwd.h_res.abs().max()) > 1e3
    low, high = torch.tensor(1e-6), torch.tensor(1.0) + torch.tensor(1e-6)
    assert fwd.h_pre.min() == low
    assert fwd.h_pre.max() == high
    assert (fwd.h_post.min(), fwd.h_post.max()) == (0, 2)
    for name, grad in backward(impl, c, fwd)._asdict().items():
        assert grad.isfinite().all(), name
    check_backward(impl, c, fwd)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_subnormals_are_kept(impl, dtype):
    """x and grad_x_post hold the smallest subnormals (bit patterns 1 to 100) of the dtype."""
    c = make_pre_inputs(16, 4, 24, dtype=dtype)
    tiny = (torch.arange(c.x.numel()) % 100 + 1).to(torch.int16).view(dtype).reshape(c.x.shape)
    c = c._replace(x=tiny)
    fwd = forward(impl, c)
    truth = torch.einsum("ti,tid->td", fwd.h_pre.double(), tiny.double())
    # Sums of gates times subnormals lie between float32's steps only below bf16's own spacing.
    gap = (bits(fwd.h_in).int() - bits(round_to(truth, dtype)).int()).abs()
    assert int(gap.max()) <= 1
    assert float((gap == 0).double().mean()) >= 0.99
    quiet = c._replace(
        grad_h_in=torch.zeros_like(c.grad_h_in),
        grad_h_post=torch.zeros_like(c.grad_h_post),
        grad_h_res=torch.zeros_like(c.grad_h_res),
        grad_x_post=tiny,
    )
    assert_same_bits((backward(impl, quiet, fwd).grad_x,), (tiny,))


def test_parameter_gradients_of_bf16_subnormals(impl):
    """The published example feeds bit patterns 1; grad_phi is then about 1e-37 and not zero."""
    c = make_pre_inputs(1024, 4, 64, gamma=True, grad_x_post=False)
    ones = c.map(torch.ones_like)
    tiny = torch.ones(c.x.shape, dtype=torch.int16).view(torch.bfloat16)
    c = ones._replace(x=tiny, grad_h_in=tiny[:, 0])
    fwd = saved(c)
    got = backward(impl, c, fwd)
    truth = oracle.backward(*backward_args(c, fwd))
    assert 1e-38 < float(truth.grad_phi[8:].min()) < 1e-34
    # The rows of h_pre hold products of two subnormals, which lie below float32's smallest number.
    torch.testing.assert_close(got.grad_phi.double(), truth.grad_phi, rtol=1e-5, atol=2.0**-149)


def test_unwritten_scratch_never_reaches_a_result(impl):
    c = make_pre_inputs(300, 3, 50)
    fwd = forward(impl, c)
    bwd = backward(impl, c, fwd)
    with nan_scratch():
        assert_same_bits(forward(impl, c), fwd)
        assert_same_bits(backward(impl, c, fwd), bwd)


@given(
    tokens=st.integers(0, 40),
    streams=st.integers(1, 9),
    dim=st.integers(1, 70),
    residual=st.sampled_from(["matrix", "none"]),
    dtype=st.sampled_from([torch.bfloat16, torch.float16, torch.float32]),
    gamma=st.booleans(),
    post=st.booleans(),
    seed=st.integers(0, 2**20),
)
@example(33, 7, 65, "matrix", torch.bfloat16, True, True, 0)
def test_any_shape(tokens, streams, dim, residual, dtype, gamma, post, seed):
    c = make_pre_inputs(
        tokens, streams, dim, residual=residual, dtype=dtype, gamma=gamma, grad_x_post=post,
        seed=seed,
    )  # fmt: skip
    for impl in IMPLS:
        check_forward(impl, c)
        check_backward(impl, c, saved(c))
