"""How far a result may lie from the float64 truth, and why.

A result passes when each element's error is at most: one rounding of that element to the result's
dtype, plus the largest error of plain float32 torch on the same values, plus what another order of
the same float32 additions may cost. Nothing is fitted to an implementation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def unit_roundoff(dtype: torch.dtype) -> float:
    """Largest relative error of one rounding to nearest: 2^-8 bf16, 2^-11 fp16, 2^-24 fp32."""
    return torch.finfo(dtype).eps / 2


def rounding_budget(dtype: torch.dtype, terms: int) -> float:
    """Error allowed beyond the eager run's, relative to the largest magnitude of the result.

    One rounding to dtype, and sqrt(terms) roundings of the accumulator (float32; float64 for
    float64): a sum of `terms` independent terms is about sqrt(terms) terms large, and adding them
    one by one in float32 errs by about 0.13 * sqrt(terms) units of its largest values, so the
    budget is some eight standard deviations of the worst order and none of a wrong term.
    """
    accumulator = torch.float64 if dtype == torch.float64 else torch.float32
    return unit_roundoff(dtype) + math.sqrt(max(terms, 1)) * unit_roundoff(accumulator)


def max_error(got: Tensor, truth: Tensor) -> float:
    """Largest |got - truth| in float64; inf where a NaN or an infinity is on one side only."""
    _same_shape("got", got, truth)
    if not truth.numel():
        return 0.0
    return float(absolute_errors(got, truth).max())


def assert_within_budget(
    name: str,
    got: Tensor,
    eager: Tensor,
    truth: Tensor,
    *,
    terms: int,
    scale: float | None = None,
) -> None:
    """Three-way check of one output: got against the float64 truth, with eager float32 as the bar.

    Args:     name: what the message calls the output.
              got: the result under test, in its own dtype.
              eager: the same output of plain float32 torch, not rounded to a 16-bit dtype.
              truth: the same output in float64 from the same values.
              terms: how many products the longest sum behind one element adds up.
              scale: magnitude of that sum's result, in the unit of truth; by default max |truth|.
                  Give it where truth may be small by cancellation.
    Raises:   AssertionError naming the worst element, or an eager run that overflowed.
    """
    _same_shape(name, got, truth)
    if not truth.numel():
        return
    eager_error = max_error(eager, truth)
    if math.isinf(eager_error):
        raise AssertionError(f"{name}: eager is not finite where the truth is, so it bars nothing")
    errors = absolute_errors(got, truth)
    allowed = allowed_errors(got.dtype, eager_error, truth, terms=terms, scale=scale)
    excess = errors - allowed
    worst = int(excess.argmax())
    if float(excess.flatten()[worst]) > 0:
        raise AssertionError(
            f"{name}: element {worst} of {tuple(truth.shape)} is {got.flatten()[worst]!s}, truth "
            f"{truth.flatten()[worst]!s}: error {errors.flatten()[worst]:.3e}, allowed "
            f"{allowed.flatten()[worst]:.3e} (eager float32 {eager_error:.3e})"
        )


def allowed_errors(
    dtype: torch.dtype,
    eager_error: float,
    truth: Tensor,
    *,
    terms: int,
    scale: float | None = None,
) -> Tensor:
    """The largest error each element of a result in `dtype` may have, in float64.

    Args:   eager_error: largest error of the eager float32 run; the others as for
                `assert_within_budget`.
    """
    finite = truth[truth.isfinite()].abs()
    if scale is None:
        scale = float(finite.max()) if finite.numel() else 0.0
    own_rounding = unit_roundoff(dtype)
    bar = eager_error + (rounding_budget(dtype, terms) - own_rounding) * scale
    half_spacing = torch.finfo(dtype).smallest_normal * own_rounding
    return truth.abs().nan_to_num(nan=0.0, posinf=0.0) * own_rounding + half_spacing + bar


def round_to(truth: Tensor, dtype: torch.dtype) -> Tensor:
    """Round float64 once to dtype, ties to even.

    Torch goes through float32 and so rounds twice; here the float32 step rounds to odd, which keeps
    the second rounding right (float32 has more than two bits above each 16-bit dtype).
    """
    if dtype in (torch.float64, torch.float32):
        return truth.to(dtype)
    single = truth.float()
    inexact = single.double() != truth
    inexact &= truth.isfinite() & single.isfinite()
    away = inexact & (single.double().abs() > truth.abs())
    bits = single.view(torch.int32) - away.int()
    return (bits | inexact.int()).view(torch.float32).to(dtype)


def correctly_rounded_share(got: Tensor, truth: Tensor) -> float:
    """Share of elements that equal the float64 truth rounded once to got's dtype; 1.0 if empty."""
    _same_shape("got", got, truth)
    if not truth.numel():
        return 1.0
    want = round_to(truth, got.dtype)
    same = (got == want) | (got.isnan() & want.isnan())
    return float(same.double().mean())


def _same_shape(name: str, got: Tensor, truth: Tensor) -> None:
    if got.shape != truth.shape:
        raise AssertionError(f"{name}: shape {tuple(got.shape)}, expected {tuple(truth.shape)}")


def absolute_errors(got: Tensor, truth: Tensor) -> Tensor:
    """|got - truth| in float64; inf where a NaN or an infinity is on one side only."""
    wide = got.detach().double()
    same = (wide == truth) | (wide.isnan() & truth.isnan())
    return (wide - truth).abs().nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(same, 0.0)
