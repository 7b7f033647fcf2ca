"""Inputs of a numeric case, drawn as its `value_range` says, from a seed made of its name."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from ..aclnn.codes import DTYPE_NAMES
from ..aclnn.spec import OPERATORS
from ..aclnn.tensor import TORCH_DTYPES
from ..aclnn.validation import Desc
from .cases import Case, CaseFileError
from .truth import saved_by_forward

_DTYPES = {DTYPE_NAMES[number]: dtype for number, dtype in TORCH_DTYPES.items()}
_FP16_MAX = 65504.0
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANDN = re.compile(rf"(?:({NUMBER}) ?\* ?)?randn\b")
_UNIFORM = re.compile(rf"uniform ?[\[(]({NUMBER}), ?({NUMBER})[\])]")


def draw_inputs(case: Case, attrs: Mapping[str, float]) -> dict[str, Tensor | None]:
    """The case's inputs by snake case name, in their dtypes.

    Ranges: a number (constant), [low, high] (uniform), a list of values, "randn", "0.1*randn",
    "uniform [0,1)" or "from the fp32 forward"; randn where the case says nothing. Raises
    CaseFileError for any other.
    """
    table = OPERATORS[case.op]
    seed = int.from_bytes(hashlib.sha256(case.name.encode()).digest()[:7], "big")
    generator = torch.Generator().manual_seed(seed)
    ranges = _ranges(case)
    names = {spec.name: spec for spec in table.tensors if spec.kind == "input"}
    given = {spec.name: case.inputs[name] for name in case.inputs if (spec := table.tensor(name))}
    drawn: dict[str, Tensor | None] = dict.fromkeys(names)
    by_forward: list[str] = []
    for name, spec in names.items():
        desc = given.get(name)
        if desc is None:
            continue
        wanted = next((ranges[s] for s in spec.spellings if s in ranges), None)
        if _from_forward(case.op, name, wanted):
            by_forward.append(name)
            continue
        drawn[name] = _draw(case, spec.acl, desc, "randn" if wanted is None else wanted, generator)
    if by_forward:
        forward = _forward(case, given, drawn, ranges.get("bias", "0.1*randn"), attrs, generator)
        for name in by_forward:
            drawn[name] = _saved(case, name, given[name], forward, generator)
    return drawn


def _ranges(case: Case) -> dict[str, Any]:
    """value_range by tensor name; one for all stands under each input's name."""
    if case.value_range is None:
        return {}
    if not isinstance(case.value_range, dict):
        return dict.fromkeys(case.inputs, case.value_range)
    return {
        name.strip(): wanted
        for names, wanted in case.value_range.items()
        for name in names.split(",")
    }


_SAVED = {
    "MhcPreBackward": ("inv_rms", "h_mix", "h_pre", "h_post"),
    "MhcSinkhornBackward": ("norm", "sum"),
    "MhcPreSinkhornBackward": ("h_pre", "hc_before_norm", "inv_rms", "sum_out", "norm_out"),
}
"""Inputs of a backward that its forward wrote."""


def _from_forward(op: str, name: str, wanted: Any) -> bool:
    if name not in _SAVED.get(op, ()):
        return False
    return wanted is None or (isinstance(wanted, str) and "forward" in wanted)


def torch_dtype(case: Case, name: str, desc: Desc) -> torch.dtype:
    """The torch dtype of a tensor of the case; a bad case if there is none."""
    if desc.dtype not in _DTYPES:
        raise CaseFileError(f"{case.name}: {name} cannot be made as {desc.dtype}.")
    return _DTYPES[desc.dtype]


def _draw(case: Case, name: str, desc: Desc, wanted: Any, generator: torch.Generator) -> Tensor:
    dtype = torch_dtype(case, name, desc)
    count = math.prod(desc.shape)
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        values = torch.full((count,), float(wanted))
    elif _is_numbers(wanted) and len(wanted) == 2:
        values = torch.empty(count).uniform_(
            float(wanted[0]), float(wanted[1]), generator=generator
        )
    elif _is_numbers(wanted) and len(wanted) == count:
        values = torch.tensor(wanted, dtype=torch.float32)
    elif isinstance(wanted, str) and (match := _RANDN.match(wanted)):
        values = torch.randn(count, generator=generator) * float(match[1] or 1)
    elif isinstance(wanted, str) and (match := _UNIFORM.match(wanted)):
        low, high = float(match[1]), float(match[2])
        values = torch.empty(count).uniform_(low, high, generator=generator)
    else:
        raise CaseFileError(f"{case.name}: value_range of {name} is not understood: {wanted!r}.")
    if dtype is torch.float16:
        values = values.clamp(-_FP16_MAX, _FP16_MAX)
    return values.to(dtype).reshape(desc.shape)


def _is_numbers(wanted: Any) -> bool:
    return isinstance(wanted, list) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) for v in wanted
    )


def _forward(
    case: Case,
    given: Mapping[str, Desc | None],
    drawn: Mapping[str, Tensor | None],
    bias_range: Any,
    attrs: Mapping[str, float],
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """What a forward on the same inputs, and drawn ones for those it alone has, would have saved.

    Empty where the shapes fit no forward.
    """
    more: dict[str, Tensor | None] = {}
    if case.op == "MhcSinkhornBackward":
        grad = given.get("grad_y")
        more["h_res"] = _draw(case, "x", grad, "randn", generator) if grad else None
    elif given.get("phi") and drawn.get("bias") is None:
        phi = given["phi"]
        assert phi is not None
        rows = Desc("FLOAT", phi.shape[:1])
        more["bias"] = _draw(case, "bias", rows, bias_range, generator)
    with suppress(RuntimeError, IndexError, AssertionError, ZeroDivisionError):
        return saved_by_forward(case.op, {**drawn, **more}, attrs, given)
    return {}


def _saved(
    case: Case,
    name: str,
    desc: Desc | None,
    forward: Mapping[str, Tensor],
    generator: torch.Generator,
) -> Tensor:
    """A saved tensor; drawn where its shape, in a case about that, is not what a forward saves."""
    assert desc is not None
    if name in forward and forward[name].shape == desc.shape:
        return forward[name].to(torch_dtype(case, name, desc))
    return _draw(case, name, desc, "randn", generator)
