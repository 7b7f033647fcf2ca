"""Each published rule at its edges: just inside passes, just outside fails."""

import json
import math

import pytest
import torch

from mhc_ops.conformance.criteria import CRITERIA, canonical_name, judge, published_tolerance
from mhc_ops.errors import ArgumentError

NAN, INF = math.nan, math.inf


def f64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def pair(at: float, size: int, gap: float, dtype=torch.float64):
    """A want of `at` everywhere and a got with the first `gap` away."""
    want = torch.full((size,), at, dtype=dtype)
    got = want.clone()
    got[0] += gap
    return got, want


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_equal_tensors_agree_under_every_criterion(criterion, dtype):
    a = torch.tensor([[0.0, -0.0, 1.5], [NAN, INF, -INF]], dtype=dtype)
    verdict = judge(a, a.clone(), criterion, name="grad_x")
    assert verdict
    assert (verdict.size, verdict.misses, verdict.nan_got, verdict.nan_misplaced) == (6, 0, 1, 0)
    assert verdict.max_abs_error == 0
    assert verdict.max_rel_error == 0


@pytest.mark.parametrize("criterion", CRITERIA)
def test_empty_and_zero_dim(criterion):
    assert judge(torch.empty(0, 4), torch.empty(0, 4), criterion)
    assert judge(torch.tensor(1.0), torch.tensor(1.0), criterion).worst.at == ()
    assert not judge(torch.tensor(1.0), torch.tensor(2.0), criterion)


@pytest.mark.parametrize(
    ("dtype", "t"),
    [(torch.bfloat16, 2**-7), (torch.float16, 2**-10), (torch.float32, 1e-5)],
)
def test_default_bound_is_t_plus_t_times_want(dtype, t):
    want = torch.tensor([3.0], dtype=dtype)
    gap = 4 * t
    inside, outside = f64(3.0 + 0.99 * gap), f64(3.0 + 1.01 * gap)
    # float64 values on both sides of the bound: judged with the tolerance of `want`'s dtype
    assert judge(inside, want.double(), tolerance=t)
    assert not judge(outside, want.double(), tolerance=t)
    step = torch.finfo(dtype).eps * 2  # the spacing of dtype at 3
    near = math.floor(gap / step)
    assert judge(torch.tensor([3.0 + near * step], dtype=dtype), want)
    assert not judge(torch.tensor([3.0 + (near + 1) * step], dtype=dtype), want)


def test_default_scales_with_want_and_not_with_got():
    assert judge(f64(100.0), f64(103.0), tolerance=0.029)
    assert not judge(f64(103.0), f64(100.0), tolerance=0.029)


@pytest.mark.parametrize("name", ["gradX", "grad_x", "hIn", "h_in", "hin"])
def test_ascend_st_gives_stream_like_outputs_two_to_minus_seven(name):
    got, want = pair(1.0, 10, 0.0155)
    assert judge(got, want, "ascend-st", name=name)
    assert not judge(got, want, "ascend-st", name="gradPhi")
    assert not judge(got, want, "ascend-st")
    got, want = pair(1.0, 10, 0.0157)
    assert not judge(got, want, "ascend-st", name=name)


def test_ascend_st_lets_one_in_ten_thousand_miss():
    want = torch.ones(20_000)
    got = want.clone()
    got[:2] = 7.0
    verdict = judge(got, want, "ascend-st")
    assert verdict
    assert (verdict.misses, verdict.share) == (2, 1e-4)
    got[2] = NAN
    assert not judge(got, want, "ascend-st")
    got[2], got[1] = 1.0, NAN  # a misplaced NaN is one miss
    assert judge(got, want, "ascend-st").nan_misplaced == 1


def test_framework_passes_by_either_measure_but_not_by_a_mixture():
    assert judge(f64(1e6 + 10, 2.0), f64(1e6, 2.0), "framework")  # relative alone
    assert judge(f64(1e-5, 2.0), f64(2e-5, 2.0), "framework")  # absolute alone
    mixed = judge(f64(1e6 + 10, 1e-5), f64(1e6, 2e-5), "framework")
    assert not mixed
    assert mixed.misses == 1
    assert judge(f64(1e6 + 10, 1e-5), f64(1e6, 2e-5), "pre-sinkhorn")  # elementwise there


def test_framework_p_by_dtype_and_on_request():
    got, want = pair(1.0, 4, 5e-4)
    assert not judge(got, want, "framework")
    assert judge(got, want, "framework", tolerance=1e-3)
    half_got, half_want = pair(1.0, 4, 2**-10, torch.float16)  # 9.8e-4: within 1e-3
    assert judge(half_got, half_want, "framework")
    bf16_got, bf16_want = pair(1.0, 4, 2**-7, torch.bfloat16)
    assert not judge(bf16_got, bf16_want, "framework")
    assert judge(bf16_got, bf16_want, "framework", tolerance=2**-7)


