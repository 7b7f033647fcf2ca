"""Numeric cases that come with the package, made by the rules of the published tests.

Shapes are small and within the limits that ascend950 states, so that a device may be asked for all
of them; distributions are those of goldens.RANGES.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from .cases import Case
from .goldens import case_of_sizes

_SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "MhcPre": (
        {"B": 1, "S": 64, "n": 4, "D": 512},
        {"T": 37, "n": 4, "D": 256},
        {"T": 33, "n": 6, "D": 128},
        {"T": 17, "n": 8, "D": 64},
        {"T": 37, "n": 4, "D": 256, "A": 2},
    ),
    "MhcPreBackward": (
        {"B": 1, "S": 128, "n": 4, "D": 512},
        {"T": 37, "n": 4, "D": 256},
        {"T": 33, "n": 6, "D": 128},
        {"T": 17, "n": 8, "D": 64},
    ),
    "MhcPost": (
        {"T": 4, "n": 4, "D": 1024},
        {"B": 2, "S": 33, "n": 4, "D": 256},
        {"T": 16, "n": 6, "D": 128},
        {"T": 8, "n": 8, "D": 128},
    ),
    "MhcPostBackward": (
        {"T": 4, "n": 4, "D": 1024},
        {"B": 1, "S": 35, "n": 4, "D": 256},
        {"T": 16, "n": 6, "D": 128},
        {"T": 8, "n": 8, "D": 128},
    ),
    "MhcSinkhorn": ({"B": 2, "S": 33, "n": 4}, {"T": 65, "n": 6}, {"T": 17, "n": 8}),
    "MhcSinkhornBackward": ({"B": 2, "S": 33, "n": 4}, {"T": 65, "n": 6}, {"T": 17, "n": 8}),
    "MhcPreSinkhorn": ({"B": 1, "S": 9, "n": 4, "D": 4096},),
    "MhcPreSinkhornBackward": ({"B": 1, "S": 33, "n": 4, "D": 128},),
}
_LEFT_OUT = {
    "MhcPre": (("gamma",),),
    "MhcPreBackward": (("gamma",), ("grad_x_post",), ("gamma", "grad_x_post")),
    "MhcPost": (("h_res",),),
    "MhcPostBackward": (("h_res",),),
}
_NUMBERS: dict[str, tuple[dict[str, Any], ...]] = {
    "MhcPre": ({"op_impl_mode": 1},),
    "MhcPreBackward": ({"op_impl_mode": 1},),
    "MhcSinkhorn": ({"num_iters": 1}, {"eps": 1e-3}),
}


def packaged_cases() -> list[Case]:
    """The cases, operator after operator; their names say what is in them."""
    return [case for op in _SIZES for case in _cases_of(op)]


def _cases_of(op: str) -> Iterator[Case]:
    first = _SIZES[op][0]
    # Without x and its like an operator knows no 16 bits.
    dtypes = ("FLOAT16",) if op.startswith("MhcSinkhorn") else ("BFLOAT16", "FLOAT16")
    for dtype in dtypes:
        for sizes in _SIZES[op]:
            yield _named(case_of_sizes(op, sizes, dtype), sizes, dtype)
        for numbers in _NUMBERS.get(op, ()):
            yield _named(case_of_sizes(op, first, dtype, numbers), first, dtype, numbers)
        for names in _LEFT_OUT.get(op, ()):
            case = case_of_sizes(op, first, dtype)
            inputs = {name: None if name in names else d for name, d in case.inputs.items()}
            without = {"without-": "-".join(names)}
            yield _named(replace(case, inputs=inputs), first, dtype, without)


def _named(
    case: Case, sizes: Mapping[str, int], dtype: str, more: Mapping[str, Any] | None = None
) -> Case:
    kind = [] if case.op.startswith("MhcSinkhorn") else [dtype.lower()]
    parts = [f"{key}{value}" for key, value in {**sizes, **(more or {})}.items()]  # fit for -k
    return replace(case, name="-".join((case.op, *parts, *kind)))
