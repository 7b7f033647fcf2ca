"""mhc-ops describe: an operator's parameters, shapes, chip rules and order of checks."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from ..aclnn.spec import OPERATORS
from ..aclnn.spec.language import Check, OperatorSpec, Tiling
from ..errors import ArgumentError
from . import operator_facts as facts
from .checks_in_words import in_words
from .operators import fold_operator
from .operators_page import operator_section, operators_page
from .output import GOOD, JsonFlag, console, print_json, table


def describe(
    op: Annotated[
        str | None, typer.Argument(metavar="OP", help="An operator; without one, all are listed.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As Markdown; without OP, all of docs/operators.md.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Print what the aclnn table says about an operator."""
    if markdown and as_json:
        raise ArgumentError("describe: give --markdown or --json, not both.")
    if markdown:
        print(operators_page() if op is None else operator_section(_find(op)), end="")
        return GOOD
    if op is None:
        _list(as_json)
        return GOOD
    spec = _find(op)
    if as_json:
        print_json(_as_json(spec))
        return GOOD
    _print(console(), spec)
    return GOOD


def _find(name: str) -> OperatorSpec:
    """The operator of that name, or of one of its calls (aclnnMhcPreV2)."""
    wanted = fold_operator(name)
    for spec in OPERATORS.values():
        if wanted in (fold_operator(n) for n in (spec.name, *(api.name for api in spec.apis))):
            return spec
    raise ArgumentError(f"unknown operator {name!r}; known are {', '.join(OPERATORS)}.")


def _list(as_json: bool) -> None:
    if as_json:
        print_json({name: spec.doc for name, spec in OPERATORS.items()})
    else:
        console().print(table(("operator", ""), ((s.name, s.doc) for s in OPERATORS.values())))


def _print(out: Console, spec: OperatorSpec) -> None:
    out.print(f"{spec.name}: {spec.doc}")
    for api in spec.apis:
        first, *rest = facts.prototype(spec, api)
        out.print(f"\n{first}")
        out.print("\n".join(rest))
    out.print()
    out.print(table(facts.TENSOR_HEADS, facts.tensor_rows(spec)))
    out.print("\n".join(facts.symbol_lines(spec)))
    out.print()
    out.print(table(facts.ATTRIBUTE_HEADS, facts.attribute_rows(spec)))
    out.print()
    out.print(table(facts.LIMIT_HEADS, spec.limits.items()))
    for socs, checks in facts.shared(spec.op_api):
        _print_checks(out, f"First call on {socs}, in this order:", checks, codes=True)
    _print_checks(out, "Infershape, GRAPH_FAILED unless:", spec.infershape.checks)
    for line in facts.infershape_lines(spec):
        out.print(f"  {line}")
    for where, tiling in facts.tilings(spec):
        _print_checks(out, f"Tiling {where}, GRAPH_FAILED unless, in this order:", tiling.checks)
        for line in facts.tiling_lines(tiling):
            out.print(f"  {line}")


def _print_checks(out: Console, title: str, checks: Iterable[Check], codes: bool = False) -> None:
    out.print(f"\n{title}")
    out.print(table((">", "", ""), facts.check_rows(checks, codes), header=False))


def _as_json(spec: OperatorSpec) -> dict[str, Any]:
    def listed(checks: Iterable[Check]) -> list[dict[str, Any]]:
        return [{"check": type(c).__name__, "words": in_words(c), **asdict(c)} for c in checks]

    def tiling_as_json(tiling: Tiling) -> dict[str, Any]:
        return {**asdict(tiling), "checks": listed(tiling.checks)}

    return {
        **asdict(spec),
        "op_api": {soc: listed(checks) for soc, checks in spec.op_api.items()},
        "infershape": {
            **asdict(spec.infershape),
            "checks": listed(spec.infershape.checks),
        },
        "tiling": {soc: tiling_as_json(tiling) for soc, tiling in spec.tiling.items()},
        "unnamed_tiling": spec.unnamed_tiling and tiling_as_json(spec.unnamed_tiling),
    }
