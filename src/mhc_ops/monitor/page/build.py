"""A recorded run as one HTML page."""

from html import escape

from ...page.document import document
from ...page.svg import tag
from ..run import Run
from . import sections


def render_page(run: Run, title: str | None = None) -> str:
    """The page as text: self-contained HTML, without scripts and without anything fetched.

    Args:   run: from `read_run`.
            title: of the page; the name of the run's folder by default.
    """
    title = title or run.path.resolve().parent.name or run.path.name
    body = [
        tag("p", escape(sections.facts(run))),
        *(tag("p", escape(note), class_="note") for note in run.notes),
        sections.tiles(run),
        sections.values(run),
        sections.gains(run),
        sections.maps(run),
        sections.gates(run),
        sections.defects(run),
        sections.gradients(run),
        sections.layers(run),
        tag("footer", "Drawn by mhc-ops report. Point at a dot or a cell to read its value."),
    ]
    return document(title, body)
