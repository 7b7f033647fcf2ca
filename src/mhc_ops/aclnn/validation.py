"""Runs the checks of an operator's table on descriptions of tensors. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from math import prod
from typing import NamedTuple

from .codes import PRIVATE_FORMATS
from .spec import evaluate, symbols
from .spec.language import (
    AllOrNone,
    Check,
    Dtype,
    Empty,
    Format,
    Handles,
    InRange,
    Null,
    OneOf,
    OperatorSpec,
    Positive,
    Rank,
    Rule,
    SameDtype,
    SameFormat,
    Shape,
)


class Desc(NamedTuple):
    """What a check sees of a tensor; names of dtype and format as in codes.py."""

    dtype: str
    shape: tuple[int, ...]
    format: str = "ND"


class Failure(NamedTuple):
    """The first check that failed: the short name of its status, and one sentence.

    The status may be SUCCESS: the call is good and there is nothing to compute.
    """

    code: str
    message: str


class UnknownSize(Exception):
    """A formula needs a dimension or rank that is not known yet (-1, -2)."""


class MissingSize(Exception):
    """A formula needs a dimension of a tensor that is null or has too few of them."""


@dataclass
class Call:
    """One call to validate; also where formulas find their values.

    label    how messages name the call
    descs    tensors by snake case name; a missing name is a null tensor
    attrs    attributes by snake case name, defaults filled in
    numbers  further symbols, such as the core counts
    handles  which of workspaceSize and executor are given
    dynamic  -1 is an unknown dimension and (-2,) an unknown rank
    """

    op: OperatorSpec
    label: str
    descs: Mapping[str, Desc | None]
    attrs: Mapping[str, float | int]
    numbers: Mapping[str, int] = field(default_factory=dict)
    handles: Mapping[str, bool] = field(default_factory=dict)
    dynamic: bool = False

    def symbol(self, name: str) -> int:
        if name in self.op.symbols:
            return evaluate(self.op.symbols[name], self)
        if name == "T":
            lead = self.lead()
            if self.dynamic and -1 in lead:
                raise UnknownSize
            return prod(lead)
        if name in self.attrs:
            return int(self.attrs[name])
        return self.numbers[name]

    def _shape(self, tensor: str) -> tuple[int, ...]:
        desc = self.descs.get(tensor)
        if desc is None:
            raise MissingSize(f"{self.spelled(tensor)} must not be null")
        if self.dynamic and desc.shape == (-2,):
            raise UnknownSize
        return desc.shape

    def rank(self, tensor: str) -> int:
        return len(self._shape(tensor))

    def dim(self, tensor: str, index: int) -> int:
        shape = self._shape(tensor)
        if not -len(shape) <= index < len(shape):
            raise MissingSize(f"{self.spelled(tensor)} has too few dimensions: {list(shape)}")
        if self.dynamic and shape[index] == -1:
            raise UnknownSize
        return shape[index]

    def size(self, tensor: str) -> int:
        if self.unknown_dim(tensor):
            raise UnknownSize
        return prod(self._shape(tensor))

    def given(self, tensor: str) -> bool:
        return self.descs.get(tensor) is not None

    def unknown_rank(self, tensor: str) -> bool:
        desc = self.descs.get(tensor)
        return self.dynamic and desc is not None and desc.shape == (-2,)

    def unknown_dim(self, tensor: str) -> bool:
        desc = self.descs.get(tensor)
        return self.dynamic and desc is not None and -1 in desc.shape

    def lead(self) -> tuple[int, ...]:
        """The leading dimensions, [B, S] or [T]; -1 among them where unknown."""
        tensor, rest = self.op.lead
        return self._shape(tensor)[: self.rank(tensor) - rest]

    def shape(self, text: str) -> tuple[int, ...]:
        """The numbers of a symbolic shape; unknown ones are -1, an unknown rank is (-2,)."""
        dims: list[int] = []
        for token in text.split():
            several = token[0] in "*?"
            try:
                dims.extend(self._several(token) if several else (evaluate(token, self),))
            except UnknownSize:
                if several:
                    return (-2,)
                dims.append(-1)
        return tuple(dims)

    def _several(self, token: str) -> tuple[int, ...]:
        if token == "*lead":
            return self.lead()
        return self._shape(token[1:]) if token[0] == "*" else (-1,) * self.rank(token[1:])

    def holds(self, condition: str) -> bool:
        """Whether the condition is known to hold; the empty one always does."""
        if not condition:
            return True
        try:
            return bool(evaluate(condition, self))
        except UnknownSize:
            return False

    def spelled(self, name: str) -> str:
        """A tensor's or attribute's name as this surface spells it: aclnn calls in camel case."""
        spec = self.op.tensor(name) or self.op.attr(name)
        return spec.acl if spec and spec.acl and self.label.startswith("aclnn") else name


def first_failure(call: Call, checks: Iterable[Check]) -> Failure | None:
    """The first check that the call fails, or None."""
    for check in checks:
        try:
            if not call.holds(check.when):
                continue
            problem = _problem(check, call)
        except UnknownSize:
            continue
        except MissingSize as missing:
            problem = str(missing)
        if problem:
            return Failure(check.code, f"{call.label}: {problem}.")
    return None


def _given(call: Call, names: Iterable[str]) -> Iterable[tuple[str, Desc]]:
    for name in names:
        desc = call.descs.get(name)
        if desc is not None:
            yield name, desc


@singledispatch
def _problem(check: Check, call: Call) -> str:
    """What is wrong, as the rest of a sentence; empty if nothing is."""
    raise TypeError(f"no rule for {type(check).__name__}")


@_problem.register
def _(check: Handles, call: Call) -> str:
    missing = [name for name in ("workspaceSize", "executor") if not call.handles.get(name, True)]
    return f"{missing[0]} must not be a null pointer" if missing else ""


@_problem.register
def _(check: Null, call: Call) -> str:
    missing = [name for name in check.names if not call.given(name)]
    return f"{call.spelled(missing[0])} must not be null" if missing else ""


@_problem.register
def _(check: Empty, call: Call) -> str:
    for name, desc in _given(call, check.names):
        if 0 in desc.shape:
            return f"{call.spelled(name)} must not be empty, got {list(desc.shape)}"
    return ""


@_problem.register
def _(check: Positive, call: Call) -> str:
    for name, desc in _given(call, check.names):
        if any(size <= 0 for size in desc.shape):
            return f"every dimension of {call.spelled(name)} must be positive, got {[*desc.shape]}"
    return ""


@_problem.register
def _(check: AllOrNone, call: Call) -> str:
    given = [n for n, desc in _given(call, check.names) if prod(desc.shape) != check.placeholder]
    if len(given) in (0, len(check.names)):
        return ""
    names = ", ".join(call.spelled(name) for name in check.names)
    return f"{names} must be all given or all null, got {', '.join(map(call.spelled, given))} alone"


@_problem.register
def _(check: Rank, call: Call) -> str:
    desc = call.descs.get(check.name)
    if desc is None or (call.dynamic and desc.shape == (-2,)):
        return ""
    allowed = sorted({evaluate(rank, call) for rank in check.ranks})
    if len(desc.shape) in allowed:
        return ""
    expected = " or ".join(map(str, allowed))
    return (
        f"{call.spelled(check.name)} must have {expected} dimensions, "
        f"got {len(desc.shape)}: {list(desc.shape)}"
    )


@_problem.register
def _(check: Rule, call: Call) -> str:
    if evaluate(check.condition, call):
        return ""
    values = _values(call, symbols(check.condition))
    desc = call.descs[check.tensor]
    assert desc is not None
    return (
        f"{call.spelled(check.tensor)} must satisfy {check.condition}, "
        f"got {values} from {list(desc.shape)}"
    )


@_problem.register
def _(check: Shape, call: Call) -> str:
    desc = call.descs.get(check.name)
    if desc is None:
        return ""
    expected = [call.shape(text) for text in check.shapes]
    if any(_fits(desc.shape, shape) for shape in expected):
        return ""
    forms = " or ".join(
        f"[{', '.join(text.replace('*lead', '..').split())}] = {list(shape)}"
        for text, shape in zip(check.shapes, expected, strict=True)
    )
    return f"{call.spelled(check.name)} must be {forms}, got {list(desc.shape)}"


@_problem.register
def _(check: Dtype, call: Call) -> str:
    for name, desc in _given(call, check.names):
        spec = call.op.tensor(name)
        assert spec is not None
        if desc.dtype not in spec.dtypes:
            expected = " or ".join(spec.dtypes)
            return f"{call.spelled(name)} must be {expected}, got {desc.dtype}"
        model = call.descs.get(spec.same_dtype_as)
        if model is not None and desc.dtype != model.dtype:
            return (
                f"{call.spelled(name)} must have the dtype of "
                f"{call.spelled(spec.same_dtype_as)}, {model.dtype}, got {desc.dtype}"
            )
    return ""


@_problem.register
def _(check: SameDtype, call: Call) -> str:
    return _difference(check.names, "dtype", call)


@_problem.register
def _(check: SameFormat, call: Call) -> str:
    return _difference(check.names, "format", call)


def _difference(names: Iterable[str], what: str, call: Call) -> str:
    values = [(call.spelled(name), getattr(desc, what)) for name, desc in _given(call, names)]
    for name, value in values[1:]:
        if value != values[0][1]:
            return f"{name} must have the {what} of {values[0][0]}, {values[0][1]}, got {value}"
    return ""


@_problem.register
def _(check: Format, call: Call) -> str:
    for name, desc in _given(call, check.names):
        if desc.format in PRIVATE_FORMATS:
            return f"{call.spelled(name)} has the private format {desc.format}; use ND"
    return ""


@_problem.register
def _(check: OneOf, call: Call) -> str:
    value = call.attrs[check.attr]
    if value in check.values:
        return ""
    name = call.spelled(check.attr)
    return f"{name} must be {' or '.join(map(str, check.values))} here, got {value}"


@_problem.register
def _(check: InRange, call: Call) -> str:
    value = call.attrs[check.attr]
    if check.low <= value <= check.high:
        return ""
    return f"{call.spelled(check.attr)} must be in {check.low}..{check.high}, got {value}"


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(
        want in (-1, got) for got, want in zip(shape, expected, strict=True)
    )


def _values(call: Call, names: Iterable[str]) -> str:
    return ", ".join(f"{name} = {call.symbol(name)}" for name in names)
