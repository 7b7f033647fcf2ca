"""mhc-ops compare: two sets of tensors under a named criterion."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from ..conformance.comparison import by_name, check_criterion, compare_sets, tolerances_of
from ..conformance.criteria import CRITERIA, Verdict, published_tolerance
from ..errors import ArgumentError
from ..tensorfile import read
from .operators import find_operator
from .output import (
    GOOD,
    NOT_EQUAL,
    JsonFlag,
    console,
    dtype_name,
    mark,
    print_json,
    progress,
    shape_name,
    table,
)


def compare(
    got: Annotated[Path, typer.Argument(metavar="A", help="The results to judge.")],
    want: Annotated[Path, typer.Argument(metavar="B", help="What they should be.")],
    criterion: Annotated[str, typer.Option(help=", ".join(CRITERIA) + ".")] = "default",
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]P", help="In place of the criterion's, for one tensor or all."
        ),
    ] = None,
    op: Annotated[
        str | None,
        typer.Option(
            help="Whose outputs these are, for the tolerances that `framework` tests use."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Compare two files or folders tensor by tensor; exit 1 when any differs, lacks or is extra."""
    check_criterion(criterion)
    if op is not None:
        op = find_operator(op).name
    a, b = read(got), read(want)
    if not a.tensors and not b.tensors:
        raise ArgumentError(f"{got} and {want} hold no tensors: nothing to compare.")
    ours, theirs = by_name(a.tensors), by_name(b.tensors)
    wishes = tolerances_of(tolerance or (), (*ours, *theirs))
    if op is None and a.op == b.op:
        op = a.op

    def wished(name: str) -> float | None:
        p = wishes.get(name, wishes.get(""))
        return published_tolerance(op, name) if p is None and criterion == "framework" else p

    with progress(len(ours.keys() & theirs.keys()), "comparing") as step:
        found = compare_sets(ours, theirs, criterion, wished, step)
    verdicts, missing, extra, equal = found.verdicts, found.missing, found.extra, found.equal

    if as_json:
        print_json(
            {
                "equal": equal,
                "criterion": criterion,
                "op": op,
                "missing": missing,
                "extra": extra,
                "tensors": [verdict.to_json() for verdict in verdicts],
            }
        )
        return GOOD if equal else NOT_EQUAL
    _print(verdicts, theirs, missing, extra, criterion)
    return GOOD if equal else NOT_EQUAL


def _print(
    verdicts: Sequence[Verdict],
    tensors: dict[str, Tensor],
    missing: Sequence[str],
    extra: Sequence[str],
    criterion: str,
) -> None:
    rows = []
    for v in verdicts:
        t = tensors[str(v.name)]
        at = ",".join(map(str, v.worst.at)) if v.worst else ""
        worst = f"[{at}] {v.worst.got:.6g}, wanted {v.worst.want:.6g}" if v.worst else ""
        rows.append(
            (
                str(v.name),
                dtype_name(t),
                shape_name(t),
                mark(v.passed, ("equal", "DIFFERS")),
                f"{v.misses}/{v.size}",
                f"{v.max_abs_error:.2e}",
                f"{v.max_rel_error:.2e}",
                worst,
            )
        )
    for name in missing:
        rows.append((name, "", "", mark(False, ("", "MISSING")), "", "", "", "only in B"))
    for name in extra:
        rows.append((name, "", "", mark(False, ("", "EXTRA")), "", "", "", "only in A"))
    out = console()
    columns = (
        "tensor",
        "dtype",
        "shape",
        "",
        ">misses",
        ">max |a-b|",
        ">max rel.",
        "worst element",
    )
    out.print(table(columns, rows))
    for v in verdicts:
        if not v:
            out.print(f"{v.name}: {v.reason}")
    rules: dict[str, list[str]] = {}
    for v in verdicts:
        rules.setdefault(v.rule, []).append(str(v.name))
    for rule, names in rules.items():
        out.print(f"{criterion}, {', '.join(names)}: {rule}")
    failed = sum(not v for v in verdicts) + len(missing) + len(extra)
    total = len(verdicts) + len(missing) + len(extra)
    out.print(f"{total - failed} of {total} tensors equal")
