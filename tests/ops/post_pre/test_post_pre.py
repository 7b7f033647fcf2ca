"""Values: the chain of the three operators bit for bit, gradients against the float64 truth."""

import pytest
import torch

from mhc_ops import ArgumentError, Convention, mhc_post_pre
from mhc_ops.testing import correctly_rounded_share, make_post_pre_inputs
from mhc_ops.types import MhcPostPre

from ..pre.cases import assert_same_bits
from ..rooms import affordable
from . import oracle
from .cases import GRADIENTS, backward, chain, check_backward, check_forward, forward

# Streams 4 is the published size, 1 and 8 the ends, 3 and 5 odd. Width 1 and 7 lie below every
# tile, 130 and 40 are off 32; 257 tokens cross a superblock of 256 by one.
SHAPES = [(7, 1, 7), (5, 4, 64), (33, 3, 130), (257, 4, 40), (6, 5, 1), (3, 8, 24)]
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
SINKHORN = [
    {},
    {"num_iters": 20},
    {"num_iters": 0},
    {"num_iters": 3, "eps": 1e-4, "eps_mode": "clamp", "order": "rows_last", "temperature": 0.7},
    {"num_iters": 5, "eps_mode": "none"},
]


@pytest.mark.parametrize("options", [{}, {"num_iters": 20}], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values(impl, dtype, shape, options):
    c = make_post_pre_inputs(*shape, dtype=dtype)
    fwd = check_forward(impl, c, **options)
    check_backward(impl, c, fwd, **options)


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("absent", ["", "h_res", "gamma", "out_bias", "grad_x_next", "all"])
def test_every_form_of_the_arguments(impl, absent, batch, streams):
    there = {
        name: absent not in (name, "all") for name in ("h_res", "gamma", "out_bias", "grad_x_next")
    }
    c = make_post_pre_inputs(6, streams, 18, batch=batch, seed=streams, **there)
    check_backward(impl, c, check_forward(impl, c))


@pytest.mark.parametrize("streams", [1, 2, 3, 4])
@pytest.mark.parametrize("residual", ["permutation", "none"])
def test_other_residual_forms(impl, residual, streams):
    c = make_post_pre_inputs(9, streams, 20, residual=residual)
    fwd = check_forward(impl, c)
    assert (fwd.h_res is None) == (residual == "none")
    check_backward(impl, c, fwd)


@pytest.mark.parametrize("options", SINKHORN, ids=str)
@pytest.mark.parametrize("streams", [1, 3, 4])
def test_sinkhorn_options(impl, options, streams):
    c = make_post_pre_inputs(40, streams, 20, dtype=torch.float32)
    check_backward(impl, c, check_forward(impl, c, **options), **options)


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
def test_numbers_of_pre(impl, precision):
    c = make_post_pre_inputs(40, 3, 20, dtype=torch.float32)
    options = {"norm_eps": 1e-3, "hc_eps": 1e-2, "post_eps": 1e-3, "precision": precision}
    fwd = check_forward(impl, c, **options)
    del options["norm_eps"]
    check_backward(impl, c, fwd, **options)
    assert (precision == "fp32") == torch.equal(fwd.h_mix, forward(impl, c).h_mix)


@pytest.mark.parametrize("num_iters", [None, 20])
@pytest.mark.parametrize(
    "convention",
    [
        Convention.megatron(),
        Convention.liger(),
        Convention.transformer_engine(),
        Convention.cann(),
        Convention.hy_v4(magnitude=1.5),
    ],
    ids=["megatron", "liger", "transformer_engine", "cann", "hy_v4"],
)
def test_conventions(impl, convention, num_iters):
    c = make_post_pre_inputs(40, 3, 20, dtype=torch.float32)
    given = {} if num_iters is None else {"num_iters": num_iters}
    fwd = forward(impl, c, convention=convention, **given)
    assert_same_bits(fwd, chain(impl, c, convention=convention, **given))
    got = backward(impl, c, fwd, convention=convention, **given)

    # The oracle's logits lie as the rows of phi: [to, from] is the transposed matrix.
    turned = convention.res_rows == "to_from"
    options = None
    if num_iters is not None:
        names = ("num_iters", "eps_mode", "order", "temperature")
        options = {name: getattr(convention, name) for name in names}
        options["eps"] = convention.sinkhorn_eps
        if turned:
            options["order"] = {"rows_last": "columns_last", "columns_last": "rows_last"}[
                convention.order
            ]
    if turned:
        c = c._replace(grad_h_res_next=c.grad_h_res_next.transpose(1, 2))
    numbers = {
        name: getattr(convention, name)
        for name in ("norm_eps", "norm_eps_outside", "hc_eps", "post_scale", "post_eps")
    }
    truth = oracle.backward(c, fwd, torch.float64, options, **numbers)
    for name, a, b in zip(GRADIENTS, got, truth, strict=True):
        size = max(float(b.abs().max()), 1.0)
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5 * size, msg=name)


