"""Lines over steps or over depth."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from .frame import (
    BASE,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    across,
    figure,
    labels,
    legend,
    level,
    value_axis,
)
from .scales import Scale, scale_of
from .style import CSS
from .svg import number, tag, text

MOST_DOTS = 120


class Line(NamedTuple):
    """One line. colour: 1 to 4, of the page's series; dashed, without dots, where `thin`.

    band: (low, high) for each point, drawn behind the line.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: int = 1
    thin: bool = False
    band: Sequence[tuple[float, float]] = ()


def line_chart(
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    *,
    log: bool = False,
    least_span: float = 0.0,
    mark: float | None = None,
    names: Sequence[str] = (),
) -> str:
    """An SVG with a legend. mark: a value with a horizontal line. names: of the points, for titles.

    Points that are not finite, and those below a log axis, are left out and counted under it.
    """
    drawn = _draw(lines, x_label, y_label, log, least_span, mark, names)
    note = (
        tag("span", f"{drawn.hidden} points not drawn (zero, NaN or infinite)", class_="warn")
        if drawn.hidden
        else ""
    )
    keys = [(line.name, _look(line)) for line in lines]
    return figure(drawn.parts, drawn.label) + legend(keys, note)


def line_picture(
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    *,
    log: bool = False,
    mark: float | None = None,
) -> str:
    """The same as an SVG file of its own, light or dark as its reader's system.

    Args:   lines: at least one, each with a point or more; names and labels are plain text.
            log: whether the y axis is logarithmic. mark: a value with a horizontal line.
    """
    drawn = _draw(lines, x_label, y_label, log, 0.0, mark, ())
    parts = [tag("style", escape(CSS)), tag("rect", width=WIDTH, height=HEIGHT, class_="paper")]
    for row, line in enumerate(lines):
        y = TOP + 12.0 + 18 * row
        key = tag("line", x1=WIDTH - 160, x2=WIDTH - 136, y1=y, y2=y, class_=f"line {_look(line)}")
        parts += [key, text(line.name, WIDTH - 128, y + 4, "label", "start")]
    whole = figure(parts + drawn.parts, drawn.label, xmlns="http://www.w3.org/2000/svg")
    return whole + "\n"


class _Drawing(NamedTuple):
    parts: list[str]
    label: str
    hidden: int


def _draw(
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    log: bool,
    least_span: float,
    mark: float | None,
    names: Sequence[str],
) -> _Drawing:
    values = [y for line in lines for y in line.ys]
    values += [v for line in lines for pair in line.band for v in pair]
    y = scale_of(values + ([] if mark is None else [mark]), log=log, least_span=least_span)
    xs = [x for line in lines for x in line.xs]
    x = Scale(min(xs), max(xs)) if max(xs) > min(xs) else Scale(xs[0] - 1, xs[0] + 1)
    plot = _Plot(x, y)
    parts = [plot.axes(x_label, y_label, whole=all(float(v).is_integer() for v in xs))]
    if mark is not None and y.shows(mark):
        parts.append(across(plot.y(mark), "mark"))
    hidden = 0
    for line in lines:
        hidden += sum(not y.shows(v) for v in line.ys)
        parts.append(plot.line(line, names))
    return _Drawing(parts, f"{y_label} over {x_label}", hidden)


def _look(line: Line) -> str:
    return f"s{line.colour}{' thin' if line.thin else ''}"


class _Plot(NamedTuple):
    xs: Scale
    ys: Scale

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * self.xs.at(value)

    def y(self, value: float) -> float:
        return level(self.ys, value)

    def axes(self, x_label: str, y_label: str, whole: bool) -> str:
        parts = [value_axis(self.ys)]
        for tick in self.xs.ticks(6):
            if whole and abs(tick - round(tick)) > 1e-9:
                continue
            at = self.x(tick)
            parts.append(tag("line", x1=at, x2=at, y1=BASE, y2=BASE + 5, class_="axis"))
            parts.append(text(self.xs.tick_text(tick), at, BASE + 19))
        return "".join([*parts, across(BASE, "axis"), labels(x_label, y_label)])

    def line(self, line: Line, names: Sequence[str]) -> str:
        pieces: list[list[tuple[float, float, int]]] = [[]]
        for index, (x, y) in enumerate(zip(line.xs, line.ys, strict=True)):
            if self.ys.shows(y):
                pieces[-1].append((self.x(x), self.y(y), index))
            elif pieces[-1]:
                pieces.append([])
        look = _look(line)
        parts = [self._band(line)] if line.band else []
        for piece in pieces:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in piece)
            parts.append(tag("polyline", points=points, class_=f"line {look}") if piece else "")
        if len(line.xs) <= MOST_DOTS and not line.thin:
            for x, y, index in (point for piece in pieces for point in piece):
                where = names[index] if names else number(line.xs[index], 8)
                title = tag("title", escape(f"{line.name}, {where}: {number(line.ys[index], 6)}"))
                parts.append(tag("circle", title, cx=x, cy=y, r=2.6, class_=f"dot {look}"))
        return "".join(parts)

    def _band(self, line: Line) -> str:
        kept = [
            (self.x(x), self.y(low), self.y(high))
            for x, (low, high) in zip(line.xs, line.band, strict=True)
            if self.ys.shows(low) and self.ys.shows(high)
        ]
        outline = [(x, low) for x, low, _ in kept] + [(x, high) for x, _, high in reversed(kept)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)
        return tag("polygon", points=points, class_=f"band s{line.colour}")
