"""stream_head at its edges: `out=`, NaN, no tokens, zero rows, strides, every N, bits."""

import pytest
import torch

from mhc_ops import stream_head, stream_head_backward, stream_head_forward
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS

from ..pre.cases import assert_same_bits
from ..rooms import IMPLS, named
from .test_head import NAMES, draw, formula

DTYPES = [torch.bfloat16, torch.float32]


def both(impl, args, upstream, **options):
    """The forward's outputs and the backward's from them."""
    x, fn, _, scale = args
    fwd = stream_head_forward(*args, impl=impl)
    return fwd, stream_head_backward(x, fn, scale, upstream, *fwd[1:], impl=impl, **options)


@pytest.fixture(params=IMPLS)
def impl(request):
    return named(request)


@pytest.mark.parametrize("layout", ["dense", *LAYOUTS])
@pytest.mark.parametrize("lead", [None, 2])
def test_out(impl, layout, lead):
    """Targets are written and returned, alone or together, whatever their strides."""
    args, upstream = draw(6, 3, 21, torch.bfloat16, batch=lead)
    x, fn, _, scale = args
    fwd, bwd = both(impl, args, upstream)
    view = LAYOUTS.get(layout, lambda t: t)
    for want, run in (
        (fwd, lambda **o: stream_head_forward(*args, impl=impl, **o)),
        (
            bwd,
            lambda **o: stream_head_backward(x, fn, scale, upstream, *fwd[1:], impl=impl, **o),
        ),
    ):
        for kept in ({0, 1, 2, 3}, {0}, {1}, {2}, {3}):
            out = [view(torch.full_like(t, torch.nan)) for t in want]
            out = tuple(t if i in kept else None for i, t in enumerate(out))
            got = run(out=out)
            assert_same_bits(got, want)
            assert all(got[i] is out[i] for i in kept)


def test_results_may_land_on_inputs(impl):
    args, upstream = draw(6, 3, 32, torch.float32)
    x, fn, _, scale = args
    fwd, bwd = both(impl, args, upstream)
    stream_head_backward(x, fn, scale, upstream, *fwd[1:], impl=impl, out=(x, fn, None, None))
    assert_same_bits((x, fn), bwd[:2])


def test_errors_of_out():
    args, upstream = draw(3, 2, 4, torch.bfloat16)
    x, fn, _, scale = args
    fwd = stream_head_forward(*args)
    with pytest.raises(ArgumentError, match=r"^stream_head_forward: out must be a tuple of 4"):
        stream_head_forward(*args, out=(None,))
    with pytest.raises(ShapeError, match=r"^stream_head_forward: out.h_mix must be \[3, 2\]"):
        stream_head_forward(*args, out=(None, None, torch.zeros(3, 4), None))
    with pytest.raises(DtypeError, match=r"^stream_head_backward: out.grad_x must be .*bfloat16"):
        stream_head_backward(x, fn, scale, upstream, *fwd[1:], out=(x.float(), None, None, None))
    with pytest.raises(ArgumentError, match=r"^stream_head_backward: out.grad_fn must be None"):
        stream_head_backward(
            x, fn, scale, upstream, *fwd[1:], wanted=("x",), out=(None, fn.clone(), None, None)
        )
    with pytest.raises(UnsupportedError, match="does not record gradients"):
        stream_head_forward(x, fn.requires_grad_(), *args[2:], out=(None,) * 4)


