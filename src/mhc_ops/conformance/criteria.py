"""When are two tensors equal enough? The precision criteria in public use, by name.

name            closeness of an element                             what may miss  misplaced NaN
default         |a-b| <= t*|b| + t; t by dtype                      nothing        fails
ascend-st       |a-b| <= t + t*|b|; t 2^-7 for hIn, gradX, else     1e-4 of all    is a miss
                1e-3
framework       |a-b| <= p everywhere, or                           p of all       fails
                |a-b|/(max(|a|,|b|)+tiny) <= p everywhere
pre-sinkhorn    |a-b| <= p or |a-b|/(max(|a|,|b|)+tiny) <= p        p of all       fails

a is the result, b what was wanted. NaN agrees with NaN and an infinity with the same infinity,
never with anything else. Differences are taken in float64; integers and booleans must be equal.
Source: the tests of the CANN operators and of the frameworks that call them; `default` is ours.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import ArgumentError

CRITERIA = ("default", "ascend-st", "framework", "pre-sinkhorn")
"""The names `judge` knows."""

DEFAULT_TOLERANCES = {
    torch.bfloat16: 2.0**-7,
    torch.float16: 2.0**-10,
    torch.float32: 1e-5,
    torch.float64: 1e-12,
}
"""`default`: relative and absolute tolerance by dtype; float64 is for results of the reference."""

_STREAM_LIKE = (
    "h_in",
    "grad_x",
)  # rounded to x's dtype, so the published rules give them more room
_ASCEND_SHARE = 1e-4
_CHUNK = 1 << 20  # elements compared at once: bounds the float64 copies to some 8 MiB each

Tolerance = float | tuple[float, float]
_Measures = tuple[tuple[Tensor, Tensor | float], ...]


class Worst(NamedTuple):
    """The element furthest outside (or least inside) its bound."""

    at: tuple[int, ...]
    got: float
    want: float
    abs_error: float
    rel_error: float


@dataclass(frozen=True)
class Verdict:
    """What `judge` found; true in a condition when the tensors agree."""

    name: str | None
    criterion: str
    passed: bool
    rule: str
    """The rule with its numbers, in words."""
    reason: str
    """Why it failed, one sentence; empty when it passed."""
    size: int
    """Number of elements compared; 0 when shapes or dtypes differ."""
    misses: int
    """Elements outside their bound, misplaced NaN included."""
    share: float
    """misses / size."""
    allowed_share: float
    nan_got: int
    nan_want: int
    nan_misplaced: int
    """Positions where one side alone is NaN."""
    max_abs_error: float
    """Largest |a-b| where neither side is NaN."""
    max_rel_error: float
    """Largest |a-b|/|b| where neither side is NaN; infinite where b alone is 0."""
    worst: Worst | None

    def __bool__(self) -> bool:
        return self.passed

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values; NaN and infinities are the strings nan, inf and -inf."""
        fields = {key: _plain(value) for key, value in vars(self).items() if key != "worst"}
        worst = self.worst and {
            key: list(value) if key == "at" else _plain(value)
            for key, value in self.worst._asdict().items()
        }
        return {**fields, "worst": worst}


class _Rule(NamedTuple):
    words: str
    measures: Callable[[Tensor, Tensor, Tensor], _Measures] | None
    """(a, b, |a-b|) to (error, bound) per measure; None asks for equality."""
    share: float
    nan_fails: bool


def canonical_name(name: str) -> str:
    """The snake case name of a tensor: gradX gives grad_x; hIn, hin and h_in give h_in."""
    snake = re.sub(r"(?<!^)(?<!_)(?=[A-Z])", "_", name).lower()
    return "h_in" if snake == "hin" else snake


def published_tolerance(op: str | None, name: str | None) -> float | None:
    """The p that the framework's own tests give an output; None where they use the rule's default.

    MhcPre and MhcPreBackward: 2^-7 for hIn and gradX, 1e-3 for all others.
    """
    if op not in ("MhcPre", "MhcPreBackward") or name is None:
        return None
    return 2.0**-7 if canonical_name(name) in _STREAM_LIKE else 1e-3


