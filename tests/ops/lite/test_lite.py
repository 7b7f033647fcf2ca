"""permutation_mix: values, gradients, edges, bits, errors, against a float64 sum of matrices."""

import itertools
import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mhc_ops import (
    explain,
    mhc_pre,
    permutation_mix,
    permutation_mix_backward,
    permutation_mix_forward,
)
from mhc_ops.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from mhc_ops.testing import LAYOUTS, assert_within_budget, make_pre_inputs, max_error

from ..pre.cases import assert_same_bits

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
]


def oracle(logits, work=torch.float64):
    """The sum, permutation by permutation; h_res[i][s(i)] collects the weight of s."""
    weights = torch.softmax(logits.to(work), -1)
    n = next(n for n in range(1, 7) if math.factorial(n) == logits.shape[-1])
    total = weights.new_zeros(*logits.shape[:-1], n, n)
    for k, order in enumerate(itertools.permutations(range(n))):
        matrix = weights.new_zeros(n, n)
        for i, j in enumerate(order):
            matrix[i, j] = 1
        total = total + weights[..., k, None, None] * matrix
    return total


def oracle_backward(logits, grad, work=torch.float64):
    leaf = logits.detach().to(work).requires_grad_()
    return torch.autograd.grad(oracle(leaf, work), leaf, grad.to(work))[0]


def make(*lead, n=4, std=2.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(n)
    logits = std * torch.randn(*lead, math.factorial(n), generator=generator)
    return logits.to(dtype), torch.randn(*lead, n, n, generator=generator).to(dtype)


def both(impl, logits, grad):
    h_res = permutation_mix_forward(logits, impl=impl)
    return h_res, permutation_mix_backward(logits, grad, impl=impl)


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_values(impl, dtype, n):
    """A logit's gradient is a difference of sums of n upstream gradients, which may cancel."""
    for std in (0.1, 1.0, 6.0):
        logits, grad = make(37, n=n, std=std, dtype=dtype)
        runs = [
            (oracle(logits, w), oracle_backward(logits, grad, w))
            for w in (torch.float64, torch.float32)
        ]
        for name, got, truth, eager in zip(
            ("h_res", "grad_logits"), both(impl, logits, grad), *runs, strict=True
        ):
            assert (got.dtype, got.shape) == (dtype, truth.shape)
            if dtype == torch.float64:
                assert max_error(got, truth) <= 1e-13
            else:
                scale = 1.0 if name == "h_res" else n**0.5 * float(grad.abs().max())
                assert_within_budget(name, got, eager, truth, terms=math.factorial(n), scale=scale)


@pytest.mark.parametrize("lead", [(), (1,), (0,), (2, 3), (2, 0)], ids=str)
def test_leading_dimensions(impl, lead):
    logits, grad = make(*lead, n=3)
    h_res, grad_logits = both(impl, logits, grad)
    torch.testing.assert_close(h_res.double(), oracle(logits), rtol=1e-5, atol=1e-6)
    assert grad_logits.shape == logits.shape


def test_order_of_the_permutations(impl):
    """One weight alone is its permutation: the identity first, and stream i goes to s(i)."""
    certain = torch.full((6, 6), -math.inf)
    certain.fill_diagonal_(0.0)
    h_res = permutation_mix(certain, impl=impl)
    assert torch.equal(h_res[0], torch.eye(3))
    for k, order in enumerate(itertools.permutations(range(3))):
        assert [int(row.argmax()) for row in h_res[k]] == list(order)


def test_rows_and_columns_sum_to_one(impl):
    h_res = permutation_mix(make(300, n=5, std=6.0)[0], impl=impl)
    for dim in (-1, -2):
        assert (h_res.double().sum(dim) - 1).abs().max() <= 120**0.5 * 2.0**-24


def test_mhc_pre_feeds_it(impl):
    c = make_pre_inputs(9, 3, 8, residual="permutation")
    logits = mhc_pre(*c.forward_args).h_res_logits
    assert permutation_mix(logits, impl=impl).shape == (9, 3, 3)


@pytest.mark.parametrize("n", range(1, 6))
def test_gradcheck(impl, n):
    leaf = make(2, n=n, dtype=torch.float64)[0].requires_grad_()
    assert torch.autograd.gradcheck(lambda z: permutation_mix(z, impl=impl), leaf, fast_mode=n > 3)


def test_higher_derivatives_and_transforms(impl):
    logits, grad = make(3, n=3, dtype=torch.float64)

    def op(z):
        return permutation_mix(z, impl=impl)

    assert torch.autograd.gradgradcheck(op, logits.clone().requires_grad_())
    got = torch.func.grad(lambda z: (op(z) * grad).sum())(logits)
    assert torch.allclose(got, oracle_backward(logits, grad), atol=1e-14)
    assert torch.allclose(torch.func.vmap(op)(logits), oracle(logits), atol=1e-14)
    if impl == "reference":
        tangent = torch.func.jvp(op, (logits,), (logits,))[1]
        want = torch.func.jvp(oracle, (logits,), (logits,))[1]
        assert torch.allclose(tangent, want, atol=1e-13)
    else:
        with pytest.raises(UnsupportedError, match="reference"):
            torch.func.jvp(op, (logits,), (logits,))


def test_only_the_logits_are_saved(impl):
    logits, grad = make(20)
    leaf = logits.clone().requires_grad_()
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        h_res = permutation_mix(leaf, impl=impl)
    assert [t.data_ptr() for t in packed] == [leaf.data_ptr()]
    (got,) = torch.autograd.grad(h_res, leaf, grad)
    assert_same_bits((got,), (permutation_mix_backward(logits, grad, impl=impl),))


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=str)
def test_bad_logits_stay_in_their_token(impl, bad):
    logits, grad = make(37)
    clean = both(impl, logits, grad)
    spoiled = logits.clone()
    spoiled[17, 3] = bad
    got = both(impl, spoiled, grad)
    keep = [t for t in range(37) if t != 17]
    assert_same_bits([t[keep] for t in got], [t[keep] for t in clean])
    for t in got:
        assert t[17].isnan().all()


