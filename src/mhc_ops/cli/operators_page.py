"""The operators' tables as Markdown: docs/operators.md is what `operators_page` returns."""

from collections.abc import Iterable, Sequence
from textwrap import fill

from ..aclnn.spec import OPERATORS
from ..aclnn.spec.language import Check, OperatorSpec
from . import operator_facts as facts

_HEAD = """\
# The operators, rule by rule

Written by `mhc-ops describe --markdown` from the tables in `mhc_ops/aclnn/spec`, which also drive
the calls, infershape and tiling of [the aclnn surface](aclnn.md); a test keeps the two equal.
Checks stand in the order in which they are made: the first that fails decides the status. A2 is
ascend910b, A3 ascend910_93.
"""


def operators_page() -> str:
    """All operators."""
    listed = [f"- [{name}](#{name.lower()}): {spec.doc}" for name, spec in OPERATORS.items()]
    parts = [_HEAD, "\n".join(listed) + "\n", *(operator_section(s) for s in OPERATORS.values())]
    return "\n".join(parts)


def operator_section(spec: OperatorSpec) -> str:
    """One operator: call, tensors, attributes, limits, checks, infershape, tiling."""
    lines = [f"## {spec.name}", spec.doc, ""]
    calls = [
        fill(" ".join(facts.prototype(spec, api)), 100, subsequent_indent="    ")
        for api in spec.apis
    ]
    lines += ["```c", *calls, "```", ""]
    lines += [*_table(facts.TENSOR_HEADS, facts.tensor_rows(spec)), ""]
    lines += [_text(" ".join(facts.symbol_lines(spec))) + ".", ""]
    if spec.attrs:
        lines += [*_table(facts.ATTRIBUTE_HEADS, facts.attribute_rows(spec)), ""]
    lines += [*_table(facts.LIMIT_HEADS, spec.limits.items()), ""]
    for socs, checks in facts.shared(spec.op_api):
        lines += [f"### {spec.name}: first call on {socs}", "", *_checks(checks, codes=True), ""]
    lines += [f"### {spec.name}: infershape", "GRAPH_FAILED unless:", ""]
    lines += [*_checks(spec.infershape.checks), "", *_list(facts.infershape_lines(spec)), ""]
    for where, tiling in facts.tilings(spec):
        lines += [f"### {spec.name}: tiling {where}", "GRAPH_FAILED unless:", ""]
        lines += [*_checks(tiling.checks), "", *_list(facts.tiling_lines(tiling)), ""]
    return "\n".join(lines)


def _checks(checks: Iterable[Check], codes: bool = False) -> list[str]:
    rows = facts.check_rows(checks, codes)
    if not codes:
        return _table(("", "check"), [row[:2] for row in rows])
    return _table(("", "check", "status"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = ["| " + " | ".join(_text(cell) for cell in row) + " |" for row in rows]
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *body]


def _list(lines: Iterable[str]) -> list[str]:
    return [f"- {_text(line)}" for line in lines]


def _text(words: str) -> str:
    """Plain words: nothing in them is markup."""
    for sign in "\\|*<":
        words = words.replace(sign, f"\\{sign}")
    return words
