"""stream_head against a float64 formula of its own: values, gradients, errors."""

import itertools

import pytest
import torch

from mhc_ops import explain, stream_head, stream_head_backward, stream_head_forward
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import assert_within_budget

from ..pre.cases import assert_same_bits
from ..rooms import IMPLS

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
NAMES = ("x", "fn", "base", "scale")


def draw(tokens, n, d, dtype, batch=None):
    """x, fn, base, scale and the upstream gradient."""
    generator = torch.Generator().manual_seed(n * 100 + d)
    small = torch.float64 if dtype == torch.float64 else torch.float32
    lead = (tokens,) if batch is None else (batch, tokens // batch)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    args = (normal(*lead, n, d).to(dtype), (normal(n, n * d) / (n * d) ** 0.5).to(small),
            (0.3 * normal(n)).to(small), torch.full((1,), 1.3, dtype=small))  # fmt: skip
    return args, normal(*lead, d).to(dtype)


def formula(x, fn, base, scale, norm_eps=1e-6, eps=1e-6, work=torch.float64):
    x, fn, base, scale = (t.to(work) for t in (x, fn, base, scale))
    inv = ((x * x).flatten(-2).mean(-1, keepdim=True) + norm_eps) ** -0.5
    z = scale * (x.flatten(-2) @ fn.T) * inv + base
    gates = 1 / (1 + torch.exp(-z)) + eps
    return torch.einsum("...i,...id->...d", gates, x)


def gradients(fn, args, upstream):
    made = [t.detach().clone().requires_grad_() for t in args]
    return torch.autograd.grad(fn(*made), made, upstream)


