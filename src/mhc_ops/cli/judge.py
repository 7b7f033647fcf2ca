"""mhc-ops judge: what a device computed from a golden, and what may have gone wrong."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..conformance.goldens import read_golden
from ..conformance.judging import Judgement, judge_golden, read_results, render_judgement
from ..conformance.judging.judgement import NAMES, OutputJudgement
from ..conformance.judging.measures import Group
from .output import (
    GOOD,
    NOT_EQUAL,
    JsonFlag,
    console,
    mark,
    print_json,
    progress,
    table,
    write_page,
)


def judge(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="DIR_NPU",
            help="What the device wrote: a tensor file, a folder with manifest.json, or bare .bin.",
        ),
    ],
    golden: Annotated[
        Path, typer.Argument(metavar="DIR_GOLDEN", help="A folder that `golden` wrote.")
    ],
    criterion: Annotated[str, typer.Option(help=", ".join(NAMES) + ".")] = "published",
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures, too.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Judge a device's results by a golden; exit 1 when an output fails or is missing."""
    wanted = read_golden(golden)
    got = read_results(results, wanted)
    with progress(len(wanted.truth.tensors), "judging") as step:
        found = judge_golden(wanted, got, criterion, step)
    if html is not None:
        write_page("judge", html, render_judgement(found, f"{results} by {golden}"))
    if as_json:
        print_json({**found.to_json(), "html": str(html) if html else None})
    else:
        _print(console(), found)
        if html is not None:
            console().print(f"page {html}")
    return GOOD if found else NOT_EQUAL


def _print(out: Console, found: Judgement) -> None:
    columns = (
        *("output", "dtype", "shape", "criterion", ">misses", "float32"),
        *(">outside", ">max error", ">eager", ">ours", ">bound", ">ulps"),
    )
    rows = [_row(output) for output in found.outputs]
    rows += [(n, "", "", mark(False, ("", "MISSING")), *[""] * 8) for n in found.missing]
    out.print(f"{found.op}, criterion {found.criterion}")
    out.print(table(columns, rows))
    for output in found.outputs:
        if not output.passed:
            _print_failure(out, output)
    for name in found.unjudged:
        out.print(f"{name}: not judged, its order in memory is each device's own")
    for name in found.extra:
        out.print(f"{name}: not judged, the golden has no such output")
    for hint in found.hints:
        out.print(f"known mistake: {hint.name}: {hint.evidence}; {hint.advice}")
    if not found.hints and not found.passed:
        out.print("known mistake: none, no known pattern explains this")
    failed = [o.name for o in found.outputs if not o.passed] + list(found.missing)
    total = len(found.outputs) + len(found.missing)
    words = f": {', '.join(failed)} failed" if failed else ""
    out.print(f"{total - len(failed)} of {total} outputs passed{words}")


def _row(output: OutputJudgement) -> tuple[str | Text, ...]:
    v, errors = output.verdict, output.max_errors
    numbers = (f"{errors[key]:.2e}" if errors else "" for key in ("got", "eager", "ours"))
    return (
        output.name,
        output.dtype,
        "x".join(map(str, output.shape)),
        mark(v.passed, ("passes", "FAILS")),
        f"{v.misses}/{v.size}",
        mark(output.within, ("as good", "WORSE")),
        str(output.outside),
        *numbers,
        f"{output.bound:.2e}",
        f"{output.max_ulps['got']:.3g}" if errors else "",
    )


def _print_failure(out: Console, output: OutputJudgement) -> None:
    v = output.verdict
    reason = v.reason if not v else f"{output.outside} elements outside the float32 bound"
    out.print(f"\n{output.name}: {reason} ({v.rule})")
    if v.nan_got or v.nan_want:
        out.print(f"  NaN: {v.nan_got} here, {v.nan_want} wanted, {v.nan_misplaced} misplaced")
    worst = [
        (f"[{e.at}]", f"{e.got:.6g}", f"{e.want:.6g}", f"{e.error:.2e}", f"{e.ulps:.3g}")
        for e in output.worst[:5]
    ]
    out.print(table(("worst", ">result", ">truth", ">error", ">ulps"), worst))
    _print_groups(out, "stream", output.by_stream)
    _print_groups(out, "tokens", output.by_tokens)


def _print_groups(out: Console, title: str, groups: Iterable[Group]) -> None:
    rows = [
        (g.name, f"{g.max_error:.2e}", f"{g.rms_error:.2e}", f"{g.outside}/{g.size}")
        for g in groups
    ]
    if rows:
        out.print(table((title, ">max error", ">rms error", ">outside"), rows))