def judge(
    got: Tensor,
    want: Tensor,
    criterion: str = "default",
    *,
    name: str | None = None,
    tolerance: Tolerance | None = None,
    same_dtype: bool = True,
) -> Verdict:
    """Compare two tensors under a named criterion.

    Args:
        got: the result, any shape and device.
        want: what it should be, same shape.
        criterion: one of CRITERIA.
        name: the output's name, snake case or camel case; hIn and gradX have their own tolerance
            in ascend-st, hIn in pre-sinkhorn.
        tolerance: in place of the criterion's own number, for both its absolute and relative part,
            or a pair (absolute, relative).
        same_dtype: differing dtypes fail. False accepts a wider `want` (a float64 truth, say); the
            tolerance then follows the dtype of `got`.

    Returns a Verdict; differing shapes or dtypes are a failing one.
    Raises ArgumentError for an unknown criterion or a tolerance that is negative or not finite.
    """
    rule = _rule(criterion, got.dtype, name, tolerance)
    reason = ""
    if got.shape != want.shape:
        reason = f"shape is {list(got.shape)}, expected {list(want.shape)}"
    elif same_dtype and got.dtype != want.dtype:
        reason = f"dtype is {_dtype(got)}, expected {_dtype(want)}"
    if reason:
        nothing = dict.fromkeys(("size", "misses", "nan_got", "nan_want", "nan_misplaced"), 0)
        return Verdict(
            name,
            criterion,
            False,
            rule.words,
            reason,
            share=0.0,
            allowed_share=rule.share,
            max_abs_error=math.nan,
            max_rel_error=math.nan,
            worst=None,
            **nothing,
        )
    return _compare(got.detach(), want.detach(), rule, name, criterion)


def _compare(got: Tensor, want: Tensor, rule: _Rule, name: str | None, criterion: str) -> Verdict:
    flat_got, flat_want = got.reshape(-1), want.reshape(-1)
    size = flat_got.numel()
    nan_got = nan_want = misplaced = 0
    max_abs = max_rel = 0.0
    misses: list[int] = []
    worst: list[tuple[float, int]] = []  # per measure: error / bound, flat index
    for start in range(0, size, _CHUNK):
        raw_a = flat_got[start : start + _CHUNK].cpu()
        raw_b = flat_want[start : start + _CHUNK].cpu()
        a, b = raw_a.double(), raw_b.double()
        lost = a.isnan() != b.isnan()
        nan_got += int(a.isnan().sum())
        nan_want += int(b.isnan().sum())
        misplaced += int(lost.sum())
        equal = (raw_a == raw_b) | (a.isnan() & b.isnan())
        diff = torch.where(equal, 0.0, (a - b).abs())
        known = diff.masked_fill(lost, 0.0)
        max_abs = max(max_abs, float(known.max()))
        ratio = torch.where(known == 0, 0.0, known / b.abs())
        max_rel = max(max_rel, float(ratio.nan_to_num(nan=math.inf, posinf=math.inf).max()))
        measures = rule.measures(a, b, diff) if rule.measures else (((~equal).double(), 0.5),)
        if not misses:
            misses, worst = [0] * len(measures), [(-1.0, 0)] * len(measures)
        for k, (error, bound) in enumerate(measures):
            missed = (~(error <= bound) | diff.isinf()) & ~equal
            misses[k] += int(missed.sum())
            rank = torch.where(equal, 0.0, error / bound)
            rank = torch.where(missed & ~(rank > 1.0), math.inf, rank)
            top = int(rank.argmax())
            if float(rank[top]) > worst[k][0]:
                worst[k] = (float(rank[top]), start + top)
    best = min(range(len(misses)), key=misses.__getitem__) if misses else 0
    missed_count = misses[best] if misses else 0
    reason = ""
    if rule.nan_fails and misplaced:
        reason = f"NaN in different places: {misplaced} of {size} positions"
    elif missed_count > rule.share * size:
        reason = f"{missed_count} of {size} elements outside the bound"
        if rule.share:
            reason += f", allowed are {math.floor(rule.share * size)}"
    return Verdict(
        name=name,
        criterion=criterion,
        passed=not reason,
        rule=rule.words,
        reason=reason,
        size=size,
        misses=missed_count,
        share=missed_count / size if size else 0.0,
        allowed_share=rule.share,
        nan_got=nan_got,
        nan_want=nan_want,
        nan_misplaced=misplaced,
        max_abs_error=max_abs,
        max_rel_error=max_rel,
        worst=_element(got, want, worst[best][1]) if worst else None,
    )


