"""Columns side by side, one group for each name."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from .frame import (
    BASE,
    LEFT,
    RIGHT,
    SPAN,
    WIDTH,
    across,
    figure,
    labels,
    legend,
    level,
    value_axis,
)
from .scales import scale_of
from .svg import number, tag, text


class Bars(NamedTuple):
    """One column in each group. colour: 1 to 4, of the page's series."""

    name: str
    values: Sequence[float]
    colour: int = 1


def bar_chart(
    groups: Sequence[str],
    series: Sequence[Bars],
    x_label: str,
    y_label: str,
    *,
    mark: float | None = None,
) -> str:
    """An SVG with a legend, the values on a logarithmic axis; zero has no column.

    mark: a value with a horizontal line. What is not finite reaches the top.
    """
    values = [v for bars in series for v in bars.values]
    scale = scale_of(values + ([] if mark is None else [mark]), log=True)
    parts = [value_axis(scale), across(BASE, "axis"), labels(x_label, y_label)]
    width = (WIDTH - LEFT - RIGHT) / len(groups)
    thick = 0.8 * width / len(series)
    every = max(1, -(-len(groups) // 14))
    for g, group in enumerate(groups):
        for s, bars in enumerate(series):
            value = bars.values[g]
            if value == 0:
                continue
            height = SPAN * (scale.at(value) if scale.shows(value) else 1.0)
            title = tag("title", escape(f"{bars.name}, {group}: {number(value, 3)}"))
            at = LEFT + g * width + 0.1 * width + s * thick
            shape = {"x": at, "y": BASE - height, "width": thick, "height": height}
            parts.append(tag("rect", title, class_=f"column s{bars.colour}", **shape))
        if g % every == 0:
            parts.append(text(group, LEFT + (g + 0.5) * width, BASE + 18))
    if mark is not None:
        parts.append(across(level(scale, mark), "mark"))
    keys = [(bars.name, f"s{bars.colour}") for bars in series]
    return figure(parts, f"{y_label} by {x_label}") + legend(keys)
