"""Each preset against its library's own form: a sublayer in float64, written from the table.

The table (conventions of published libraries) speaks of the stream a residual comes from, "in",
and the one it goes to, "out". Nothing here uses this package's words for orders and orientations.
"""

from typing import NamedTuple

import pytest
import torch

from mhc_ops import (
    Convention,
    mhc_post,
    mhc_pre,
    sinkhorn,
    sinkhorn_backward,
    sinkhorn_forward,
    stream_head,
    stream_head_backward,
    stream_head_forward,
)
from mhc_ops.errors import ArgumentError
from mhc_ops.testing import assert_within_budget

from .pre.cases import assert_same_bits
from .rooms import IMPLS, named
from .sinkhorn.cases import make


class Library(NamedTuple):
    """One column of the table."""

    rms_eps: float
    eps_inside: bool
    pre_eps: float
    post_factor: float
    post_eps: float
    layout: tuple[str, str] | None  # what the two indices of the residual matrix are
    first: str  # the first normalisation makes the sum over these equal 1
    sinkhorn_eps: str  # "softmax and sums", "clamp" or "none"


V4 = Library(1e-6, True, 1e-6, 2.0, 0.0, ("in", "out"), "out", "softmax and sums")
TABLE = {
    "deepseek_v4": (Convention.deepseek_v4(), V4),
    "cann": (Convention.cann(), V4),
    "cann_no_residual": (
        Convention.cann(residual=False),
        Library(1e-6, True, 1e-6, 2.0, 1e-6, None, "", ""),
    ),
    "megatron_main": (
        Convention.megatron(),
        Library(1e-6, False, 0.0, 2.0, 0.0, ("out", "in"), "in", "clamp"),
    ),
    "megatron_dev": (
        Convention.megatron(branch="dev"),
        Library(1e-6, False, 1e-6, 2.0, 0.0, ("in", "out"), "out", "softmax and sums"),
    ),
    "liger": (
        Convention.liger(),
        Library(1e-6, True, 0.0, 2.0, 0.0, ("out", "in"), "in", "softmax and sums"),
    ),
    "transformer_engine": (
        Convention.transformer_engine(),
        Library(2.0**-23, True, 0.0, 2.0, 0.0, ("in", "out"), "out", "none"),
    ),
    "hy_v4": (
        Convention.hy_v4(magnitude=1.5),
        Library(1e-6, True, 1e-6, 1.5, 1e-6, None, "", ""),
    ),
}
WITH_RESIDUAL = [name for name, (_, library) in TABLE.items() if library.layout]
STREAMS, DIM, TOKENS = 4, 20, 40


def gates(library, x, phi, gain, offset):
    """sigmoid(gain * phi x / rms + offset), before any factor or eps."""
    mean = (x * x).mean((-1, -2))
    norm = (mean + library.rms_eps) ** 0.5 if library.eps_inside else mean**0.5 + library.rms_eps
    return gain * (x.flatten(-2) @ phi.T) / norm[..., None] + offset


def balanced(library, logits):
    """The library's matrix, indexed as its layout says; 20 pairs of normalisations."""
    axis = {stream: logits.dim() - 2 + i for i, stream in enumerate(library.layout)}
    first = axis[library.first]
    last = next(a for a in axis.values() if a != first)
    eps = 1e-6
    h = torch.softmax(logits, first)
    if library.sinkhorn_eps == "softmax and sums":
        h = h + eps
    for dim in [last] + [first, last] * 19:
        total = h.sum(dim, keepdim=True)
        if library.sinkhorn_eps == "softmax and sums":
            total = total + eps
        if library.sinkhorn_eps == "clamp":
            total = total.clamp(min=eps)
        h = h / total
    return h


def their_sublayer(library, x, phi, alpha, bias, h_out):
    n = x.shape[-2]
    z = gates(library, x, phi, alpha.repeat_interleave(counts(phi, alpha, n)), bias)
    h_pre = torch.sigmoid(z[..., :n]) + library.pre_eps
    h_post = library.post_factor * torch.sigmoid(z[..., n : 2 * n]) + library.post_eps
    carried = x
    if library.layout:
        h_res = balanced(library, z[..., 2 * n :].unflatten(-1, (n, n)))
        letters = "".join(stream[0] for stream in library.layout)
        carried = torch.einsum(f"...{letters},...id->...od", h_res, x)
    h_in = torch.einsum("...i,...id->...d", h_pre, x)
    return h_in, carried + torch.einsum("...o,...d->...od", h_post, h_out)


