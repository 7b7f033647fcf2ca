"""Matrices as coloured cells, with the scale of their colours beside them."""

import math
from collections.abc import Sequence
from html import escape

from .frame import BASE, LEFT, SPAN, TOP, WIDTH, figure, labels
from .scales import Scale, colour
from .svg import number, tag, text

_RIGHT = 74  # the scale of colours is there
_BANDS = 24


def heat_map(
    cells: Sequence[Sequence[float]],
    scale: Scale,
    columns: Sequence[str],
    rows: Sequence[str],
    x_label: str,
    y_label: str,
    row_titles: Sequence[str] = (),
    column_titles: Sequence[str] = (),
    column_ticks: Sequence[int] = (),
) -> str:
    """An SVG of cells[row][column]; the first row is at the bottom, as on an axis of depth.

    row_titles, column_titles: names for the cells, where they are longer than those at the axes.
    column_ticks: the columns with a name at the axis; about seven, evenly, by default.
    """
    width = (WIDTH - LEFT - _RIGHT) / len(columns)
    height = SPAN / len(rows)
    parts = []
    for r, values in enumerate(cells):
        top = BASE - (r + 1) * height
        name = row_titles[r] if row_titles else rows[r]
        for c, value in enumerate(values):
            column = column_titles[c] if column_titles else columns[c]
            title = f"{name}, {column}: {number(value, 6)}"
            parts.append(_cell(value, scale, LEFT + c * width, top, width, height, title))
    for r in _some(len(rows), 8):
        parts.append(text(rows[r], LEFT - 8, BASE - (r + 0.5) * height + 4, anchor="end"))
    for c in column_ticks or _some(len(columns), 7):
        parts.append(text(columns[c], LEFT + (c + 0.5) * width, BASE + 18))
    parts.append(labels(x_label, y_label, _RIGHT))
    parts.append(_legend(scale, WIDTH - _RIGHT + 14, TOP, SPAN))
    return figure(parts, f"{y_label} by {x_label}")


def matrix(values: Sequence[Sequence[float]], scale: Scale, name: str) -> str:
    """A small square map [from, to], `to` rightwards; its entries are written for N <= 4."""
    n, side, edge = len(values), 128, 20
    size = side / n
    parts = [text("to", edge + side / 2, 12), text("from", 10, edge + side / 2, "tick turned")]
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            x, y = edge + j * size, edge + i * size
            title = f"{name}, from {i + 1} to {j + 1}: {number(value, 6)}"
            parts.append(_cell(value, scale, x, y, size, size, title))
            if n <= 4:
                look = "inside dark" if scale.shows(value) and scale.at(value) > 0.55 else "inside"
                parts.append(text(f"{value:.2f}", x + size / 2, y + size / 2 + 4, look))
    return tag(
        "svg",
        parts,
        viewBox=f"0 0 {edge + side + 4} {edge + side + 4}",
        role="img",
        aria_label=name,
    )


def legend_bar(scale: Scale) -> str:
    """The scale of colours alone, lying."""
    width, parts = 260, []
    for band in range(_BANDS):
        step = width / _BANDS
        parts.append(
            tag(
                "rect",
                x=20 + band * step,
                y=4,
                width=step + 0.5,
                height=12,
                fill=colour((band + 0.5) / _BANDS),
            )
        )
    for tick in scale.ticks():
        parts.append(text(scale.tick_text(tick), 20 + width * scale.at(tick), 32))
    return tag(
        "svg", parts, viewBox=f"0 0 {width + 40} 38", class_="bar", role="img", aria_label="scale"
    )


def _cell(
    value: float, scale: Scale, x: float, y: float, width: float, height: float, title: str
) -> str:
    fill = {"fill": colour(scale.at(value))} if scale.shows(value) else {}
    look = "cell" if fill else "cell bad" if math.isinf(value) else "cell none"
    inner = tag("title", escape(title))
    return tag("rect", inner, x=x, y=y, width=width + 0.3, height=height + 0.3, class_=look, **fill)


def _legend(scale: Scale, x: float, top: float, height: float) -> str:
    step = height / _BANDS
    parts = [
        tag(
            "rect",
            x=x,
            y=top + height - (b + 1) * step,
            width=12,
            height=step + 0.5,
            fill=colour((b + 0.5) / _BANDS),
        )
        for b in range(_BANDS)
    ]
    for tick in scale.ticks():
        at = top + height * (1 - scale.at(tick)) + 4
        parts.append(text(scale.tick_text(tick), x + 17, at, anchor="start"))
    return tag("g", parts, class_="scale")


def _some(count: int, most: int) -> range:
    return range(0, count, max(1, -(-count // most)))