def test_huge_and_absent_weights(impl):
    logits, grad = make(20)
    logits = 1e4 * logits
    logits[:, 5] = -math.inf
    h_res, grad_logits = both(impl, logits, grad)
    torch.testing.assert_close(h_res.double(), oracle(logits), rtol=1e-3, atol=1e-3)
    assert grad_logits.isfinite().all()
    assert not grad_logits[:, 5].any()


@pytest.mark.parametrize("size", [(300, 4), (2100, 3), (33, 1), (40, 5)], ids=str)
def test_bits(impl, size, threads):
    """Threads, runs, layouts, training; a token alone equals itself in a batch."""
    logits, grad = make(size[0], n=size[1])
    want = both(impl, logits, grad)
    for count in (1, 2, 3):
        threads(count)
        assert_same_bits(both(impl, logits, grad), want)
    for part in (slice(0, 1), slice(17, 18), slice(3, 30), slice(size[0] - 1, None)):
        alone = both(impl, logits[part], grad[part])
        assert_same_bits(alone, [t[part] for t in want], f"{part} ")
    for view in LAYOUTS.values():
        assert_same_bits(both(impl, view(logits), view(grad)), want)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits(both(impl, logits, grad), want)
    trained = permutation_mix(logits.clone().requires_grad_(), impl=impl)
    assert_same_bits((trained,), want[:1])


@pytest.mark.parametrize("layout", ["dense", *LAYOUTS])
def test_out(impl, layout):
    logits, grad = make(10)
    want = both(impl, logits, grad)
    view = LAYOUTS.get(layout, lambda t: t)
    first, second = (view(torch.full_like(t, math.nan)) for t in want)
    assert permutation_mix_forward(logits, impl=impl, out=(first,)) is first
    assert permutation_mix_backward(logits, grad, impl=impl, out=(second,)) is second
    assert_same_bits((first, second), want)


def test_compile_export_and_opcheck(impl):
    torch._dynamo.reset()

    def op(z):
        return permutation_mix(z, impl=impl)

    def step(fn, logits, grad):
        leaf = logits.clone().requires_grad_()
        h_res = fn(leaf)
        return h_res, *torch.autograd.grad(h_res, leaf, grad)

    compiled = torch.compile(op, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (34, 12, 300, 1, 0):
        logits, grad = make(tokens)
        assert_same_bits(step(compiled, logits, grad), step(op, logits, grad))

    class Block(torch.nn.Module):
        def forward(self, z):
            return op(z)

    shapes = ({0: torch.export.Dim("tokens", min=2, max=4096)},)
    program = torch.export.export(Block(), (make(34)[0],), dynamic_shapes=shapes)
    assert_same_bits((program.module()(make(12)[0]),), (op(make(12)[0]),))
    logits, grad = (t.requires_grad_() for t in make(4, n=3))
    options = {"impl": impl}
    torch.library.opcheck(torch.ops.mhc.permutation_mix_forward.default, (logits,), options)
    torch.library.opcheck(torch.ops.mhc.permutation_mix_backward.default, (logits, grad), options)
    assert op(logits.detach().to("meta")).device.type == "meta"
    torch._dynamo.reset()


def test_flops(impl):
    leaf = make(10)[0].requires_grad_()
    with FlopCounterMode(display=False) as counter:
        permutation_mix(leaf, impl=impl).square().sum().backward()
    assert counter.get_total_flops() == 2 * 10 * 24 * 4


@pytest.mark.parametrize("door", [permutation_mix, permutation_mix_forward])
def test_errors(door):
    logits, grad = make(10)
    name = door.__name__
    for bad, error, text in (
        (None, ArgumentError, "must be a tensor"),
        (logits[:, :23], ShapeError, r"must be \[\.\., N!\] with N in 1\.\.6.*got \[10, 23\]"),
        (torch.zeros(2, 5040), ShapeError, r"must be .*got \[2, 5040\]"),
        (torch.tensor(1.0), ShapeError, r"must be .*got \[\]"),
        (logits.bfloat16(), DtypeError, "must be float32 or float64, got torch.bfloat16; cast"),
    ):
        with pytest.raises(error, match=f"^{name}: logits {text}"):
            door(bad)
        with pytest.raises(error, match=f"^permutation_mix_backward: logits {text}"):
            permutation_mix_backward(bad, grad)
    with pytest.raises(ArgumentError, match=f"^{name}: impl must be one of"):
        door(logits, impl="fast")
    with pytest.raises(UnsupportedError, match="impl='triton' cannot run here"):
        door(logits, impl="triton")
    with pytest.raises(ShapeError, match=r"grad_h_res must be \[\.\., N, N\] = \[10, 4, 4\]"):
        permutation_mix_backward(logits, grad[:-1])
    with pytest.raises(ArgumentError, match="out must be a tuple of 1"):
        permutation_mix_forward(logits, out=())
    assert "impl='auto' takes 'torch'" in explain(name, logits.double())