def our_sublayer(convention, impl, x, phi, alpha, bias, h_out):
    h_in, h_post, logits, handed_on = mhc_pre(x, phi, alpha, bias, convention=convention, impl=impl)
    h_res = None if logits is None else sinkhorn(logits, convention=convention, impl=impl)
    return h_in, mhc_post(handed_on, h_res, h_out, h_post, impl=impl)


def counts(phi, alpha, n):
    return torch.tensor([n, n, len(phi) - 2 * n][: len(alpha)])


def draw(name, std, dtype):
    """x, phi, alpha, bias, h_out, with residual logits of that std; two upstream gradients."""
    generator = torch.Generator().manual_seed(len(name))
    n, d = STREAMS, DIM
    f = 2 * n + (n * n if TABLE[name][1].layout else 0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float32).to(dtype)

    alpha = torch.tensor([1.1, 0.9, std] if f > 2 * n else [1.1, 0.9], dtype=dtype)
    inputs = (
        *(normal(TOKENS, n, d), normal(f, n * d) / (n * d) ** 0.5, alpha, 0.3 * normal(f)),
        normal(TOKENS, d),
    )
    return inputs, (normal(TOKENS, d), normal(TOKENS, n, d))


def run(sublayer, inputs, upstream):
    """All outputs, and behind them the gradients of all inputs."""
    made = [t.detach().clone().requires_grad_() for t in inputs]
    outputs = sublayer(*made)
    grads = torch.autograd.grad(outputs, made, upstream)
    return [*(t.detach() for t in outputs), *grads]


@pytest.mark.parametrize("std", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("impl", ["reference", "torch"])
def test_a_sublayer_is_the_librarys_own(impl, name, std):
    convention, library = TABLE[name]
    inputs, upstream = draw(name, std, torch.float64)
    got = run(lambda *a: our_sublayer(convention, impl, *a), inputs, upstream)
    want = run(lambda *a: their_sublayer(library, *a), inputs, upstream)
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-11 * float(b.abs().max()))


@pytest.mark.parametrize("std", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("impl", IMPLS, indirect=True)
def test_in_float32_within_the_rounding_budget(impl, name, std):
    """A logit of size z carries z * sqrt(N D) roundings into exp, beside Sinkhorn's own sums."""
    convention, library = TABLE[name]
    inputs, upstream = draw(name, std, torch.float32)
    wide = [t.double() for t in inputs], [t.double() for t in upstream]
    got = run(lambda *a: our_sublayer(convention, impl, *a), inputs, upstream)
    truth = run(lambda *a: their_sublayer(library, *a), *wide)
    eager = run(lambda *a: their_sublayer(library, *a), inputs, upstream)
    terms = int((4 * std) ** 2 * STREAMS * DIM) + 41 * STREAMS + TOKENS
    for i, (a, e, t) in enumerate(zip(got, eager, truth, strict=True)):
        assert_within_budget(f"{name} {i}", a, e, t, terms=terms)


@pytest.fixture
def impl(request):
    return named(request)


def test_the_formulas_tell_all_presets_apart():
    """With logits of std 3 another library's preset misses by far more than the tolerances."""
    for name in WITH_RESIDUAL:
        inputs, upstream = draw(name, 3.0, torch.float64)
        want = run(lambda *a: their_sublayer(TABLE[name][1], *a), inputs, upstream)  # noqa: B023
        for other in WITH_RESIDUAL:
            if TABLE[other][1] == TABLE[name][1]:
                continue
            preset = TABLE[other][0]
            got = run(lambda *a: our_sublayer(preset, "reference", *a), inputs, upstream)  # noqa: B023
            misses = [
                float((a - b).abs().max() / b.abs().max()) for a, b in zip(got, want, strict=True)
            ]
            assert max(misses) > 1e-7, (name, other)


@pytest.mark.parametrize("name", WITH_RESIDUAL)
def test_what_the_last_normalisation_makes_one(name):
    """The table's last row: sums over "in" are 1 for DeepSeek-V4, over "out" for Liger."""
    convention, library = TABLE[name]
    logits, _ = make(50, 4, std=3.0, dtype=torch.float64)
    h_res = sinkhorn(logits, convention=convention)  # [in, out]
    summed = h_res.sum(-2 if library.first == "out" else -1)
    assert (summed - 1).abs().max() < 3e-6
    other = h_res.sum(-1 if library.first == "out" else -2)
    assert (other - 1).abs().max() > 1e-4


@pytest.mark.parametrize("name", WITH_RESIDUAL)
def test_the_bare_operators_take_it_too(name):
    convention = TABLE[name][0]
    logits, grad = make(7, 4, std=3.0)
    options = {
        "num_iters": convention.num_iters,
        "eps": convention.sinkhorn_eps,
        "eps_mode": convention.eps_mode,
        "order": convention.order,
        "temperature": convention.temperature,
    }
    assert_same_bits(
        (
            sinkhorn_forward(logits, convention=convention).h_res,
            sinkhorn_backward(logits, grad, convention=convention),
        ),
        (
            sinkhorn_forward(logits, **options).h_res,
            sinkhorn_backward(logits, grad, **options),
        ),
    )


def test_every_sinkhorn_number_of_a_convention_counts():
    logits, _ = make(7, 4, std=3.0)
    default = sinkhorn(logits, convention=Convention())
    assert torch.equal(default, sinkhorn(logits))
    for change in (
        {"num_iters": 3},
        {"sinkhorn_eps": 1e-3},
        {"eps_mode": "clamp"},
        {"order": "rows_last"},
        {"temperature": 2.0},
    ):
        assert not torch.equal(sinkhorn(logits, convention=Convention(**change)), default), change


@pytest.mark.parametrize("name", TABLE)
def test_the_head_has_their_gates(name):
    convention, library = TABLE[name]
    (x, phi, alpha, bias, _), (upstream, _) = draw(name, 1.0, torch.float64)
    args = (x, phi[:STREAMS], bias[:STREAMS], alpha[:1])

    def theirs(x, fn, base, scale):
        h_pre = torch.sigmoid(gates(library, x, fn, scale, base)) + library.pre_eps
        return (torch.einsum("...i,...id->...d", h_pre, x),)

    got = run(lambda *a: (stream_head(*a, convention=convention),), args, (upstream,))
    want = run(theirs, args, (upstream,))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-13 * float(b.abs().max()))
    x, fn, _, scale = args
    fwd = stream_head_forward(*args, convention=convention)
    bare = stream_head_backward(x, fn, scale, upstream, *fwd[1:], convention=convention)
    for a, b in zip(bare, got[1:], strict=True):
        assert torch.equal(a, b)


