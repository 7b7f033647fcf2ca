"""Case files: reading them, and refusing what is not one with a sentence that says where.

A file is a JSON list of cases. Required keys: name, op, layer (op_api, infershape, tiling or st),
inputs, expect. Optional: soc, api, rule, attrs, outputs, expect_outputs, expect_by_code,
value_range, platform, stale, note, workspaceSize and executor (null is a null pointer). Further
keys are ignored. A tensor is {"dtype", "shape"[, "format"]} or null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..aclnn.codes import DTYPE_NAMES, FORMAT_NAMES, STATUS_BY_NAME
from ..aclnn.host import is_of_type
from ..aclnn.spec import OPERATORS
from ..aclnn.validation import Desc
from ..errors import ArgumentError

LAYERS = ("op_api", "infershape", "tiling", "st")
EXPECTATIONS = (*STATUS_BY_NAME, "NOT_SUCCESS", "NOT_PARAM_INVALID", "ERROR")

_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
_MISSING = object()


class CaseFileError(ArgumentError):
    """A case file that cannot be read or does not have the format."""


@dataclass(frozen=True)
class Case:
    """One case as read; tensors by the names the file uses."""

    name: str
    op: str
    layer: str
    soc: str
    api: str
    rule: str
    inputs: Mapping[str, Desc | None]
    attrs: Mapping[str, Any]
    outputs: Mapping[str, Desc | None]
    expect: str
    expect_by_code: str
    expect_outputs: Mapping[str, Any]
    value_range: Any
    platform: Mapping[str, int]
    stale: bool
    note: str
    null_handles: tuple[str, ...]


def load_cases(path: str | Path) -> list[Case]:
    """The cases of a file. Raises CaseFileError with one sentence for a file that is none."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseFileError(f"{path}: cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CaseFileError(f"{path}: is not JSON: {error}.") from None
    if not isinstance(content, list):
        raise CaseFileError(f"{path}: expected a list of cases, got {_kind(content)}.")
    return [_read_case(f"{path}: case {i}", entry) for i, entry in enumerate(content)]


def parse_case(entry: Any, where: str = "case") -> Case:
    """One case from its JSON value. Raises CaseFileError; `where` begins its message."""
    return _read_case(where, entry)


def _read_case(where: str, entry: Any) -> Case:
    if not isinstance(entry, dict):
        raise CaseFileError(f"{where}: expected an object, got {_kind(entry)}.")
    name = _get(where, entry, "name", str)
    where = f"{where} ({name})"
    op = _get(where, entry, "op", str)
    layer = _one_of(where, "layer", _get(where, entry, "layer", str), LAYERS)
    case = Case(
        name=name,
        op=op,
        layer=layer,
        soc=_get(where, entry, "soc", str, "default"),
        api=_get(where, entry, "api", str, "") or "",
        rule=_get(where, entry, "rule", str, ""),
        inputs=_tensors(where, "inputs", _get(where, entry, "inputs", dict), layer),
        attrs=_get(where, entry, "attrs", dict, {}),
        outputs=_tensors(where, "outputs", _get(where, entry, "outputs", dict, {}), layer),
        expect=_expectation(where, "expect", _get(where, entry, "expect", str)),
        expect_by_code=_expectation(
            where, "expect_by_code", _get(where, entry, "expect_by_code", str, "")
        ),
        expect_outputs=_get(where, entry, "expect_outputs", dict, {}),
        value_range=entry.get("value_range"),
        platform=_get(where, entry, "platform", dict, {}),
        stale=_get(where, entry, "stale", bool, False),
        note=_get(where, entry, "note", str, ""),
        null_handles=tuple(
            key for key in ("workspaceSize", "executor") if entry.get(key, "") is None
        ),
    )
    _check_names(where, case)
    return case


def _check_names(where: str, case: Case) -> None:
    """Names must be the operator's; an operator that is not known is not looked into."""
    table = OPERATORS.get(case.op)
    if table is None:
        return
    for kind, tensors in (("input", case.inputs), ("output", case.outputs)):
        for name in tensors:
            spec = table.tensor(name)
            if spec is None or spec.kind != kind:
                raise CaseFileError(
                    f"{where}: {name!r} is no {kind} of {case.op}; "
                    f"they are {', '.join(table.names(kind))}."
                )
    if case.api:
        _one_of(where, "api", case.api, tuple(api.name for api in table.apis))
    taken = api.parameters if (api := table.api(case.api)) else tuple(a.name for a in table.attrs)
    for name, value in case.attrs.items():
        attr = table.attr(name)
        if attr is None:
            names = ", ".join(a.name for a in table.attrs)
            raise CaseFileError(
                f"{where}: {name!r} is no attribute of {case.op}; they are {names}."
            )
        if not is_of_type(value, attr.type):
            kind = "true or false" if attr.type == "bool" else f"a {attr.type} number"
            raise CaseFileError(f"{where}: attribute {name!r} must be {kind}, got {_kind(value)}.")
        if attr.acl and attr.name not in taken and value != attr.default:
            raise CaseFileError(f"{where}: {case.api} does not take {name!r}.")


def _get(where: str, entry: dict[str, Any], key: str, kind: type, default: Any = _MISSING) -> Any:
    value = entry.get(key, default)
    if value is _MISSING:
        raise CaseFileError(f"{where}: the key {key!r} is missing.")
    if value is default or (value is None and default is not _MISSING):
        return default
    if not isinstance(value, kind):
        raise CaseFileError(f"{where}: {key!r} must be {_KINDS[kind]}, got {_kind(value)}.")
    return value


def _one_of(where: str, key: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise CaseFileError(f"{where}: {key!r} must be one of {', '.join(allowed)}, got {value!r}.")
    return value


def _expectation(where: str, key: str, value: str) -> str:
    short = value.removeprefix("ACLNN_").removeprefix("ERR_")
    return _one_of(where, key, short, EXPECTATIONS) if value else ""


def _tensors(where: str, key: str, values: dict[str, Any], layer: str) -> dict[str, Desc | None]:
    return {name: _tensor(f"{where}: {key} {name}", t, layer) for name, t in values.items()}


def _tensor(where: str, value: Any, layer: str) -> Desc | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CaseFileError(f"{where}: expected an object or null, got {_kind(value)}.")
    dtype = _get(where, value, "dtype", str).removeprefix("ACL_")
    dtype = "BFLOAT16" if dtype == "BF16" else dtype
    _one_of(where, "dtype", dtype, tuple(DTYPE_NAMES.values()))
    shape = _get(where, value, "shape", list)
    form = _get(where, value, "format", str, "ND").removeprefix("ACL_FORMAT_")
    _one_of(where, "format", form, tuple(FORMAT_NAMES.values()))
    lowest = -2 if layer in ("infershape", "tiling") else 0
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or size < lowest:
            raise CaseFileError(
                f"{where}: 'shape' must hold integers of at least {lowest}, got {shape}."
            )
    return Desc(dtype, tuple(shape), form)


def _kind(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return _KINDS[type(value)]
