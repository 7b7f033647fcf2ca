"""mhc-ops conform: run case files and say what does not hold."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from ..conformance import Report, run_files
from .output import BAD_INPUT, GOOD, NOT_EQUAL, JsonFlag, complain, console, print_json, progress


def conform(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="JSON files of cases.")],
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="A line for each skipped case, too.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Run published cases; a line for each failure, then `N passed, M failed, K skipped`."""
    with progress(None, "running cases") as step:
        report = run_files(files, step.to)
    if as_json:
        print_json(report.to_json())
    else:
        _print(report, verbose)
    if not report.passed and not report.failed:
        complain(f"no case ran in {', '.join(map(str, files))}.")
        return BAD_INPUT
    return NOT_EQUAL if report.failed else GOOD


def _print(report: Report, verbose: bool) -> None:
    out = console()
    out.soft_wrap = True
    for failure in report.failures:
        out.print(failure)
    if verbose:
        for line in (*report.skips, *report.notes):
            out.print(line)
    else:
        reasons = Counter(o.reason for o in report.outcomes if o.result == "skipped")
        for reason, count in reasons.most_common():
            out.print(f"skipped {count}: {reason}")
        keys = Counter(f"{o.op} {key}" for o in report.outcomes for key in o.unasserted)
        for key, count in sorted(keys.items()):
            out.print(f"unasserted in {count}: {key}")
    out.print(report.summary())
