"""expand_streams: copies, and gradients summed in float32 with one rounding."""

import pytest
import torch

from mhc_ops import expand_streams
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError
from mhc_ops.testing import round_to, strided

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


def test_errors():
    h = torch.ones(3, 4)
    with pytest.raises(ShapeError, match=r"^expand_streams: h must be .*got \[4\]"):
        expand_streams(h[0], 2)
    with pytest.raises(DtypeError, match=r"^expand_streams: h must be .*int32"):
        expand_streams(h.int(), 2)
    with pytest.raises(ArgumentError, match=r"^expand_streams: streams must be .*got 0"):
        expand_streams(h, 0)
