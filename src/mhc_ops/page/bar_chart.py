"""Columns side by side, one group for each name."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from .scales import Scale, scale_of
from .svg import number, tag, text

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 14, 44


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
    base, span = HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM
    parts = [_axes(scale, x_label, y_label)]
    width = (WIDTH - LEFT - RIGHT) / len(groups)
    thick = 0.8 * width / len(series)
    every = max(1, -(-len(groups) // 14))
    for g, group in enumerate(groups):
        for s, bars in enumerate(series):
            value = bars.values[g]
            if value == 0:
                continue
            height = span * (scale.at(value) if scale.shows(value) else 1.0)
            title = tag("title", escape(f"{bars.name}, {group}: {number(value, 3)}"))
            at = LEFT + g * width + 0.1 * width + s * thick
            shape = {"x": at, "y": base - height, "width": thick, "height": height}
            parts.append(tag("rect", title, class_=f"column s{bars.colour}", **shape))
        if g % every == 0:
            parts.append(text(group, LEFT + (g + 0.5) * width, base + 18))
    if mark is not None:
        at = base - span * scale.at(mark)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="mark"))
    label = f"{y_label} by {x_label}"
    figure = tag("svg", parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)
    return figure + legend([(bars.name, bars.colour) for bars in series])


def legend(names: Sequence[tuple[str, int]]) -> str:
    """The names of series beside their colours."""
    spans = (tag("span", tag("i", class_=f"key s{c}") + escape(name)) for name, c in names)
    return tag("div", spans, class_="legend")


def _axes(scale: Scale, x_label: str, y_label: str) -> str:
    base, span = HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM
    parts = []
    for tick in scale.ticks():
        at = base - span * scale.at(tick)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        parts.append(text(scale.tick_text(tick), LEFT - 8, at + 4, anchor="end"))
    parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="axis"))
    parts.append(text(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "label"))
    turn = f"translate(12 {(TOP + base) / 2:.1f}) rotate(-90)"
    parts.append(tag("g", text(y_label, 0, 0, "label"), transform=turn))
    return "".join(parts)
