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


@singledispatch
def in_words(check: Check) -> str:
    """What the check demands. Falls back on the name of its kind."""
    return type(check).__name__


@in_words.register
def _(check: Handles) -> str:
    return "workspaceSize, then executor: not null"


@in_words.register
def _(check: Null) -> str:
    return f"{', '.join(check.names)}: not null"


@in_words.register
def _(check: Empty) -> str:
    nothing = ", or there is nothing to compute" if check.code == "SUCCESS" else ""
    return f"{', '.join(check.names)}: not empty{nothing}"


@in_words.register
def _(check: Positive) -> str:
    return f"{', '.join(check.names)}: every dimension above 0"


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
def _(check: Dtype) -> str:
    return f"{', '.join(check.names)}: dtypes as above"


@in_words.register
def _(check: Format) -> str:
    return f"{', '.join(check.names)}: no private format"


@in_words.register
def _(check: SameDtype) -> str:
    return f"{', '.join(check.names)}: one dtype"


@in_words.register
def _(check: SameFormat) -> str:
    return f"{', '.join(check.names)}: one format"


@in_words.register
def _(check: InRange) -> str:
    return f"{check.attr}: {check.low}..{check.high}"


@in_words.register
def _(check: OneOf) -> str:
    return f"{check.attr}: {' or '.join(map(str, check.values))}"
