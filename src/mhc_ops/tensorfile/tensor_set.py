"""What a tensor file holds, and how its dtypes and attributes are spelled."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import FileError

Attr = float | int | str | bool | None

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bfloat16,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.bool,
    )
}
"""Dtypes by the name that files carry."""

_ALIASES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
}


class TensorSet(NamedTuple):
    """Named tensors, the operator they are for, and its attributes (hc_eps and the like)."""

    tensors: dict[str, Tensor]
    op: str | None = None
    attrs: Mapping[str, Attr] = {}


class Stored(NamedTuple):
    """Where a tensor's bytes lie: little-endian and row-major, from `offset` in `file` on."""

    file: Path
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class StoredSet(NamedTuple):
    """A tensor set that was not read: where its tensors lie."""

    tensors: dict[str, Stored]
    op: str | None = None
    attrs: Mapping[str, Attr] = {}


class Blank(NamedTuple):
    """A tensor still to be written."""

    dtype: torch.dtype
    shape: tuple[int, ...]


def dtype_of(name: object) -> torch.dtype:
    """The dtype of a name in a file; upper or lower case, short forms (BF16, float, ..) too."""
    key = name.lower() if isinstance(name, str) else ""
    found = DTYPES.get(_ALIASES.get(key, key))
    if found is None:
        raise FileError(f"unknown dtype {name!r}; known are {', '.join(DTYPES)}")
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype in a file."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise FileError(f"dtype {name} has no raw form here; known are {', '.join(DTYPES)}")
    return name


def attrs_of(text: object) -> dict[str, Attr]:
    """Attributes from a JSON object, given as text or already parsed."""
    values = parse_json(text) if isinstance(text, str) else text
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise FileError(f"attributes must be a JSON object, got {type(values).__name__}")
    for name, value in values.items():
        if not isinstance(value, float | int | str | None):
            raise FileError(f"attribute {name} must be a number or a string, got {value!r}")
    return values


def attr_of(text: str) -> Attr:
    """The value of an attribute written as text: a JSON value where it is one, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, float | int | str | None) else text


def parse_json(text: str | bytes) -> Any:
    """json.loads whose error is a FileError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(f"not JSON: {error}") from error
