"""The kit that judges the operators: it must pass what is right and fail what is wrong."""

import pytest
import torch

from mhc_ops.testing import (
    LAYOUTS,
    assert_within_budget,
    correctly_rounded_share,
    expanded,
    make_pre_inputs,
    max_error,
    nan_scratch,
    poison,
    poisoned_pre_backward,
    poisoned_pre_forward,
    residual_rows,
    round_to,
    rounding_budget,
)


def test_values_do_not_depend_on_dtype_layout_or_options():
    wide = make_pre_inputs(6, 3, 5, dtype=torch.float64)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        c = make_pre_inputs(6, 3, 5, dtype=dtype)
        for name, a, b in zip(c._fields, c, wide, strict=True):
            assert torch.equal(a, b.to(a.dtype)), name
    bare = make_pre_inputs(6, 3, 5, dtype=torch.float64, gamma=False, grad_x_post=False)
    assert torch.equal(bare.grad_h_res, wide.grad_h_res)
    batched = make_pre_inputs(6, 3, 5, dtype=torch.float64, layout="BSND")
    assert batched.x.shape == (2, 3, 3, 5)
    for a, b in zip(batched, wide, strict=True):
        assert torch.equal(a.reshape(b.shape), b)
    other = make_pre_inputs(6, 3, 5, dtype=torch.float64, seed=1)
    assert not any(torch.equal(a, b) for a, b in zip(other, wide, strict=True) if a.shape != (3,))


def test_logits_are_of_order_one():
    c = make_pre_inputs(200, 4, 64).double()
    logits = (c.x * c.gamma).flatten(1) @ c.phi.T
    assert 0.8 < float(logits.std()) < 1.2


@pytest.mark.parametrize(("residual", "rows"), [("matrix", 16), ("permutation", 24), ("none", 0)])
def test_forms(residual, rows):
    c = make_pre_inputs(5, 4, 3, residual=residual)
    assert residual_rows(4, residual) == rows
    assert c.phi.shape == (8 + rows, 12)
    assert c.alpha.shape == (3 if rows else 2,)
    assert (c.grad_h_res is None) == (rows == 0)
    part = c.tokens(slice(1, 3))
    assert torch.equal(part.x, c.x[1:3])
    assert part.phi is c.phi


def test_batch_must_divide():
    with pytest.raises(ValueError, match="batch 4 must divide tokens 6"):
        make_pre_inputs(6, 3, 5, layout="BSND", batch=4)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (4, 3, 5)], ids=str)
def test_layouts_keep_values(name, shape):
    t = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(LAYOUTS[name](t), t)


def test_layouts_differ_from_contiguous():
    t = torch.arange(60.0).reshape(4, 3, 5)
    assert {name: fn(t).stride() for name, fn in LAYOUTS.items()} == {
        "strided": (30, 10, 2),
        "padded": (30, 10, 1),
        "transposed": (1, 4, 12),
        "offset": (15, 5, 1),
    }
    assert LAYOUTS["offset"](t).storage_offset() == 1
    assert expanded(t).stride() == (0, 5, 1)


def test_poison():
    c = make_pre_inputs(6, 3, 5, residual="none", gamma=False, layout="BSND")
    fwd, bwd = poisoned_pre_forward(c), poisoned_pre_backward(c)
    assert fwd.h_res is None
    assert bwd.grad_gamma is None
    assert all(t.isnan().all() for t in (*fwd, *bwd) if t is not None)
    assert fwd.h_in.dtype == torch.bfloat16
    assert fwd.inv_rms.shape == (2, 3)
    t = torch.zeros(3)
    poison(t, None)
    assert t.isnan().all()
    with nan_scratch():
        assert torch.empty(100).isnan().all()
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rounding_once(dtype):
    """Just beyond a tie in float64: float32 would land on the tie and go the wrong way."""
    eps = torch.finfo(dtype).eps
    for sign in (1, -1):
        tie = torch.tensor(sign * (1 + eps / 2), dtype=torch.float64)
        beyond, short = tie + sign * 2.0**-40, tie - sign * 2.0**-40
        assert float(round_to(tie, dtype)) == sign
        assert float(round_to(beyond, dtype)) == sign * (1 + eps)
        assert float(round_to(short, dtype)) == sign
    ends = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, 1e300], dtype=torch.float64)
    assert round_to(ends, dtype).tolist()[:2] == [torch.inf, -torch.inf]
    assert round_to(ends, dtype)[2].isnan()
    assert round_to(ends, dtype).tolist()[3:] == [0.0, torch.inf]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_the_budget_passes_one_rounding_and_fails_more(dtype):
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(1000, generator=generator, dtype=torch.float64)
    got = round_to(truth, dtype)
    assert_within_budget("y", got, truth, truth, terms=1)
    assert correctly_rounded_share(got, truth) == 1.0
    wrong, largest = got.clone(), int(got.abs().argmax())
    wrong[largest] *= 1 + 4 * torch.finfo(dtype).eps
    with pytest.raises(AssertionError, match=f"y: element {largest} of"):
        assert_within_budget("y", wrong, truth, truth, terms=1)
    assert correctly_rounded_share(wrong, truth) == 0.999


def test_the_bar_rises_with_the_eager_error_only():
    truth = torch.ones(4, dtype=torch.float64)
    got = torch.tensor([1.0, 1.0, 1.0, 1.001])
    with pytest.raises(AssertionError, match="element 3"):
        assert_within_budget("y", got, truth, truth, terms=1)
    assert_within_budget("y", got, truth + 0.001, truth, terms=1)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_bad_values_fail_unless_the_truth_has_them(bad):
    truth = torch.tensor([1.0, 2.0], dtype=torch.float64)
    got = torch.tensor([1.0, bad])
    assert max_error(got, truth) == torch.inf
    with pytest.raises(AssertionError, match="element 1"):
        assert_within_budget("y", got, truth, truth, terms=1)
    assert max_error(got, got.double()) == 0.0
    assert_within_budget("y", got, got, got.double(), terms=1)
    with pytest.raises(AssertionError, match="element 1"):
        assert_within_budget("y", truth.float(), got, got.double(), terms=1)
    with pytest.raises(AssertionError, match="bars nothing"):
        assert_within_budget("y", truth.float(), got, truth, terms=1)


def test_shapes_must_agree():
    truth = torch.zeros(3, dtype=torch.float64)
    for check in (max_error, correctly_rounded_share):
        with pytest.raises(AssertionError, match="shape"):
            check(torch.zeros(3, 1), truth)
    with pytest.raises(AssertionError, match="shape"):
        assert_within_budget("y", torch.zeros(1), truth, truth, terms=1)


def test_budget_numbers():
    assert rounding_budget(torch.float32, 1) == 2.0**-23
    assert rounding_budget(torch.bfloat16, 256) == 2.0**-8 + 16 * 2.0**-24
    assert rounding_budget(torch.float64, 4) == 3 * 2.0**-53
