"""What a table says about an operator, as rows and lines of text for a terminal or a page."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..aclnn.codes import STATUS_BY_NAME
from ..aclnn.spec.language import ApiSpec, Check, OperatorSpec, Tiling
from .checks_in_words import in_words

TENSOR_HEADS = ("tensor", "aclnn", "", "dtype", "shape", "")
ATTRIBUTE_HEADS = ("attribute", "aclnn", "type", "default", "")
LIMIT_HEADS = ("soc", "limits")


def prototype(spec: OperatorSpec, api: ApiSpec) -> list[str]:
    """The first call in two lines."""
    found = (spec.tensor(name) or spec.attr(name) for name in api.parameters)
    names = ", ".join(item.acl for item in found if item)
    return [f"{api.name}GetWorkspaceSize({names},", "    workspaceSize, executor)"]


def tensor_rows(spec: OperatorSpec) -> list[tuple[str, ...]]:
    """A row a tensor, under TENSOR_HEADS."""
    return [
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


def symbol_lines(spec: OperatorSpec) -> list[str]:
    """What the symbols in shapes stand for."""
    sizes = "; ".join(f"{name} = {formula}" for name, formula in spec.symbols.items())
    return [
        f"with {sizes}; *lead is [B, S] or [T], from {spec.lead[0]};",
        "*t is the whole shape of tensor t, ?t as many unknown dimensions",
    ]


def attribute_rows(spec: OperatorSpec) -> list[tuple[str, ...]]:
    """A row an attribute, under ATTRIBUTE_HEADS."""
    return [
        (a.name, a.acl or "(not in the call)", a.type, str(a.default), a.doc) for a in spec.attrs
    ]


def check_rows(checks: Iterable[Check], codes: bool = False) -> list[tuple[str, str, str]]:
    """Number, demand, and with `codes` the status that a failure gives."""
    rows = []
    for number, check in enumerate(checks, 1):
        when = f" (when {check.when})" if check.when else ""
        note = f"; {check.note}" if check.note else ""
        code = f"{STATUS_BY_NAME[check.code]} {check.code}" if codes else ""
        rows.append((str(number), in_words(check) + when + note, code))
    return rows


def infershape_lines(spec: OperatorSpec) -> list[str]:
    """The shapes that infershape gives."""
    lines = []
    for name, forms in spec.infershape.outputs.items():
        options = " or ".join(
            f"[{', '.join(form.shape.split())}]" + (f" when {form.when}" if form.when else "")
            for form in forms
        )
        lines.append(f"{name} is {options}")
    return lines + ([spec.infershape.note] if spec.infershape.note else [])


def tilings(spec: OperatorSpec) -> list[tuple[str, Tiling]]:
    """The rules of tiling, and for which chips."""
    found = [(f"on {socs}", tiling) for socs, tiling in shared(spec.tiling)]
    if spec.unnamed_tiling:
        found.append(("of unit tests that name no chip", spec.unnamed_tiling))
    return found


def tiling_lines(tiling: Tiling) -> list[str]:
    """What tiling answers to a call that it accepts."""
    published = {"exact": "", "bound": f" (published: more than {tiling.bound})"}
    rule = published.get(tiling.workspace_rule, " (ours, unpublished)")
    lines = [f"workspace = {tiling.workspace}{rule}"]
    if tiling.key:
        lines.append(f"tiling key = {tiling.key}")
    lines += [f"{name} = {formula}" for name, formula in tiling.data.items()]
    return lines + ([tiling.note] if tiling.note else [])


def shared(rules: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
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