def skip_float64_kernels(impl, dtype):
    if impl in ("cpu", "triton") and dtype == torch.float64:
        pytest.skip("the kernels take no float64")


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("shape", [(7, 1, 7), (33, 4, 40), (5, 3, 130), (3, 8, 24)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_and_gradients(impl, dtype, shape):
    skip_float64_kernels(impl, dtype)
    args, upstream = draw(*shape, dtype)
    terms = shape[1] * shape[2] + shape[0]
    got = (stream_head(*args, impl=impl),
           *gradients(lambda *a: stream_head(*a, impl=impl), args, upstream))  # fmt: skip
    wide = [t.double() for t in args]
    truth = (formula(*args), *gradients(formula, wide, upstream.double()))
    if dtype == torch.float64:
        torch.testing.assert_close(got, truth, rtol=1e-11, atol=1e-11)
        return
    single = [t.float() for t in args]

    def eager_formula(*a):
        return formula(*a, work=torch.float32)

    eager = (eager_formula(*single), *gradients(eager_formula, single, upstream.float()))
    # Sums over tokens cancel: their scale is that of the tokens' own gradients, added up.
    sizes = [0.0] * 4
    for i in range(shape[0]):
        alone = gradients(formula, [wide[0][i : i + 1], *wide[1:]], upstream[i : i + 1].double())
        sizes = [s + float(g.abs().max()) for s, g in zip(sizes, alone, strict=True)]
    sizes[0] = float(truth[1].abs().max())
    for name, a, b, t, scale in zip(
        ("h", *NAMES),
        got,
        eager,
        truth,
        (float(truth[0].detach().abs().max()), *sizes),
        strict=True,
    ):
        assert_within_budget(name, a, b.detach(), t.detach(), terms=terms, scale=scale)


@pytest.mark.parametrize("impl", IMPLS)
def test_bare_operators_equal_the_differentiable_one(impl):
    args, upstream = draw(33, 4, 40, torch.bfloat16)
    x, fn, _, scale = args
    numbers = {"norm_eps": 0.2, "eps": 0.05}
    fwd = stream_head_forward(*args, **numbers, impl=impl)
    assert fwd.h_mix.shape == (33, 4)
    assert_same_bits((stream_head(*args, **numbers, impl=impl),), (fwd.h,))
    want = gradients(lambda *a: stream_head(*a, **numbers, impl=impl), args, upstream)

    def back(**options):
        return stream_head_backward(
            x, fn, scale, upstream, *fwd[1:], eps=0.05, impl=impl, **options
        )

    assert_same_bits(back(), want)
    for size in range(5):
        for needed in itertools.combinations(NAMES, size):
            kept = [g if n in needed else None for n, g in zip(NAMES, want, strict=True)]
            assert_same_bits(back(wanted=needed), kept, f"{needed} ")
    torch.testing.assert_close(fwd.h.double(), formula(*args, **numbers), rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("impl", ["reference", "torch"])
def test_gradcheck(impl):
    args, _ = draw(2, 3, 2, torch.float64)
    made = [t.requires_grad_() for t in args]
    assert torch.autograd.gradcheck(lambda *a: stream_head(*a, impl=impl), made)
    assert torch.autograd.gradgradcheck(lambda *a: stream_head(*a, impl=impl), made)
    assert torch.autograd.gradcheck(stream_head, made[:1])


@pytest.mark.parametrize("impl", IMPLS)
def test_one_graph_batches_and_no_tokens(impl):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *a: stream_head(*a, impl=impl), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for tokens in (12, 34):
        args, upstream = draw(tokens, 3, 20, torch.bfloat16)
        want = stream_head(*args, impl=impl)
        assert_same_bits((compiled(*args),), (want,))
        grads = gradients(lambda *a: stream_head(*a, impl=impl), args, upstream)
        assert_same_bits(gradients(compiled, args, upstream), grads)
        alone = stream_head(args[0][3:4], *args[1:], impl=impl)
        assert_same_bits((alone,), (want[3:4],))
        folded = args[0].unflatten(0, (2, tokens // 2))
        assert_same_bits((stream_head(folded, *args[1:], impl=impl).flatten(0, 1),), (want,))
    args, _ = draw(0, 3, 20, torch.bfloat16)
    assert stream_head(*args, impl=impl).shape == (0, 20)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mean(dtype):
    (x, *_), upstream = draw(9, 4, 6, dtype)
    got = stream_head(x)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), x.double().mean(-2), rtol=torch.finfo(dtype).eps,
                               atol=torch.finfo(dtype).eps)  # fmt: skip
    (grad,) = gradients(stream_head, (x,), upstream)
    assert torch.equal(grad, (upstream / 4)[:, None].expand_as(x))


def test_errors():
    args, upstream = draw(3, 2, 4, torch.bfloat16)
    x, fn, base, scale = args
    with pytest.raises(ShapeError, match=r"^stream_head: fn must be \[N, N\*D\] = \[2, 8\] for x"):
        stream_head(x, fn.T, base, scale)
    with pytest.raises(DtypeError, match=r"^stream_head: base must be torch.float32"):
        stream_head(x, fn, base.bfloat16(), scale)
    with pytest.raises(ShapeError, match=r"^stream_head_forward: scale must be \[1\]"):
        stream_head_forward(x, fn, base, scale[0])
    with pytest.raises(ArgumentError, match=r"^stream_head: fn, base and scale .* None for base"):
        stream_head(x, fn, None, scale)
    fwd = stream_head_forward(*args)
    with pytest.raises(ShapeError, match=r"^stream_head_backward: h_mix must be .*\[3, 2\]"):
        stream_head_backward(x, fn, scale, upstream, fwd.inv_rms, fwd.h_mix[:2], fwd.h_pre)
    with pytest.raises(ArgumentError, match=r"^stream_head_backward: wanted may name"):
        stream_head_backward(x, fn, scale, upstream, *fwd[1:], wanted=("phi",))
    assert "impl='auto' takes" in explain("stream_head", x)


def test_the_mean_has_no_kernels_of_its_own():
    x = torch.randn(3, 4, 8)
    for impl in ("cpu", "triton", "npu"):
        with pytest.raises(UnsupportedError, match="the mean is plain torch"):
            stream_head(x, impl=impl)
    torch.testing.assert_close(stream_head(x, impl="torch"), x.mean(-2))
