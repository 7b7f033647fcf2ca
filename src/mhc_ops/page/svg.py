"""Elements of HTML and SVG as text, and how numbers are written in them."""

import math
from collections.abc import Iterable
from html import escape


def tag(element: str, content: str | Iterable[str] = "", **attributes: object) -> str:
    """One element; `class_` means class, other underscores become hyphens. `content` is markup."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for name, value in attributes.items()
    )
    inner = content if isinstance(content, str) else "".join(content)
    return f"<{element}{given}>{inner}</{element}>"


def text(words: str, x: float, y: float, class_: str = "tick", anchor: str = "middle") -> str:
    """Words at a point of an SVG."""
    return tag("text", escape(words), x=x, y=y, class_=class_, text_anchor=anchor)


def number(value: float, digits: int = 4) -> str:
    """A number as people read it: 1.02, 3.1e-7, nan."""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
    mantissa, exponent = f"{value:.{min(digits, 3) - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
