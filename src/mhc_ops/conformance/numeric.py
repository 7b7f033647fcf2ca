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
from ..testing.budgets import round_to, rounding_budget, unit_roundoff
from .cases import Case, CaseFileError
from .criteria import Tolerance, judge, published_tolerance
from .draws import NUMBER, draw_inputs, torch_dtype
from .layers import Finding, api_of, first_phase, status_problem
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
            criterion = "pre-sinkhorn" if case.op == "MhcPreSinkhorn" else "framework"
            stated = tolerances.get(name, published_tolerance(case.op, name))
            verdict = judge(
                outputs[name],
                _overflowing(truth[name], outputs[name].dtype),
                criterion,
                name=name,
                tolerance=_attainable(case, name, stated, outputs[name], inputs, truth[name]),
                same_dtype=False,
            )
            if not verdict:
                problems.append(f"{name}: {verdict.reason} ({verdict.rule})")
    if zeros == "all zeros" and inputs.get("gamma") is None and outputs["grad_gamma"].any():
        problems.append("grad_gamma is not all zeros without gamma")
    return Finding("; ".join(problems), tuple(expected))


def _overflowing(truth: Tensor, dtype: torch.dtype) -> Tensor:
    """The truth with infinities where it is beyond the output's dtype: no result saturates."""
    rounded = round_to(truth, dtype)
    return torch.where(rounded.isinf(), rounded.double(), truth)


def _attainable(
    case: Case,
    name: str,
    stated: float | None,
    got: Tensor,
    inputs: Inputs,
    truth: Tensor,
) -> Tolerance:
    """Absolute and relative tolerance: what is stated, but no less than FP32 can attain.

    The published tests compare with results of the same dtype, so some state 1e-4 for BF16, which
    one rounding exceeds: the relative part is at least that rounding. And they draw x of
    MhcPreSinkhorn up to 1e5: sums of n*D products reach 1e5 and cancel, and where little is left no
    FP32 accumulation is within 1e-4: the absolute part is at least what adding them costs.
    """
    own = 1e-3 if got.dtype is torch.float16 else 1e-4
    tolerance = own if stated is None else stated
    absolute = relative = tolerance
    if got.dtype in (torch.float16, torch.bfloat16):
        relative = max(relative, unit_roundoff(got.dtype))
    phi = inputs.get("phi")
    if case.op == "MhcPreSinkhorn" and name == "hc_before_norm" and phi is not None:
        cost = rounding_budget(got.dtype, phi.shape[1]) * float(truth.abs().max())
        absolute = max(absolute, cost)
    return absolute, relative


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
