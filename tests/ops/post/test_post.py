"""Values of mhc_post_forward and mhc_post_backward against the float64 truth."""

import pytest
import torch

from mhc_ops.testing import correctly_rounded_share, make_post_inputs, max_error

from ..pre.cases import assert_same_bits
from ..rooms import affordable
from . import oracle
from .cases import backward, check_backward, check_forward, forward

# Streams 4 is the published size, 1 and 8 the ends, 3 and 5 odd. Width 1 and 7 lie below every
# tile, 130 is off 32, 64 and 128; 257 tokens cross a superblock of 256 by one.
SHAPES = [(7, 1, 7), (5, 4, 64), (33, 3, 130), (257, 4, 40), (6, 5, 1), (3, 8, 24)]
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_are_as_exact_as_float32(impl, dtype, shape):
    c = make_post_inputs(*shape, dtype=dtype)
    check_forward(impl, c)
    check_backward(impl, c)


@pytest.mark.parametrize("streams", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("extras", [(True, False), (False, True), (False, False)], ids=str)
def test_every_form_of_the_arguments(impl, extras, batch, streams):
    h_res, bias = extras
    c = make_post_inputs(6, streams, 18, h_res=h_res, bias=bias, batch=batch, seed=streams)
    check_forward(impl, c)
    check_backward(impl, c)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_the_first_index_of_h_res_is_the_source(impl, dtype):
    """h_res with a single 1 at [0, 2] copies stream 0 to stream 2, and the gradient back."""
    c = make_post_inputs(4, 3, 10, dtype=dtype, bias=False)
    c.h_res.zero_()
    c.h_res[:, 0, 2] = 1
    c.h_post.zero_()
    want = torch.zeros_like(c.x)
    want[:, 2] = c.x[:, 0]
    assert torch.equal(forward(impl, c), want)
    back = torch.zeros_like(c.x)
    back[:, 0] = c.grad_out[:, 2]
    assert torch.equal(backward(impl, c).grad_x, back)


def test_doubly_stochastic_h_res_conserves_the_sum_of_streams(impl):
    """A row [from] of sum 1 hands each stream on whole; columns of sum 1 alone would not do."""
    c = make_post_inputs(9, 4, 12, dtype=torch.float32, bias=False)
    h_res = c.h_res / c.h_res.sum(-1, keepdim=True)
    assert float((h_res.sum(-2) - 1).abs().max()) > 0.1
    c = c._replace(h_res=h_res, h_post=torch.zeros_like(c.h_post))
    torch.testing.assert_close(forward(impl, c).sum(-2), c.x.sum(-2), rtol=1e-5, atol=1e-5)


def test_relabelled_streams(impl):
    """Renaming the streams of the inputs renames those of the outputs; sums change their order."""
    order = torch.tensor([2, 0, 3, 1])
    c = make_post_inputs(9, 4, 12, dtype=torch.float32)
    moved = c._replace(
        x=c.x[:, order],
        h_res=c.h_res[:, order][:, :, order],
        h_post=c.h_post[:, order],
        grad_out=c.grad_out[:, order],
    )
    assert max_error(forward(impl, moved), forward(impl, c).double()[:, order]) < 1e-5
    a, b = backward(impl, moved), backward(impl, c)
    assert max_error(a.grad_x, b.grad_x.double()[:, order]) < 1e-5
    assert max_error(a.grad_h_res, b.grad_h_res.double()[:, order][:, :, order]) < 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_no_h_res_is_the_identity(impl, dtype):
    c = make_post_inputs(9, 4, 12, dtype=dtype)
    eye = c._replace(h_res=torch.eye(4).expand(9, 4, 4).contiguous())
    bare = c._replace(h_res=None)
    assert_same_bits((forward(impl, bare),), (forward(impl, eye),))
    got, want = backward(impl, bare), backward(impl, eye)
    assert_same_bits(got, want)
    assert torch.equal(got.grad_x, c.grad_out)


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("h_res", [True, False])
def test_no_tokens(impl, h_res, batch):
    c = make_post_inputs(0, 4, 16, h_res=h_res, batch=batch)
    check_forward(impl, c)
    check_backward(impl, c)
    assert torch.equal(backward(impl, c).grad_bias, torch.zeros(16))


@pytest.mark.parametrize(
    ("dtype", "share"), [(torch.bfloat16, 0.999), (torch.float16, 0.998)], ids=str
)
def test_correctly_rounded_shares(impl, dtype, share):
    c = make_post_inputs(64, 4, 1024, dtype=dtype)
    assert correctly_rounded_share(forward(impl, c), oracle.forward(*c[:5])) >= share
    got, truth = backward(impl, c), oracle.backward(*c.backward_args)
    assert correctly_rounded_share(got.grad_x, truth.grad_x) >= share
    assert correctly_rounded_share(got.grad_h_out, truth.grad_h_out) >= share


@pytest.mark.long
@pytest.mark.parametrize("width", [3, 96, 513, 2560])
@pytest.mark.parametrize("streams", [1, 2, 4, 6, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wide_grid(impl, dtype, streams, width):
    for tokens in (t for t in (1, 31, 300) if affordable(t, streams, width)):
        c = make_post_inputs(tokens, streams, width, dtype=dtype, seed=5)
        check_forward(impl, c)
        check_backward(impl, c)
