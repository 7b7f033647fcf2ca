"""Values of mhc_pre_forward and mhc_pre_backward against the float64 truth."""

from itertools import product

import pytest
import torch

from mhc_ops.testing import correctly_rounded_share, make_pre_inputs

from ..rooms import affordable
from . import oracle
from .cases import backward, backward_args, check_backward, check_forward, forward, saved

# Streams 4 is the published size, 3 and 5 are odd, 1 and 8 the ends. Width 1 and 7 lie below every
# tile, 130 is off 32, 64 and 128; 257 tokens cross a superblock of 256 by one.
SHAPES = [(7, 1, 7), (5, 4, 64), (33, 3, 130), (257, 4, 40), (6, 5, 1), (3, 8, 24)]
LONG_SHAPES = [
    shape for shape in product((1, 31, 300), (1, 2, 4, 6, 8), (3, 96, 513)) if affordable(*shape)
]
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_forward_is_as_exact_as_float32(impl, dtype, shape):
    check_forward(impl, make_pre_inputs(*shape, dtype=dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_backward_is_as_exact_as_float32(impl, dtype, shape):
    c = make_pre_inputs(*shape, dtype=dtype)
    check_backward(impl, c, saved(c))


@pytest.mark.parametrize("layout", ["TND", "BSND"])
@pytest.mark.parametrize("extras", [(True, False), (False, True), (False, False)], ids=str)
@pytest.mark.parametrize("residual", ["matrix", "permutation", "none"])
def test_every_form_of_the_arguments(impl, residual, extras, layout):
    gamma, post = extras
    c = make_pre_inputs(
        6, 4, 18, residual=residual, gamma=gamma, grad_x_post=post, layout=layout, seed=3
    )
    check_forward(impl, c)
    check_backward(impl, c, saved(c))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("residual", ["matrix", "permutation", "none"])
def test_every_number_of_the_call_is_used(impl, residual, dtype):
    numbers = {"norm_eps": 0.3, "hc_eps": 0.05, "post_eps": 0.02}
    c = make_pre_inputs(9, 3, 20, residual=residual, dtype=dtype)
    check_forward(impl, c, **numbers)
    check_backward(impl, c, saved(c, **numbers), **numbers)


@pytest.mark.parametrize("layout", ["TND", "BSND"])
@pytest.mark.parametrize("residual", ["matrix", "none"])
def test_no_tokens(impl, residual, layout):
    c = make_pre_inputs(0, 4, 16, residual=residual, layout=layout)
    check_forward(impl, c)
    got = backward(impl, c, forward(impl, c))
    assert got.grad_x.shape == c.x.shape
    for name in ("phi", "alpha", "bias", "gamma"):
        grad, given = getattr(got, f"grad_{name}"), getattr(c, name)
        assert torch.equal(grad, torch.zeros_like(given)), name


@pytest.mark.parametrize("form", ["matrix", "permutation"])
def test_one_stream_takes_either_form(impl, form):
    c = make_pre_inputs(5, 1, 12, residual="matrix")
    fwd = forward(impl, c)
    assert fwd.h_res.shape == (5, 1, 1)
    if form == "permutation":
        c = c._replace(grad_h_res=c.grad_h_res[..., 0])
    check_backward(impl, c, fwd)


def test_saved_tensors_are_used_as_given(impl):
    """h_pre, h_post, h_mix and inv_rms need not be what the forward of x would make of them."""
    c = make_pre_inputs(9, 4, 32, seed=1)
    other = saved(make_pre_inputs(9, 4, 32, seed=2))
    check_backward(impl, c, other)


@pytest.mark.parametrize(
    ("dtype", "share"), [(torch.bfloat16, 0.999), (torch.float16, 0.998)], ids=str
)
def test_correctly_rounded_shares(impl, dtype, share):
    c = make_pre_inputs(64, 4, 1024, dtype=dtype)
    fwd = forward(impl, c)
    h_in = torch.einsum("ti,tid->td", fwd.h_pre.double(), c.x.double())
    assert correctly_rounded_share(fwd.h_in, h_in) >= share
    got = backward(impl, c, fwd)
    truth = oracle.backward(*backward_args(c, fwd))
    assert correctly_rounded_share(got.grad_x, truth.grad_x) >= share


@pytest.mark.long
@pytest.mark.parametrize("residual", ["matrix", "none"])
@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wide_grid(impl, dtype, shape, residual):
    c = make_pre_inputs(*shape, residual=residual, dtype=dtype, seed=5)
    check_forward(impl, c)
    check_backward(impl, c, saved(c))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_published_sizes(impl, dtype):
    c = make_pre_inputs(512, 4, 2560, dtype=dtype)
    check_forward(impl, c)
    check_backward(impl, c, saved(c))