def test_an_option_that_contradicts_the_convention_is_refused(impl):
    c = make_post_pre_inputs(3, 3, 4)
    with pytest.raises(ArgumentError, match=r"num_iters=7 contradicts .*dataclasses.replace"):
        forward(impl, c, num_iters=7, convention=Convention.liger())


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("residual", ["matrix", "none"])
def test_no_tokens(impl, residual, batch):
    c = make_post_pre_inputs(0, 4, 16, residual=residual, batch=batch)
    fwd = check_forward(impl, c)
    check_backward(impl, c, fwd)
    for grad in backward(impl, c, fwd)[4:]:
        assert torch.equal(grad, torch.zeros_like(grad))


def test_results_are_named(impl):
    c = make_post_pre_inputs(5, 3, 7)
    out = mhc_post_pre(*c[:8], out_bias=c.out_bias, num_iters=20, impl=impl)
    assert isinstance(out, MhcPostPre)
    assert out._fields == ("x_next", "h_in", "h_post", "h_res")
    assert_same_bits(out, forward(impl, c, num_iters=20)[:4])


def test_two_boundaries_in_a_row_equal_the_chain(impl):
    """What one boundary returns is what the next one takes."""
    c = make_post_pre_inputs(40, 4, 24)
    first = mhc_post_pre(*c[:8], num_iters=20, impl=impl)
    second = mhc_post_pre(first.x_next, first.h_res, c.h_out, first.h_post, *c[4:8], impl=impl)
    want = chain(impl, c._replace(out_bias=None), num_iters=20)
    again = c._replace(x=want.x_next, h_res=want.h_res, h_post=want.h_post, out_bias=None)
    assert_same_bits(second, chain(impl, again)[:4])


@pytest.mark.parametrize(
    ("dtype", "share"), [(torch.bfloat16, 0.999), (torch.float16, 0.998)], ids=str
)
def test_correctly_rounded_shares(impl, dtype, share):
    """grad_x and grad_h_out take one rounding: that of x_next's gradient is not made."""
    c = make_post_pre_inputs(64, 4, 1024, dtype=dtype)
    fwd = forward(impl, c)
    assert correctly_rounded_share(fwd.x_next, oracle.write(c)) >= share
    got, truth = backward(impl, c, fwd), oracle.backward(c, fwd)
    assert correctly_rounded_share(got.grad_x, truth.grad_x) >= share
    assert correctly_rounded_share(got.grad_h_out, truth.grad_h_out) >= share


@pytest.mark.long
@pytest.mark.parametrize("width", [3, 96, 513, 2560])
@pytest.mark.parametrize("streams", [1, 2, 4, 6, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wide_grid(impl, dtype, streams, width):
    for tokens in (t for t in (1, 31, 300) if affordable(t, streams, width)):
        c = make_post_pre_inputs(tokens, streams, width, dtype=dtype, seed=5)
        check_backward(impl, c, check_forward(impl, c, num_iters=20), num_iters=20)
