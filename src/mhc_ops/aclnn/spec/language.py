"""What an operator's table is made of. Data alone: nothing here knows torch or the rest of mhc_ops.

Formulas, conditions and dimensions are texts in the language of `expression.py`. A shape is its
dimensions separated by blanks; `*lead` stands for the leading dimensions, [B, S] or [T], `*t` for
all dimensions of tensor t, and `?t` for as many unknown ones. Integer attributes are symbols too.
Tensors, attributes and outputs go by their snake case names from the operator definition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

HALF = ("BFLOAT16", "FLOAT16")
SINGLE = ("FLOAT",)


@dataclass(frozen=True)
class TensorSpec:
    """One tensor: both spellings, direction, documented dtypes and shape."""

    name: str
    acl: str
    kind: str  # "input" or "output"
    dtypes: tuple[str, ...]
    shape: str
    doc: str
    optional: bool = False
    same_dtype_as: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name under which public documents and tests know the tensor."""
        short = self.acl.removesuffix("Optional")
        return (self.name, self.acl, short, re.sub("(?=[A-Z])", "_", short).lower())


@dataclass(frozen=True)
class AttrSpec:
    """One attribute. `acl` is empty where the aclnn calls do not take it."""

    name: str
    acl: str
    type: str  # "double", "float", "int64_t" or "bool", as in the C prototype
    default: float | int
    doc: str

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every name under which public documents and tests know the attribute."""
        return (self.name, self.acl, re.sub("(?=[A-Z])", "_", self.acl).lower())


@dataclass(frozen=True)
class ApiSpec:
    """One pair of aclnn calls: the parameters of the first, in order, without the two handles."""

    name: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One step of a validation; `when` is the condition under which it applies.

    The first one that fails ends the validation with its code. SUCCESS is a code too: the call is
    good, needs no workspace, and its second phase has nothing to do and writes nothing.
    """

    when: str = ""
    note: str = ""  # where the sources disagree: what we follow and why
    code: str = "PARAM_INVALID"


@dataclass(frozen=True)
class Handles(Check):
    """The two result pointers of the first call, workspaceSize before executor, are not null."""


@dataclass(frozen=True)
class Null(Check):
    """These tensors are not null."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Empty(Check):
    """These tensors, where given, have no dimension of size 0."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Positive(Check):
    """Every dimension of these tensors is greater than 0."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class AllOrNone(Check):
    """These optional tensors are all given or all null; `placeholder` elements count as null."""

    names: tuple[str, ...]
    placeholder: int = -1


@dataclass(frozen=True)
class Rank(Check):
    """The tensor, where given, has one of these numbers of dimensions."""

    name: str
    ranks: tuple[str, ...]


@dataclass(frozen=True)
class Rule(Check):
    """A condition on the symbols; `tensor` is the one they are read from, for the message."""

    condition: str
    tensor: str


@dataclass(frozen=True)
class Shape(Check):
    """The tensor, where given, has one of these shapes."""

    name: str
    shapes: tuple[str, ...]


@dataclass(frozen=True)
class Dtype(Check):
    """These tensors, where given, have the dtypes of their TensorSpec, checked in this order."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SameDtype(Check):
    """These tensors, where given, have one dtype."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Format(Check):
    """These tensors, where given, have no private format."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SameFormat(Check):
    """These tensors, where given, have one format."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class OneOf(Check):
    """The attribute has one of these values."""

    attr: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class InRange(Check):
    """The attribute is neither below `low` nor above `high`."""

    attr: str
    low: int
    high: int


@dataclass(frozen=True)
class Form:
    """A shape that an inferred output takes when the condition holds."""

    shape: str
    when: str = ""


@dataclass(frozen=True)
class InferShape:
    """Checks, then the shape of each output: the first of its forms whose condition holds."""

    checks: tuple[Check, ...]
    outputs: Mapping[str, tuple[Form, ...]]
    dtype_from: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Tiling:
    """Checks, then formulas for the key, the workspace in bytes and named numbers.

    Formulas may use T (tokens), aic, aiv (cores) and ub (bytes) beside the operator's symbols.
    """

    checks: tuple[Check, ...]
    workspace: str
    workspace_rule: str  # what is published: "exact", "bound" (it exceeds `bound`) or "none"
    bound: str = ""
    key: str = ""  # empty: nothing is published
    data: Mapping[str, str] = field(default_factory=dict)
    data_when: str = ""
    note: str = ""


@dataclass(frozen=True)
class OperatorSpec:
    """Everything the aclnn surface knows about one operator.

    symbols   sizes by name, as formulas over dim() and rank()
    lead      (tensor, k): the leading dimensions are those of the tensor but its last k
    op_api    by SoC, the checks of the first call in order; a SoC that is missing is unregistered
    tiling    by SoC
    unnamed_soc  by layer, the rules that a published unit test means when it names no SoC
    unnamed_tiling  those rules of tiling where they are no chip's
    """

    name: str
    doc: str
    tensors: tuple[TensorSpec, ...]
    attrs: tuple[AttrSpec, ...]
    apis: tuple[ApiSpec, ...]
    symbols: Mapping[str, str]
    lead: tuple[str, int]
    op_api: Mapping[str, tuple[Check, ...]]
    infershape: InferShape
    tiling: Mapping[str, Tiling]
    limits: Mapping[str, str]
    unnamed_soc: Mapping[str, str] = field(default_factory=dict)
    unnamed_tiling: Tiling | None = None

    def tensor(self, name: str) -> TensorSpec | None:
        """The tensor of that name in any spelling."""
        return next((t for t in self.tensors if name in t.spellings), None)

    def attr(self, name: str) -> AttrSpec | None:
        """The attribute of that name in any spelling."""
        return next((a for a in self.attrs if name and name in a.spellings), None)

    def api(self, name: str) -> ApiSpec | None:
        return next((a for a in self.apis if a.name == name), None)

    def names(self, kind: str) -> tuple[str, ...]:
        """Snake case names of all inputs or all outputs, in order."""
        return tuple(t.name for t in self.tensors if t.kind == kind)