def test_contradictions_are_refused():
    logits, grad = make(2, 3)
    theirs = Convention.liger()
    for call in (
        lambda **o: sinkhorn(logits, **o),
        lambda **o: sinkhorn_forward(logits, **o),
        lambda **o: sinkhorn_backward(logits, grad, **o),
    ):
        call(convention=theirs, order="rows_last")
        with pytest.raises(ArgumentError, match=r"^sinkhorn\w*: num_iters=3 contradicts .*replace"):
            call(convention=theirs, num_iters=3)
        with pytest.raises(ArgumentError, match=r"replace\(convention, sinkhorn_eps=0\.5\)"):
            call(convention=theirs, eps=0.5)
        with pytest.raises(ArgumentError, match="convention must be a Convention, such as"):
            call(convention="liger")
    x = torch.zeros(2, 3, 4)
    for args in ((x,), (x, torch.zeros(3, 12), torch.zeros(3), torch.zeros(1))):
        with pytest.raises(ArgumentError, match=r"^stream_head: eps=0.5 contradicts .*hc_eps=0.5"):
            stream_head(*args, eps=0.5, convention=theirs)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_iters": 2.0}, "num_iters must be an int"),
        ({"num_iters": 1001}, r"num_iters must be in 0\.\.1000"),
        ({"sinkhorn_eps": 1.0}, r"sinkhorn_eps must be in \[0, 1\)"),
        ({"eps_mode": "plus"}, "eps_mode must be one of"),
        ({"order": "columns"}, "order must be one of"),
        ({"temperature": 0}, "temperature must be positive"),
        ({"hc_eps": "a"}, "hc_eps must be a number"),
    ],
)
def test_numbers_out_of_their_domain_are_refused(change, text):
    with pytest.raises(ArgumentError, match=f"^Convention: {text}"):
        Convention(**change)


def test_a_convention_compiles_in_one_graph():
    torch._dynamo.reset()
    inputs, _ = draw("liger", 3.0, torch.float32)
    theirs = Convention.liger()
    compiled = torch.compile(
        lambda *a: our_sublayer(theirs, "auto", *a), fullgraph=True, backend="aot_eager"
    )
    assert_same_bits(compiled(*inputs), our_sublayer(theirs, "auto", *inputs))