def test_framework_share_is_p():
    want = torch.ones(10_000)
    got = want.clone()
    got[0] = 5.0
    assert judge(got, want, "framework")
    got[1] = 5.0
    assert not judge(got, want, "framework")


def test_pre_sinkhorn_tolerances_and_pairs():
    for dtype, p in ((torch.float16, 1e-3), (torch.bfloat16, 4e-3)):
        step = torch.finfo(dtype).eps
        got, want = pair(1.0, 8, step, dtype)
        assert bool(judge(got, want, "pre-sinkhorn", name="hin")) == (step <= p)
    got, want = pair(1.0, 8, 5e-4)
    assert not judge(got, want, "pre-sinkhorn", name="hRes")
    assert judge(got, want, "pre-sinkhorn", tolerance=(1e-3, 1e-6))
    assert judge(got, want, "pre-sinkhorn", tolerance=(0.0, 1e-3))
    assert not judge(got, want, "pre-sinkhorn", tolerance=(0.0, 1e-6))


@pytest.mark.parametrize("criterion", ["default", "framework", "pre-sinkhorn"])
def test_a_misplaced_nan_fails_however_large_the_tensor(criterion):
    want = torch.zeros(100_000)
    got = want.clone()
    got[77] = NAN
    for a, b in ((got, want), (want, got)):
        verdict = judge(a, b, criterion)
        assert not verdict
        assert verdict.worst.at == (77,)
        assert "NaN" in verdict.reason


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("a", "b"), [(INF, -INF), (INF, 1e300), (1e300, INF), (NAN, INF)])
def test_an_infinity_agrees_with_itself_alone(criterion, a, b):
    assert not judge(f64(a), f64(b), criterion)
    assert judge(f64(a), f64(a), criterion)


def test_shape_and_dtype_mismatch_are_verdicts():
    verdict = judge(torch.zeros(2, 3), torch.zeros(3, 2))
    assert not verdict
    assert verdict.reason == "shape is [2, 3], expected [3, 2]"
    verdict = judge(torch.zeros(2, dtype=torch.float16), torch.zeros(2))
    assert verdict.reason == "dtype is float16, expected float32"
    assert judge(torch.ones(2, dtype=torch.bfloat16), f64(1.005, 1.005), same_dtype=False)
    assert not judge(torch.ones(2, dtype=torch.float32), f64(1.005, 1.005), same_dtype=False)


def test_worst_element_has_coordinates_also_past_the_first_chunk():
    want = torch.ones(3, 512, 1024)
    got = want.clone()
    got[0, 1, 2] = 1.5
    got[2, 511, 1000] = 3.0
    verdict = judge(got, want)
    assert verdict.worst == ((2, 511, 1000), 3.0, 1.0, 2.0, 2.0)
    assert verdict.misses == 2
    assert verdict.max_abs_error == 2.0


def test_strided_tensors():
    base = torch.arange(24.0).reshape(4, 6)
    got = base.t()
    assert judge(got, base.t().contiguous())
    off = base.t().contiguous()
    off[5, 3] += 1
    assert judge(got, off).worst.at == (5, 3)


def test_integers_must_be_equal():
    big = torch.tensor([2**62, 5])
    assert judge(big, big.clone())
    assert not judge(big, big + torch.tensor([1, 0]))  # equal once rounded to float64
    assert not judge(torch.tensor([True]), torch.tensor([False]), "ascend-st")


def test_json_has_no_bare_nan():
    verdict = judge(f64(NAN, 1.0), f64(0.0, 1.0))
    text = json.dumps(verdict.to_json(), allow_nan=False)
    assert json.loads(text)["worst"] == {
        "at": [0], "got": "nan", "want": 0.0, "abs_error": "nan", "rel_error": "inf"
    }  # fmt: skip
    json.dumps(judge(torch.zeros(1), torch.zeros(2)).to_json(), allow_nan=False)


def test_names_and_published_tolerances():
    assert canonical_name("gradXPost") == "grad_x_post"
    assert canonical_name("hcBeforeNorm") == "hc_before_norm"
    assert published_tolerance("MhcPre", "hIn") == 2**-7
    assert published_tolerance("MhcPreBackward", "gradPhi") == 1e-3
    assert published_tolerance("MhcPostBackward", "gradX") is None


@pytest.mark.parametrize("tolerance", [-1.0, NAN, (1e-3, INF)])
def test_bad_arguments(tolerance):
    with pytest.raises(ArgumentError, match="tolerance"):
        judge(torch.zeros(1), torch.zeros(1), tolerance=tolerance)
    with pytest.raises(ArgumentError, match="'strict'"):
        judge(torch.zeros(1), torch.zeros(1), "strict")
