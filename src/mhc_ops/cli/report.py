"""mhc-ops report: what a Monitor recorded, as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from ..monitor import Run, read_run, render_page
from .output import GOOD, JsonFlag, console, print_json, table, write_page


def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The .jsonl of a Monitor, or its folder.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Page to write; report.html beside the .jsonl.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Of the page; the folder's name.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Draw a recorded run: gains, residual maps, gates, defects, gradient norms."""
    found = read_run(run)
    page = out or found.path.with_name("report.html")
    write_page("report", page, render_page(found, title))
    facts = _facts(found, page)
    if as_json:
        print_json(facts)
    else:
        _print(facts)
    return GOOD


def _facts(run: Run, page: Path) -> dict[str, object]:
    last = run.steps[-1]
    return {
        "in": str(run.path),
        "out": str(page),
        "steps": len(run.steps),
        "first_step": run.steps[0].step,
        "last_step": last.step,
        "streams": run.head["streams"],
        "layers": [layer["name"] for layer in last.layers],
        "forward_gain": last.layers[-1]["gain_forward"],
        "backward_gain": last.layers[0]["gain_backward"],
        "defect_row": max(layer["defect_row"] for layer in last.layers),
        "defect_column": max(layer["defect_column"] for layer in last.layers),
        "values": last.values,
        "notes": run.notes,
    }


def _print(facts: dict[str, object]) -> None:
    out = console()
    layers, values = facts["layers"], facts["values"]
    assert isinstance(layers, list)
    assert isinstance(values, dict)
    rows = [
        ("run", f"{facts['steps']} steps, {facts['first_step']} to {facts['last_step']}"),
        ("layers", f"{len(layers)} over {facts['streams']} streams"),
        ("gain", f"forward {facts['forward_gain']:.5g}, backward {facts['backward_gain']:.5g}"),
        ("defect", f"rows {facts['defect_row']:.3g}, columns {facts['defect_column']:.3g}"),
        *((str(name), f"{value:.6g}") for name, value in values.items()),
        ("page", str(facts["out"])),
    ]
    out.print(table(("", ""), rows, header=False))
    notes = facts["notes"]
    assert isinstance(notes, list)
    for note in notes:
        out.print(note)
