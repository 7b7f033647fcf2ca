"""mhc-ops describe: an operator's parameters, shapes, chip rules and order of checks."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from ..aclnn.codes import STATUS_BY_NAME
from ..aclnn.spec import OPERATORS
from ..aclnn.spec.language import Check, OperatorSpec, Tiling
from ..errors import ArgumentError
from .checks_in_words import in_words
from .operators import fold_operator
from .output import GOOD, JsonFlag, console, print_json, table


def describe(
    op: Annotated[
        str | None, typer.Argument(metavar="OP", help="An operator; without one, all are listed.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Print what the aclnn table says about an operator."""
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
        out.print(f"\n{api.name}GetWorkspaceSize({_parameters(spec, api.parameters)},")
        out.print("    workspaceSize, executor)")
    out.print()
    tensors = [
        (
            t.name,
            t.acl,
            t.kind + (", optional" if t.optional else ""),
            f"as {t.same_dtype_as}" if t.same_dtype_as else " or ".join(t.dtypes),
            "[" + ", ".join(t.shape.split()) + "]",
            t.doc,
        )
        for t in spec.tensors
    ]
    out.print(table(("tensor", "aclnn", "", "dtype", "shape", ""), tensors))
    sizes = "; ".join(f"{name} = {formula}" for name, formula in spec.symbols.items())
    out.print(f"with {sizes}; *lead is [B, S] or [T], from {spec.lead[0]};")
    out.print("*t is the whole shape of tensor t, ?t as many unknown dimensions")
    out.print()
    attrs = [
        (a.name, a.acl or "(not in the call)", a.type, str(a.default), a.doc) for a in spec.attrs
    ]
    out.print(table(("attribute", "aclnn", "type", "default", ""), attrs))
    out.print()
    out.print(table(("soc", "limits"), spec.limits.items()))
    for socs, checks in _shared(spec.op_api):
        _print_checks(out, f"First call on {socs}, in this order:", checks, STATUS_BY_NAME)
    _print_checks(out, "Infershape, GRAPH_FAILED unless:", spec.infershape.checks)
    for name, forms in spec.infershape.outputs.items():
        options = " or ".join(
            f"[{', '.join(form.shape.split())}]" + (f" when {form.when}" if form.when else "")
            for form in forms
        )
        out.print(f"  {name} is {options}")
    if spec.infershape.note:
        out.print(f"  {spec.infershape.note}")
    tilings = [(f"on {socs}", tiling) for socs, tiling in _shared(spec.tiling)]
    if spec.unnamed_tiling:
        tilings.append(("of unit tests that name no chip", spec.unnamed_tiling))
    for where, tiling in tilings:
        _print_checks(out, f"Tiling {where}, GRAPH_FAILED unless, in this order:", tiling.checks)
        _print_tiling(out, tiling)


def _print_checks(
    out: Console, title: str, checks: Iterable[Check], codes: Mapping[str, int] | None = None
) -> None:
    """A numbered list; `codes` are the statuses by the short names that checks use."""
    out.print(f"\n{title}")
    rows = []
    for number, check in enumerate(checks, 1):
        when = f" (when {check.when})" if check.when else ""
        note = f"; {check.note}" if check.note else ""
        code = f"{codes[check.code]} {check.code}" if codes else ""
        rows.append((str(number), in_words(check) + when + note, code))
    out.print(table((">", "", ""), rows, header=False))


def _print_tiling(out: Console, tiling: Tiling) -> None:
    published = {"exact": "", "bound": f" (published: more than {tiling.bound})"}
    rule = published.get(tiling.workspace_rule, " (ours, unpublished)")
    out.print(f"  workspace = {tiling.workspace}{rule}")
    if tiling.key:
        out.print(f"  tiling key = {tiling.key}")
    for name, formula in tiling.data.items():
        out.print(f"  {name} = {formula}")
    if tiling.note:
        out.print(f"  {tiling.note}")


def _parameters(spec: OperatorSpec, names: Iterable[str]) -> str:
    """Parameters in aclnn spelling."""
    found = (spec.tensor(name) or spec.attr(name) for name in names)
    return ", ".join(item.acl for item in found if item)


def _shared(rules: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Rules by SoC, those of several chips once."""
    groups: list[tuple[list[str], Any]] = []
    for soc, rule in rules.items():
        same = next((socs for socs, other in groups if other == rule), None)
        if same is None:
            groups.append(([soc], rule))
        else:
            same.append(soc)
    for socs, rule in groups:
        yield ", ".join(socs), rule


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
