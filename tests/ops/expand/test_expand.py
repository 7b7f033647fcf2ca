"""expand_streams: copies, and gradients summed in float32 with one rounding."""

import pytest
import torch

from mhc_ops import expand_streams, expand_streams_backward, expand_streams_forward
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS, round_to, strided

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


def draw(*shape, dtype):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(dtype)


@pytest.mark.parametrize("lead", [(7,), (2, 3), (0,)])
@pytest.mark.parametrize("streams", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradient(dtype, streams, lead):
    h = draw(*lead, 5, dtype=dtype).requires_grad_()
    x = expand_streams(h, streams)
    assert x.shape == (*lead, streams, 5)
    assert x.is_contiguous()
    assert all(torch.equal(x[..., i, :], h) for i in range(streams))
    assert torch.equal(expand_streams(strided(h.detach()), streams), x)
    upstream = draw(*lead, streams, 5, dtype=dtype)
    (got,) = torch.autograd.grad(x, h, upstream)
    want = torch.zeros(*lead, 5, dtype=torch.float64)
    for i in range(streams):
        want = want + upstream[..., i, :].double()
        want = want if dtype == torch.float64 else want.float().double()  # float32 additions
    assert torch.equal(got, round_to(want, dtype))


# torch's own forward-mode rules still use torch.jit.script.
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_derivatives_of_every_kind():
    h = draw(3, 4, dtype=torch.float64).requires_grad_()

    def run(h):
        return expand_streams(h, 3)

    assert torch.autograd.gradcheck(run, h)
    assert torch.autograd.gradgradcheck(run, h)
    rows = torch.stack([h, 2 * h])
    assert torch.equal(torch.func.vmap(run)(rows)[1], run(2 * h))
    tangent = torch.func.jvp(run, (h.detach(),), (2 * h.detach(),))[1]
    assert torch.equal(tangent, run(2 * h))
    weight = draw(3, 3, 4, dtype=torch.float64)
    got = torch.func.grad(lambda h: (run(h) * weight).sum())(h.detach())
    torch.testing.assert_close(got, weight.sum(1))


def test_one_graph_with_dynamic_tokens():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda h: expand_streams(h, 3), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for tokens in (6, 17):
        h = draw(tokens, 4, dtype=torch.bfloat16).requires_grad_()
        out = compiled(h)
        assert torch.equal(out, expand_streams(h, 3))
        assert torch.equal(compiled(h.detach()), out)
        upstream = draw(tokens, 3, 4, dtype=torch.bfloat16)
        a, b = (torch.autograd.grad(o, h, upstream)[0] for o in (out, expand_streams(h, 3)))
        assert torch.equal(a, b)


@pytest.mark.parametrize("streams", [1, 2, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bare_operators(dtype, streams):
    """Equal to the differentiable one, alone or in a batch, from and into every layout."""
    h, upstream = draw(6, 5, dtype=dtype), draw(6, streams, 5, dtype=dtype)
    leaf = h.clone().requires_grad_()
    x = expand_streams(leaf, streams)
    (grad,) = torch.autograd.grad(x, leaf, upstream)
    assert torch.equal(expand_streams_forward(h, streams), x)
    got = expand_streams_backward(upstream)
    assert torch.equal(got, grad)
    assert got.untyped_storage().data_ptr() != upstream.untyped_storage().data_ptr()
    assert torch.equal(expand_streams_backward(upstream[2:3]), grad[2:3])
    assert torch.equal(expand_streams_backward(upstream.unflatten(0, (2, 3))).flatten(0, 1), grad)
    for view in LAYOUTS.values():
        assert torch.equal(expand_streams_forward(view(h), streams), x)
        found = expand_streams_backward(view(upstream))
        assert found.is_contiguous()
        assert torch.equal(found, grad)
        for want, run in (
            (x, lambda **o: expand_streams_forward(h, streams, **o)),
            (grad, lambda **o: expand_streams_backward(upstream, **o)),
        ):
            target = view(torch.full_like(want.detach(), torch.nan))
            assert run(out=(target,)) is target
            assert torch.equal(target, want)
            assert torch.equal(run(out=(None,)), want)


def test_results_may_land_on_inputs():
    room = draw(6, 3, 5, dtype=torch.float32)
    h, want = room[:, 1], expand_streams(room[:, 1].clone(), 3)
    expand_streams_forward(h, 3, out=(room,))
    assert torch.equal(room, want)
    want = expand_streams_backward(room.clone())
    expand_streams_backward(room, out=(room[:, 2],))
    assert torch.equal(room[:, 2], want)


def test_not_a_number_stays_in_its_place():
    x = draw(6, 3, 5, dtype=torch.bfloat16)
    clean = expand_streams_backward(x)
    x[2, 1, 4] = torch.nan
    spoiled = expand_streams_backward(x)
    assert spoiled[2, 4].isnan()
    clean[2, 4] = spoiled[2, 4] = 0
    assert torch.equal(spoiled, clean)


def test_errors_of_the_bare_operators():
    h = torch.ones(3, 4)
    with pytest.raises(ShapeError, match=r"^expand_streams_forward: h must be .*got \[4\]"):
        expand_streams_forward(h[0], 2)
    with pytest.raises(
        ShapeError, match=r"^expand_streams_backward: grad_x must be .*got \[3, 4\]"
    ):
        expand_streams_backward(h)
    with pytest.raises(ShapeError, match=r"^expand_streams_forward: out.x must be \[3, 2, 4\]"):
        expand_streams_forward(h, 2, out=(h,))
    with pytest.raises(DtypeError, match=r"^expand_streams_backward: out.grad_h must be"):
        expand_streams_backward(h[:, None], out=(h.double(),))
    with pytest.raises(ArgumentError, match=r"^expand_streams_forward: out must be a tuple of 1"):
        expand_streams_forward(h, 2, out=())
    with pytest.raises(UnsupportedError, match="does not record gradients"):
        expand_streams_forward(h.requires_grad_(), 2, out=(None,))


def test_errors():
    h = torch.ones(3, 4)
    with pytest.raises(ShapeError, match=r"^expand_streams: h must be .*got \[4\]"):
        expand_streams(h[0], 2)
    with pytest.raises(DtypeError, match=r"^expand_streams: h must be .*int32"):
        expand_streams(h.int(), 2)
    with pytest.raises(ArgumentError, match=r"^expand_streams: streams must be .*got 0"):
        expand_streams(h, 0)