@pytest.mark.parametrize("streams", range(1, 9))
def test_every_number_of_streams_and_odd_widths(impl, streams):
    args, upstream = draw(9, streams, 37, torch.bfloat16)
    fwd, bwd = both(impl, args, upstream)
    torch.testing.assert_close(fwd.h.double(), formula(*args), rtol=2**-8, atol=2**-8)
    wide = [t.double().requires_grad_() for t in args]
    truth = torch.autograd.grad(formula(*wide), wide, upstream.double())
    for name, got, want in zip(NAMES, bwd, truth, strict=True):
        bound = 2**-8 * float(want.abs().max())
        torch.testing.assert_close(got.double(), want, rtol=2**-8, atol=bound, msg=name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits(impl, dtype, threads):
    """Runs, threads, strides; a token alone equals itself in a batch."""
    args, upstream = draw(300, 4, 96, dtype)
    x, *parameters = args
    want = both(impl, args, upstream)
    for count in (1, 2, 3):
        threads(count)
        for got, first in zip(both(impl, args, upstream), want, strict=True):
            assert_same_bits(got, first)
    for view in LAYOUTS.values():
        got = both(impl, (view(x), *parameters), view(upstream))
        for a, b in zip(got, want, strict=True):
            assert_same_bits(a, b)
    for part in (slice(0, 1), slice(17, 18), slice(100, 290)):
        fwd, bwd = both(impl, (x[part], *parameters), upstream[part])
        assert_same_bits(fwd, type(fwd)(*(t[part] for t in want[0])))
        assert_same_bits((bwd.grad_x,), (want[1].grad_x[part],))


def test_parameter_gradients_over_superblocks(impl):
    """Chunks that are multiples of 256 tokens, added in order, give the bits of one call."""
    args, upstream = draw(600, 2, 24, torch.bfloat16)
    _, whole = both(impl, args, upstream)
    total = None
    for first in range(0, 600, 256):
        part = slice(first, first + 256)
        _, bwd = both(impl, (args[0][part], *args[1:]), upstream[part])
        total = bwd[1:] if total is None else [a + b for a, b in zip(total, bwd[1:], strict=True)]
    assert_same_bits(total, whole[1:])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf], ids=str)
def test_what_is_not_finite_stays_in_its_token(impl, bad):
    args, upstream = draw(20, 4, 33, torch.bfloat16)
    clean = both(impl, args, upstream)
    args[0][7, 2, 5] = bad
    upstream[11, 3] = bad
    fwd, bwd = both(impl, args, upstream)
    for got, want, where in (
        *((a, b, (7,)) for a, b in zip(fwd, clean[0], strict=True)),
        (bwd.grad_x, clean[1].grad_x, (7, 11)),
    ):
        keep = [t for t in range(20) if t not in where]
        assert_same_bits((got[keep],), (want[keep],))
    assert not fwd.h[7].isfinite().all()
    assert not bwd.grad_x[11].isfinite().all()
    assert all(not t.isfinite().all() for t in bwd[1:])


@pytest.mark.parametrize("lead", [(0,), (2, 0)], ids=str)
def test_no_tokens(impl, lead):
    args, upstream = draw(0, 3, 20, torch.bfloat16)
    x = args[0].reshape(*lead, 3, 20)
    fwd, bwd = both(impl, (x, *args[1:]), upstream.reshape(*lead, 20))
    assert [tuple(t.shape) for t in fwd] == [(*lead, 20), lead, (*lead, 3), (*lead, 3)]
    assert bwd.grad_x.shape == x.shape
    assert not any(t.any() for t in bwd[1:])


def test_zero_rows(impl):
    """inv_rms of a token of zeros is norm_eps^-1/2; nothing overflows on the way back."""
    args, upstream = draw(5, 3, 20, torch.bfloat16)
    args[0][2] = 0
    fwd, bwd = both(impl, args, upstream)
    assert not fwd.h[2].any()
    torch.testing.assert_close(fwd.inv_rms[2], torch.tensor(1e3))
    wide = [t.double().requires_grad_() for t in args]
    truth = torch.autograd.grad(formula(*wide), wide, upstream.double())
    for got, want in zip(bwd, truth, strict=True):
        bound = 2**-8 * float(want.abs().max())
        torch.testing.assert_close(got.double(), want, rtol=2**-8, atol=bound)


def test_no_grad_and_training_give_the_same_bits(impl):
    args, _ = draw(33, 4, 40, torch.bfloat16)
    want = stream_head(*(t.clone().requires_grad_() for t in args), impl=impl)
    with torch.no_grad():
        assert_same_bits((stream_head(*args, impl=impl),), (want,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits((stream_head(*args, impl=impl),), (want,))
    assert stream_head(*(t.to("meta") for t in args)).device.type == "meta"
