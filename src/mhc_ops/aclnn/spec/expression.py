"""The small language of the operator tables: integer formulas and conditions written as text.

A formula is a Python expression made of integers, symbols (`n`, `D`), + - * // %, comparisons,
`in` with a tuple, `and`, `or`, `not`, `a if c else b` and calls:
    fact(n)          n!, saturating at 2^63 - 1, which no dimension reaches
    align(v, unit)   v rounded up to a multiple of unit
    ceil_div(a, b)   a / b rounded up
    min, max
    rank(t)          number of dimensions of tensor t
    dim(t, i)        its i-th dimension, negative i from the end
    size(t)          its number of elements
    given(t)         1 if tensor t is not null, else 0
    unknown_rank(t)  1 if t is given and its rank is unknown ([-2]), else 0
    unknown_dim(t)   1 if t is given and one of its dimensions is unknown (-1), else 0
Text rather than code, so that a generator for another language can read the same tables.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

_INT64_MAX = 2**63 - 1

_BINARY: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
}


class Values(Protocol):
    """Where a formula finds its values."""

    def symbol(self, name: str) -> int: ...

    def rank(self, tensor: str) -> int: ...

    def dim(self, tensor: str, index: int) -> int: ...

    def size(self, tensor: str) -> int: ...

    def given(self, tensor: str) -> bool: ...

    def unknown_rank(self, tensor: str) -> bool: ...

    def unknown_dim(self, tensor: str) -> bool: ...


def _fact(n: int) -> int:
    return math.factorial(n) if 0 <= n <= 20 else _INT64_MAX


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "fact": _fact,
    "align": lambda value, unit: -(-value // unit) * unit,
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}
_OF_A_TENSOR = ("rank", "size", "given", "unknown_rank", "unknown_dim")


@cache
def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def evaluate(text: str, values: Values) -> int:
    """Value of the formula `text`; conditions give 1 or 0."""
    return int(_value(_parse(text), values))


def symbols(text: str) -> list[str]:
    """Symbols of a formula in order of appearance, tensor names and functions left out."""
    found: list[str] = []
    hidden: set[int] = set()
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            hidden.add(id(node.func))
            if node.func.id in (*_OF_A_TENSOR, "dim"):
                hidden.add(id(node.args[0]))
        elif isinstance(node, ast.Name) and id(node) not in hidden and node.id not in found:
            found.append(node.id)
    return found


def _value(node: ast.AST, values: Values) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values.symbol(node.id)
    if isinstance(node, ast.Tuple):
        return tuple(_value(item, values) for item in node.elts)
    if isinstance(node, ast.BinOp):
        return _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp):
        operand = _value(node.operand, values)
        return not operand if isinstance(node.op, ast.Not) else -operand
    if isinstance(node, ast.BoolOp):
        stop = isinstance(node.op, ast.Or)
        for item in node.values:
            if bool(_value(item, values)) is stop:
                return stop
        return not stop
    if isinstance(node, ast.Compare):
        left = _value(node.left, values)
        for op, item in zip(node.ops, node.comparators, strict=True):
            right = _value(item, values)
            if not _COMPARE[type(op)](left, right):
                return False
            left = right
        return True
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, values) else node.orelse, values)
    if isinstance(node, ast.Call):
        return _call(node, values)
    raise ValueError(f"{ast.unparse(node)!r} is not part of the table language")


def _call(node: ast.Call, values: Values) -> int:
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*(_value(item, values) for item in node.args))
    tensor = node.args[0]
    assert isinstance(tensor, ast.Name)
    if name in _OF_A_TENSOR:
        return int(getattr(values, name)(tensor.id))
    if name == "dim":
        return values.dim(tensor.id, int(_value(node.args[1], values)))
    raise ValueError(f"unknown function {name!r} in the table language")
