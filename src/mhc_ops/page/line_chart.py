"""Lines over steps or over depth."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from .scales import Scale, scale_of
from .style import CSS
from .svg import number, tag, text

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 14, 44
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
    legend = "".join(
        tag("span", tag("i", class_=f"key {_look(line)}") + escape(line.name)) for line in lines
    )
    note = (
        tag("span", f"{drawn.hidden} points not drawn (zero, NaN or infinite)", class_="warn")
        if drawn.hidden
        else ""
    )
    return drawn.svg("") + tag("div", legend + note, class_="legend")


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
    return drawn.svg("".join(parts), xmlns="http://www.w3.org/2000/svg") + "\n"


class _Drawing(NamedTuple):
    parts: list[str]
    label: str
    hidden: int

    def svg(self, more: str, **attributes: str) -> str:
        return tag(
            "svg",
            [more, *self.parts],
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=self.label,
            **attributes,
        )


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
        at = plot.y(mark)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="mark"))
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
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self.ys.at(value)

    def axes(self, x_label: str, y_label: str, whole: bool) -> str:
        parts = []
        for tick in self.ys.ticks():
            at = self.y(tick)
            parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
            parts.append(text(self.ys.tick_text(tick), LEFT - 8, at + 4, anchor="end"))
        for tick in self.xs.ticks(6):
            if whole and abs(tick - round(tick)) > 1e-9:
                continue
            at = self.x(tick)
            base = HEIGHT - BOTTOM
            parts.append(tag("line", x1=at, x2=at, y1=base, y2=base + 5, class_="axis"))
            parts.append(text(self.xs.tick_text(tick), at, base + 19))
        base = HEIGHT - BOTTOM
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base, class_="axis"))
        parts.append(text(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "label"))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(
            tag(
                "g",
                text(y_label, 0, 0, "label"),
                transform=f"translate(12 {middle:.1f}) rotate(-90)",
            )
        )
        return "".join(parts)

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
