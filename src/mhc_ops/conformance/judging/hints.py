"""Which known mistake explains a result. The rule:

The right result and the results with each known mistake made are computed again from the golden's
inputs in float64. An output can show a mistake when the mistake moves it, as a root mean square
over its elements, by more than 4 times the noise: the larger error of float32 eager torch and of
rounding the truth once. A mistake is named when some output can show it and, in every output that
can and was handed in, the result is at least 4 times nearer to the mistake than to the truth. Of
several that show in the same output the one that comes nearest is named, and those that come within
1.5 times as near.

So a right result names nothing: it is within the noise of the truth, so at least 3 times the noise
away from every mistake that counts.

Mistakes of rounding are smaller than that noise. There the share of elements that differ takes the
place of the distance: see patterns.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor

from ...testing.budgets import round_to
from ..tolerances import overflowing
from .mistakes import MISTAKES, Case, Mistake

NEARER, ABOVE_NOISE, AS_NEAR = 4.0, 4.0, 1.5


class Hint(NamedTuple):
    """A known mistake that explains a result."""

    name: str
    advice: str
    outputs: tuple[str, ...]
    """The outputs that show it."""
    times: float
    """How many times nearer the result is to the mistake than to the truth."""
    evidence: str


def hints_of_equations(
    case: Case, got: Mapping[str, Tensor], eager: Mapping[str, Tensor]
) -> list[Hint]:
    """The known mistakes in the equations that explain `got`, the likeliest first.

    got, eager: results by the golden's names; eager is not rounded to 16 bits.
    """
    noise = {name: _noise(case.truth[name], eager[name], got[name]) for name in got}
    found = [hint for m in MISTAKES if (hint := _explains(m, case, got, noise))]
    found.sort(key=lambda hint: -hint.times)
    kept: list[Hint] = []
    for hint in found:
        nearer = [other for other in kept if set(other.outputs) & set(hint.outputs)]
        if all(hint.times * AS_NEAR >= other.times for other in nearer):
            kept.append(hint)
    return kept


def _explains(
    mistake: Mistake, case: Case, got: Mapping[str, Tensor], noise: Mapping[str, float]
) -> Hint | None:
    if case.op not in mistake.ops:
        return None
    wrong = mistake.make(case)
    ratios: dict[str, float] = {}
    for name in (n for n in wrong or {} if n in got):
        assert wrong is not None
        dtype = got[name].dtype
        mistaken = overflowing(wrong[name], dtype)
        if not distance(mistaken, case.truth[name]) > ABOVE_NOISE * noise[name]:
            continue
        from_truth = distance(got[name], case.truth[name])
        rounded = round_to(mistaken, dtype)
        from_mistake = min(distance(got[name], mistaken), distance(got[name], rounded))
        # Nearer than a quarter of the noise is so by chance.
        ratios[name] = from_truth / max(from_mistake, noise[name] / NEARER)
        if not ratios[name] >= NEARER:
            return None
    if not ratios:
        return None
    times = math.exp(sum(math.log(r) for r in ratios.values()) / len(ratios))
    evidence = f"{times:.0f} times nearer to it than to the truth in {listed(ratios)}"
    return Hint(mistake.name, mistake.advice, tuple(ratios), times, evidence)


def _noise(truth: Tensor, eager: Tensor, got: Tensor) -> float:
    rounded = round_to(truth, got.dtype)
    return max(distance(eager, truth), distance(rounded, truth))


def distance(a: Tensor, b: Tensor) -> float:
    """Root mean square of the differences; NaN and infinities on both sides agree."""
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return float((a - b).masked_fill(same, 0.0).square().mean().sqrt().nan_to_num(nan=math.inf))


def listed(names: Iterable[str]) -> str:
    """Names as a list in words."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else str(last)
