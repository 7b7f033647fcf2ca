"""The blocks that pages are made of."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from .svg import tag


def section(title: str, lead: str, charts: Iterable[tuple[str, str]]) -> str:
    """A heading, a sentence and charts side by side; `charts` are (heading, markup)."""
    figures = (tag("figure", tag("h3", escape(name)) + chart) for name, chart in charts)
    body = tag("div", figures, class_="charts")
    return tag("section", tag("h2", escape(title)) + tag("p", escape(lead)) + body)


def tiles_of(facts: Iterable[tuple[str, str]]) -> str:
    """A few (name, value) in large letters."""
    made = (
        tag("div", tag("b", escape(value)) + tag("span", escape(name)), class_="tile")
        for name, value in facts
    )
    return tag("div", made, class_="tiles")


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls sideways where it is too wide; the cells of `rows` are markup."""
    lines = [tag("tr", (tag("th", escape(head)) for head in heads))]
    lines += (tag("tr", (tag("td", cell) for cell in row)) for row in rows)
    return tag("div", tag("table", lines), class_="wide")


def evenly(items: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of the items, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
