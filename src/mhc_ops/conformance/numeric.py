"""Numeric cases: run both phases on drawn inputs and judge the outputs against float64."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import aclnn
from ..aclnn.host import attributes
from ..aclnn.spec.language import OperatorSpec, TensorSpec
from .cases import Case, CaseFileError
from .criteria import judge, published_tolerance
from .draws import NUMBER, draw_inputs, torch_dtype
from .layers import Finding, api_of, first_phase, status_problem
from .tolerances import attainable, overflowing, published_criterion
from .truth import TRUTHS

Inputs = dict[str, Tensor | None]
Outputs = dict[str, Tensor]


def st(case: Case, table: OperatorSpec) -> Finding:
    case, slips = without_slips(case)
    attrs = attributes(table, case.attrs)
    inputs = draw_inputs(case, attrs)
    outputs = _unwritten_outputs(case, table)
    handles = {n: None if t is None else aclnn.from_torch(t) for n, t in inputs.items()}
    handles |= {n: aclnn.from_torch(t) for n, t in outputs.items()}
    status, size, executor = first_phase(case, table, handles)
    if status == aclnn.ACLNN_SUCCESS:
        run = getattr(aclnn, api_of(case, table).name)
        status = run(torch.empty(size, dtype=torch.uint8), size, executor, None)
    problem = status_problem(case, status, aclnn.aclGetRecentErrMsg() if status else "")
    if problem or status != aclnn.ACLNN_SUCCESS:
        return Finding(problem)
    finding = _judge_outputs(case, table, inputs, outputs, attrs)
    return replace(finding, unasserted=(*slips, *finding.unasserted))


def without_slips(case: Case) -> tuple[Case, tuple[str, ...]]:
    """The case as meant, and what in it is not taken as written.

    A published framework test of MhcPostBackward gives gradOutput without the stream axis and
    expects success; the other tests of its file require the shape of x.
    """
    grad_y, x = case.inputs.get("gradOutput"), case.inputs.get("x")
    if case.op != "MhcPostBackward" or case.expect != "SUCCESS" or not grad_y or not x:
        return case, ()
    if grad_y.shape != (*x.shape[:-2], *x.shape[-1:]):
        return case, ()
    inputs = {**case.inputs, "gradOutput": grad_y._replace(shape=x.shape)}
    return replace(case, inputs=inputs), ("shape of gradOutput, read as that of x",)


def _unwritten_outputs(case: Case, table: OperatorSpec) -> Outputs:
    """The case's outputs, full of NaN, so that what is never written cannot pass."""
    outputs: Outputs = {}
    for name, desc in case.outputs.items():
        if desc is not None:
            memory = torch.zeros(desc.shape, dtype=torch_dtype(case, name, desc))
            outputs[_output(case, table, name).name] = (
                memory.fill_(torch.nan) if memory.is_floating_point() else memory
            )
    return outputs


def _judge_outputs(
    case: Case, table: OperatorSpec, inputs: Inputs, outputs: Outputs, attrs: dict[str, Any]
) -> Finding:
    expected = dict(case.expect_outputs)
    by_output = expected.pop("tolerance", None) or {}
    listed = expected.pop("checked_outputs", None) or ()
    if not isinstance(by_output, dict) or not isinstance(listed, (list, tuple)):
        raise CaseFileError(f"{case.name}: tolerance must be an object and checked_outputs a list.")
    tolerances = {
        _output(case, table, key).name: _tolerance(case, key, value, outputs)
        for key, value in by_output.items()
    }
    checked = listed or (*tolerances, *outputs)
    zeros = expected.pop("gradGamma_without_gamma", None)

    truth = TRUTHS[case.op](inputs, attrs)
    problems: list[str] = []
    for name in dict.fromkeys(_output(case, table, key).name for key in checked):
        if name not in outputs:
            problems.append(f"bad case: {name} is to be checked but null")
        elif name in truth and not truth[name].isfinite().all():
            problems.append(f"bad case: the float64 truth of {name} is not finite")
        elif name in truth:
            stated = tolerances.get(name, published_tolerance(case.op, name))
            verdict = judge(
                outputs[name],
                overflowing(truth[name], outputs[name].dtype),
                published_criterion(case.op),
                name=name,
                tolerance=attainable(case.op, name, stated, outputs[name], inputs, truth[name]),
                same_dtype=False,
            )
            if not verdict:
                problems.append(f"{name}: {verdict.reason} ({verdict.rule})")
    if zeros == "all zeros" and inputs.get("gamma") is None and outputs["grad_gamma"].any():
        problems.append("grad_gamma is not all zeros without gamma")
    return Finding("; ".join(problems), tuple(expected))


def _output(case: Case, table: OperatorSpec, key: str) -> TensorSpec:
    spec = table.tensor(key)
    if spec is None or spec.kind != "output":
        raise CaseFileError(f"{case.name}: {key!r} is no output of {case.op}.")
    return spec


def _tolerance(case: Case, key: str, value: Any, outputs: Outputs) -> float:
    """A number, or a text such as "fp16 1e-3 / bf16 1e-4", read by the dtype of x's kind."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    bf16 = any(t.dtype is torch.bfloat16 for t in outputs.values())
    kind = "bf16" if bf16 else "fp16"
    match = re.search(rf"{kind} ({NUMBER})", value) if isinstance(value, str) else None
    if match is None:
        raise CaseFileError(f"{case.name}: tolerance of {key} is not understood: {value!r}.")
    return float(match[1])
