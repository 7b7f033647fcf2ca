"""What charts share: their size, their axes, and what stands beside them."""

from collections.abc import Sequence
from html import escape

from .scales import Scale
from .svg import tag, text

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 14, 44
BASE, SPAN = HEIGHT - BOTTOM, HEIGHT - TOP - BOTTOM


def level(scale: Scale, value: float) -> float:
    """Where a value lies on the vertical axis."""
    return BASE - SPAN * scale.at(value)


def value_axis(scale: Scale) -> str:
    """The grid of the vertical axis and its numbers."""
    parts = []
    for tick in scale.ticks():
        at = level(scale, tick)
        parts.append(across(at, "grid"))
        parts.append(text(scale.tick_text(tick), LEFT - 8, at + 4, anchor="end"))
    return "".join(parts)


def across(at: float, class_: str) -> str:
    """A line from side to side."""
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_=class_)


def labels(x_label: str, y_label: str, right: int = RIGHT) -> str:
    """The names of both axes; `right` is the margin there."""
    middle = (TOP + BASE) / 2
    turn = f"translate(12 {middle:.1f}) rotate(-90)"
    below = text(x_label, (LEFT + WIDTH - right) / 2, HEIGHT - 6, "label")
    return below + tag("g", text(y_label, 0, 0, "label"), transform=turn)


def figure(parts: Sequence[str], label: str, **attributes: str) -> str:
    """The SVG of a chart; `label` says what it shows to those who do not see it."""
    box = f"0 0 {WIDTH} {HEIGHT}"
    return tag("svg", parts, viewBox=box, role="img", aria_label=label, **attributes)


def legend(keys: Sequence[tuple[str, str]], note: str = "") -> str:
    """Names of series beside their looks, classes of the page's style; `note` is markup."""
    spans = "".join(tag("span", tag("i", class_=f"key {look}") + escape(n)) for n, look in keys)
    return tag("div", spans + note, class_="legend")
