"""A check of an operator's table as a line of text."""

from functools import singledispatch

from ..aclnn.spec.language import (
    AllOrNone,
    Check,
    Dtype,
    Empty,
    Format,
    Handles,
    InRange,
    Null,
    OneOf,
    Positive,
    Rank,
    Rule,
    SameDtype,
    SameFormat,
    Shape,
)

_OF_SEVERAL = {
    Null: "not null",
    Positive: "every dimension above 0",
    Dtype: "dtypes as above",
    SameDtype: "one dtype",
    Format: "no private format",
    SameFormat: "one format",
}


@singledispatch
def in_words(check: Check) -> str:
    """What the check demands. Falls back on the name of its kind."""
    demand = _OF_SEVERAL.get(type(check))
    if demand is None:
        return type(check).__name__
    return f"{', '.join(getattr(check, 'names', ()))}: {demand}"


@in_words.register
def _(check: Handles) -> str:
    return "workspaceSize, then executor: not null"


@in_words.register
def _(check: Empty) -> str:
    nothing = ", or there is nothing to compute" if check.code == "SUCCESS" else ""
    return f"{', '.join(check.names)}: not empty{nothing}"


@in_words.register
def _(check: AllOrNone) -> str:
    null = f"; {check.placeholder} element is as good as null" if check.placeholder == 1 else ""
    return f"{', '.join(check.names)}: all or none{null}"


@in_words.register
def _(check: Rank) -> str:
    return f"{check.name}: rank {' or '.join(check.ranks)}"


@in_words.register
def _(check: Rule) -> str:
    return f"{check.tensor}: {check.condition}"


@in_words.register
def _(check: Shape) -> str:
    shapes = ("[" + s.replace(" ", ", ") + "]" for s in check.shapes)
    return f"{check.name}: shape {' or '.join(shapes)}"


@in_words.register
def _(check: OneOf) -> str:
    return f"{check.attr}: {' or '.join(map(str, check.values))}"


@in_words.register
def _(check: InRange) -> str:
    return f"{check.attr}: {check.low}..{check.high}"