def _element(got: Tensor, want: Tensor, flat: int) -> Worst:
    index: list[int] = []
    rest = flat
    for length in reversed(got.shape):
        rest, here = divmod(rest, length)
        index.insert(0, here)
    a, b = float(got[tuple(index)]), float(want[tuple(index)])
    error = 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b)
    relative = error / abs(b) if b else (math.inf if error else 0.0)
    return Worst(tuple(index), a, b, error, relative)


def _rule(
    criterion: str, dtype: torch.dtype, name: str | None, tolerance: Tolerance | None
) -> _Rule:
    snake = canonical_name(name) if name else ""
    half = dtype == torch.float16
    own: float
    if criterion == "default":
        own = DEFAULT_TOLERANCES.get(dtype, 0.0)
    elif criterion == "ascend-st":
        own = 2.0**-7 if snake in _STREAM_LIKE else 1e-3
    elif criterion == "framework":
        own = 1e-3 if half else 1e-4
    elif criterion == "pre-sinkhorn":
        own = (1e-3 if half else 4e-3) if snake == "h_in" else 1e-4
    else:
        raise ArgumentError(f"criterion: expected one of {', '.join(CRITERIA)}, got {criterion!r}.")
    atol, rtol = (own, own) if tolerance is None else _pair(tolerance)
    if not dtype.is_floating_point:
        return _Rule("equal", None, 0.0, False)

    if criterion in ("default", "ascend-st"):
        share = 0.0 if criterion == "default" else _ASCEND_SHARE
        words = f"|a-b| <= {_number(atol)} + {_number(rtol)}*|b|"
        words += f" but for {_ASCEND_SHARE:g} of all" if share else ", NaN in equal places"
        return _Rule(words, lambda a, b, diff: ((diff, atol + rtol * b.abs()),), share, not share)

    tiny = 6e-8 if half else 1e-9

    def relative(a: Tensor, b: Tensor, diff: Tensor) -> Tensor:
        return diff / (torch.maximum(a.abs(), b.abs()) + tiny)

    share = min(atol, rtol)
    fraction = f"|a-b|/(max(|a|,|b|)+{tiny:g}) <= {_number(rtol)}"
    tail = f"but for {_number(share)} of all, NaN in equal places"
    if criterion == "framework":
        return _Rule(
            f"|a-b| <= {_number(atol)} everywhere or {fraction} everywhere, either {tail}",
            lambda a, b, diff: ((diff, atol), (relative(a, b, diff), rtol)),
            share,
            True,
        )
    return _Rule(
        f"|a-b| <= {_number(atol)} or {fraction} {tail}",
        lambda a, b, diff: ((torch.minimum(diff / atol, relative(a, b, diff) / rtol), 1.0),),
        share,
        True,
    )


def _pair(tolerance: Tolerance) -> tuple[float, float]:
    pair = tolerance if isinstance(tolerance, tuple) else (tolerance, tolerance)
    if any(not math.isfinite(t) or t < 0 for t in pair):
        raise ArgumentError(f"tolerance: expected finite numbers >= 0, got {tolerance!r}.")
    return float(pair[0]), float(pair[1])


def _number(value: float) -> str:
    mantissa, exponent = math.frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 and exponent < 0 else f"{value:g}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
