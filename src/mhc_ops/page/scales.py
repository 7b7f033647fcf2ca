"""Axes: where a value lies between two ends, where the ticks go; and the colours of heat maps."""

import math
from collections.abc import Iterable
from typing import NamedTuple

_RAMP = ("#2b1a5a", "#3b4f9b", "#2a7f96", "#3fae7c", "#a9d14c", "#fbe76a")


class Scale(NamedTuple):
    """Values from low to high; log10 where `log`."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """0 at low, 1 at high."""
        if self.log:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(value) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def shows(self, value: float) -> bool:
        """Whether the value can be drawn at all."""
        return math.isfinite(value) and (value > 0 or not self.log)

    def ticks(self, count: int = 5) -> list[float]:
        """Round values within the ends, about `count` of them."""
        if self.log:
            low, high = (
                math.ceil(math.log10(self.low) - 1e-9),
                math.floor(math.log10(self.high) + 1e-9),
            )
            every = max(1, math.ceil((high - low + 1) / (count + 1)))
            return [10.0**e for e in range(low, high + 1, every)]
        step = _round_step((self.high - self.low) / count)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]

    def tick_text(self, value: float) -> str:
        """A tick as it is written: all ticks of an axis with the same decimals."""
        if self.log:
            exponent = round(math.log10(value))
            return f"{value:g}" if -3 < exponent < 5 else f"1e{exponent}"
        if not 1e-3 <= max(abs(self.low), abs(self.high)) < 1e6:
            return f"{value:.6g}"
        step = _round_step((self.high - self.low) / 5)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return f"{value:.{decimals}f}"


def scale_of(values: Iterable[float], *, log: bool = False, least_span: float = 0.0) -> Scale:
    """A scale that holds all values which can be drawn, with a margin on a linear one.

    least_span: how far apart the ends of a linear scale are at the least.
    """
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not shown:
        return Scale(0.1, 1.0, True) if log else Scale(0.0, 1.0)
    low, high = min(shown), max(shown)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return Scale(low, high if high > low else low * 10, True)
    span = max(high - low, least_span, abs(high) * 1e-4, 1e-12)
    middle = (low + high) / 2
    return Scale(middle - 0.55 * span, middle + 0.55 * span)


def colour(share: float) -> str:
    """The colour of a heat map for 0 (dark) to 1 (bright), as #rrggbb."""
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    left = min(int(place), len(_RAMP) - 2)
    a, b = _RAMP[left], _RAMP[left + 1]
    mixed = (
        round(int(a[i : i + 2], 16) * (1 - place + left) + int(b[i : i + 2], 16) * (place - left))
        for i in (1, 3, 5)
    )
    return "#" + "".join(f"{c:02x}" for c in mixed)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
