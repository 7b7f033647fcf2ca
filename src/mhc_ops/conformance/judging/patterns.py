"""Mistakes of rounding and of writing, seen in the bits and in the places of the errors.

Rounding: an output shows a mistake when at least a fifth of its elements would differ from the
right ones, and do, and at most a quarter as many differ from those with the mistake made.

Writing: an output whose tokens (or features) are all right up to a multiple of a tile (8 to 256),
and wrong in at least half of the elements after it, has the stale tail of an unaligned tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...testing.budgets import round_to
from .hints import NEARER, Hint
from .measures import Errors, token_major

SHOWS = 0.2  # share of elements
ENOUGH = 16  # elements that a share is taken of
TILES = (256, 128, 64, 32, 16, 8)


class _Rounding(NamedTuple):
    name: str
    advice: str
    dtypes: tuple[torch.dtype, ...]
    make: Callable[[Tensor, torch.dtype], Tensor]


def truncated(truth: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 cut to a 16-bit dtype, toward zero."""
    nearest = round_to(truth, dtype)
    past = nearest.double().abs() > truth.abs()
    return torch.where(past, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)


def _through(narrow: torch.dtype) -> Callable[[Tensor, torch.dtype], Tensor]:
    return lambda truth, dtype: round_to(truth, narrow).to(dtype)


_ROUNDINGS = (
    _Rounding(
        "truncated bf16 rounding",
        "the one rounding at the end goes to nearest, ties to even, not toward zero",
        (torch.bfloat16,),
        truncated,
    ),
    _Rounding(
        "truncated fp16 rounding",
        "the one rounding at the end goes to nearest, ties to even, not toward zero",
        (torch.float16,),
        truncated,
    ),
    _Rounding(
        "rounded to bf16 on the way",
        "this output is float32 from beginning to end",
        (torch.float32,),
        _through(torch.bfloat16),
    ),
    _Rounding(
        "rounded to fp16 on the way",
        "this output is float32 from beginning to end",
        (torch.float32,),
        _through(torch.float16),
    ),
    _Rounding(
        "rounded to bf16 before fp16",
        "the one rounding goes straight to fp16",
        (torch.float16,),
        _through(torch.bfloat16),
    ),
)


def hints_of_rounding(got: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> list[Hint]:
    """The known mistakes of rounding that outputs show."""
    found = []
    for rounding in _ROUNDINGS:
        shown = {}
        for name, tensor in got.items():
            if tensor.dtype in rounding.dtypes and tensor.numel() >= ENOUGH:
                wrong = rounding.make(truth[name], tensor.dtype)
                times = _times_fewer(tensor, truth[name], wrong)
                if times >= NEARER:
                    shown[name] = times
        if shown:
            evidence = ", ".join(
                f"{_differing(got[name], round_to(truth[name], got[name].dtype)):.0%} of {name} "
                f"differs from the truth rounded once"
                for name in shown
            )
            times = min(shown.values())
            found.append(Hint(rounding.name, rounding.advice, tuple(shown), times, evidence))
    return found


def _times_fewer(got: Tensor, truth: Tensor, wrong: Tensor) -> float:
    right = round_to(truth, got.dtype)
    from_right = _differing(got, right, wrong)
    if _differing(wrong, right) < SHOWS or from_right < SHOWS:
        return 0.0
    return from_right / max(_differing(got, wrong, wrong), 1 / got.numel())


def _differing(a: Tensor, b: Tensor, scale: Tensor | None = None) -> float:
    """Share of elements that differ; with `scale`, in float32, by more than float32's own noise."""
    if scale is not None and a.dtype is torch.float32:
        close = (a.double() - b.double()).abs() <= 2.0**-14 * scale.double().abs()
        return 1 - float(close.double().mean())
    same = (a == b) | (a.isnan() & b.isnan())
    return 1 - float(same.double().mean())


def hints_of_writing(
    got: Mapping[str, Tensor], errors: Mapping[str, Errors], axes: Mapping[str, Sequence[str]]
) -> list[Hint]:
    """Stale tails: outputs that are right but for what follows their last whole tile."""
    found = []
    for name, output in errors.items():
        for what, outside, values in _strips(got[name], output, axes[name]):
            hint = _tail(name, what, outside, values)
            if hint:
                found.append(hint)
    return found


def _strips(
    got: Tensor, output: Errors, axes: Sequence[str]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Along tokens and along features: what is outside its bound, and the values."""
    turned = token_major(output._replace(error=got.double()), axes)
    if turned is not None:
        yield "token", turned.outside, turned.error
    if axes[-1:] == ("d",):
        yield "feature", output.outside.flatten(0, -2).T, got.double().flatten(0, -2).T


def _tail(name: str, what: str, outside: Tensor, values: Tensor) -> Hint | None:
    count, wrong = len(outside), outside.any(1)
    if not wrong.any():
        return None
    first = int(wrong.nonzero()[0])
    tile = next((t for t in TILES if first and first % t == 0 and count - first < t), None)
    if tile is None or outside[first:].double().mean() < 0.5:
        return None
    tail, before = values[first:], values[first - tile : first - tile + count - first]
    if tail.isnan().all():
        held = "never written (NaN)"
    elif not tail.any():
        held = "zero"
    elif torch.equal(tail, before):
        held = f"the {what}s of the tile before"
    else:
        held = "other values"
    evidence = (
        f"{name}: {what}s 0..{first - 1} are right, {first}..{count - 1} after the last whole tile "
        f"of {tile} are {held}"
    )
    advice = "the last tile holds fewer rows than the others: mask it, and write all of its rows"
    return Hint("stale tail of an unaligned tile", advice, (name,), float("inf"), evidence)
