"""The frame of a page."""

from collections.abc import Iterable
from html import escape

from .style import CSS
from .svg import tag


def document(title: str, body: Iterable[str], more_css: str = "") -> str:
    """A whole page as text: self-contained HTML. `body` is markup, without the heading."""
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + tag("title", escape(title))
        + tag("style", CSS + more_css)
    )
    main = tag("main", [tag("h1", escape(title)), *body])
    return (
        "<!doctype html>\n" + tag("html", tag("head", head) + tag("body", main), lang="en") + "\n"
    )
