"""The two phases of every aclnn call: all validation first, then one execution."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from .codes import (
    ACLNN_ERR_PARAM_INVALID,
    ACLNN_ERR_PARAM_NULLPTR,
    ACLNN_ERR_RUNTIME_ERROR,
    ACLNN_SUCCESS,
    STATUS_BY_NAME,
)
from .errors import record_error
from .host import is_of_type, operator, workspace_bytes
from .platform import current_soc
from .runtime import aclrtStream
from .spec.language import ApiSpec, OperatorSpec
from .tensor import aclTensor
from .validation import Call, Failure, first_failure


class _Out(enum.Enum):
    OUT = "OUT"


OUT: Final = _Out.OUT
"""Stands for the address of a result variable; None in its place is a null pointer."""

Handle = _Out | None
Views = dict[str, Tensor | None]
"""Inputs and outputs by snake case name, as torch tensors on the caller's memory."""


def required(views: Views, name: str) -> Tensor:
    """A tensor that the checks have found to be given."""
    tensor = views[name]
    assert tensor is not None
    return tensor


Compute = Callable[[Views, Mapping[str, float]], None]
"""The math of an operator: reads the inputs among the views and writes the outputs."""


@dataclass
class aclOpExecutor:
    """A validated call, good for one execution."""

    api: str
    compute: Compute
    tensors: dict[str, aclTensor | None]
    attrs: dict[str, float | int]
    soc: str
    workspace_size: int
    empty: bool
    """An input is empty: the call is good and its second phase writes nothing."""
    used: bool = field(default=False)


FirstPhase = tuple[int, int, aclOpExecutor | None]
"""status, workspaceSize in bytes, executor; (code, 0, None) on an error."""


def first_phase(
    op: str,
    api: str,
    arguments: tuple[aclTensor | float | None, ...],
    handles: tuple[Handle, Handle],
    compute: Compute,
) -> FirstPhase:
    """Validate a call by its operator's table and make its executor.

    Args:
        op, api: names of the operator and of the pair of calls.
        arguments: values in the order of the published prototype, without the two handles.
        handles: workspaceSize and executor, OUT or None.
        compute: what the second phase runs.
    """
    table = operator(op)
    prototype = table.api(api)
    assert prototype is not None
    tensors, attrs = _arguments(table, prototype, arguments)
    chip = current_soc()
    call = Call(
        table,
        api,
        {name: t.desc if t else None for name, t in tensors.items()},
        attrs,
        handles=dict(
            zip(("workspaceSize", "executor"), (h is not None for h in handles), strict=True)
        ),
    )
    failure: Failure | None
    destroyed = [name for name, t in tensors.items() if t and t.destroyed]
    if chip not in table.op_api:
        failure = Failure("PARAM_INVALID", f"{api}: not registered for {chip}.")
    elif destroyed:
        failure = Failure("PARAM_INVALID", f"{api}: {call.spelled(destroyed[0])} was destroyed.")
    else:
        failure = first_failure(call, table.op_api[chip])
    empty = failure is not None and failure.code == "SUCCESS"
    if failure and not empty:
        record_error(failure.message)
        return STATUS_BY_NAME[failure.code], 0, None
    record_error("")
    size = 0 if empty else workspace_bytes(call, chip)
    return ACLNN_SUCCESS, size, aclOpExecutor(api, compute, tensors, attrs, chip, size, empty)


def _arguments(
    table: OperatorSpec, prototype: ApiSpec, arguments: tuple[aclTensor | float | None, ...]
) -> tuple[dict[str, aclTensor | None], dict[str, float | int]]:
    tensors: dict[str, aclTensor | None] = {}
    attrs: dict[str, float | int] = {a.name: a.default for a in table.attrs}
    for name, value in zip(prototype.parameters, arguments, strict=True):
        if table.tensor(name) is None:
            attrs[name] = _number(table, prototype.name, name, value)
            continue
        if value is not None and not isinstance(value, aclTensor):
            advice = "; wrap it with from_torch" if isinstance(value, Tensor) else ""
            raise TypeError(
                f"{prototype.name}: {name} must be an aclTensor or None, "
                f"got {type(value).__name__}{advice}."
            )
        tensors[name] = value
    return tensors, attrs


def _number(table: OperatorSpec, api: str, name: str, value: object) -> float | int:
    spec = table.attr(name)
    assert spec is not None
    if not is_of_type(value, spec.type):
        raise TypeError(f"{api}: {spec.acl} must be of type {spec.type}, got {value!r}.")
    assert isinstance(value, (int, float))
    return value


def second_phase(
    api: str,
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None,
) -> int:
    """Run a validated call once and write its results.

    Returns 161001 for a null executor; 161002 for one of another call or already used, and for a
    workspace that is null or shorter than the first phase asked; 361001 for a failure while
    running; else 0.
    """
    if not isinstance(workspace, (Tensor, type(None))):
        got = type(workspace).__name__
        raise TypeError(f"{api}: workspace must be a uint8 torch tensor or None, got {got}.")
    if not isinstance(executor, (aclOpExecutor, type(None))):
        got = type(executor).__name__
        raise TypeError(f"{api}: executor must come from {api}GetWorkspaceSize, got {got}.")
    if executor is None:
        record_error(f"{api}: executor must not be a null pointer.")
        return ACLNN_ERR_PARAM_NULLPTR
    problem = ""
    available = 0 if workspace is None else workspace.numel() * workspace.element_size()
    needed = executor.workspace_size
    if executor.api != api:
        problem = f"executor belongs to {executor.api}; call that or make one for {api}"
    elif executor.used:
        problem = "executor was already used; make a new one with the first call"
    elif workspaceSize < needed:
        problem = f"workspaceSize must be at least {needed} bytes, got {workspaceSize}"
    elif available < needed:
        problem = f"workspace must have {needed} bytes, got {available or 'a null pointer'}"
    if problem:
        record_error(f"{api}: {problem}.")
        return ACLNN_ERR_PARAM_INVALID
    executor.used = True
    record_error("")
    if executor.empty:
        return ACLNN_SUCCESS
    try:
        with _on(stream), torch.no_grad():
            views = {n: None if t is None else t.view() for n, t in executor.tensors.items()}
            executor.compute(views, executor.attrs)
    except Exception as error:  # a status code is the published answer to any failure here
        record_error(f"{api}: failed while running: {error}")
        return ACLNN_ERR_RUNTIME_ERROR
    return ACLNN_SUCCESS


def _on(stream: aclrtStream | None) -> AbstractContextManager[object]:
    if isinstance(stream, torch.cuda.Stream):
        return torch.cuda.stream(stream)
    if stream is not None and (not isinstance(stream, aclrtStream) or stream.destroyed):
        raise RuntimeError("stream must be an aclrtStream that was not destroyed, or None")
    return nullcontext()
