"""Runs cases against the aclnn surface, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import factorial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import aclnn
from ..aclnn.codes import DTYPE_NAMES, FORMAT_NAMES, STATUS_BY_NAME
from ..aclnn.executor import Handle
from ..aclnn.host import attributes
from ..aclnn.spec import OPERATORS, SOCS
from ..aclnn.spec.language import OperatorSpec, TensorSpec
from ..aclnn.validation import Desc
from .cases import Case, CaseFileError, load_cases
from .criteria import judge, published_tolerance
from .draws import NUMBER, TORCH_DTYPES, draw_inputs
from .report import Outcome, Report
from .truth import TRUTHS

_DTYPE_NUMBERS = {name: number for number, name in DTYPE_NAMES.items()}
_FORMAT_NUMBERS = {name: number for number, name in FORMAT_NAMES.items()}


@dataclass(frozen=True)
class _Finding:
    """What differs, empty if nothing; and the expected keys that could not be judged."""

    problem: str = ""
    unasserted: tuple[str, ...] = ()


def run_files(
    paths: Iterable[str | Path], progress: Callable[[int, int], None] | None = None
) -> Report:
    """Run every case of the files.

    Args:
        paths: case files; all are read and checked before any case runs.
        progress: called with (cases done, cases in all) after each case.
    Raises CaseFileError, in one sentence, for a file that is not a case file.
    """
    return run_cases([case for path in paths for case in load_cases(path)], progress)


def run_cases(cases: Sequence[Case], progress: Callable[[int, int], None] | None = None) -> Report:
    """Run cases in order; arguments as for `run_files`."""
    report = Report()
    for done, case in enumerate(cases, start=1):
        report.outcomes.append(run_case(case))
        if progress:
            progress(done, len(cases))
    return report


def run_case(case: Case) -> Outcome:
    """Run one case."""

    def outcome(result: str, reason: str = "", unasserted: tuple[str, ...] = ()) -> Outcome:
        return Outcome(case.name, case.op, case.layer, case.soc, result, reason, unasserted)

    table = OPERATORS.get(case.op)
    if table is None:
        return outcome("skipped", f"operator {case.op} does not exist here")
    chip = table.unnamed_soc.get(case.layer, "ascend950") if case.soc == "default" else case.soc
    reason = _reason_to_skip(case, chip)
    if reason:
        return outcome("skipped", reason)
    run = {"op_api": _op_api, "infershape": _infershape, "tiling": _tiling, "st": _st}[case.layer]
    with aclnn.soc(chip):
        finding = run(case, table, chip)
    if finding.problem:
        return outcome("failed", finding.problem, finding.unasserted)
    return outcome("passed", "", finding.unasserted)


def _reason_to_skip(case: Case, chip: str) -> str:
    if case.stale:
        return f"stale: {case.note}" if case.note else "stale"
    if chip not in SOCS:
        return f"no rules are known for soc {chip}"
    if case.layer != "tiling":
        return ""
    if "ub" in case.rule.split("_"):
        return "about ub_size: no rule is published"
    x, phi = case.inputs.get("x"), case.inputs.get("phi")
    if x and phi and len(x.shape) >= 2 and len(phi.shape) == 2 and 0 < x.shape[-2] <= 20:
        n = x.shape[-2]
        if phi.shape[0] - 2 * n not in (n * n, factorial(n), 0):
            return "phi rows other than f in tiling: no rule is published"
    return ""


def _status_problem(case: Case, status: int, message: str) -> str:
    """How the status differs from what the case, and the newest source, expect."""
    wanted = [case.expect]
    # A unit test that names its code outranks the source.
    if case.expect_by_code and case.expect not in STATUS_BY_NAME:
        wanted.append(case.expect_by_code)
    for expected in wanted:
        if not _matches(expected, status):
            told = f": {message}" if message else ""
            return f"expected {expected}, got {_status_name(case.layer, status)}{told}"
    return ""


def _matches(expected: str, status: int) -> bool:
    if expected in ("NOT_SUCCESS", "ERROR"):
        return status != 0
    if expected == "NOT_PARAM_INVALID":
        return status != STATUS_BY_NAME["PARAM_INVALID"]
    return status == STATUS_BY_NAME[expected]


def _status_name(layer: str, status: int) -> str:
    graph = layer in ("infershape", "tiling")
    names = [
        name
        for name, code in STATUS_BY_NAME.items()
        if code == status and name.startswith("GRAPH_") is graph
    ]
    return names[0] if names else str(status)


def _infershape(case: Case, table: OperatorSpec, chip: str) -> _Finding:
    result = aclnn.infer_shape(case.op, case.inputs, case.attrs)
    problem = _status_problem(case, result.status, result.message)
    if problem or result.status != aclnn.GRAPH_SUCCESS:
        return _Finding(problem)
    unasserted: list[str] = []
    problems: list[str] = []
    for key, expected in case.expect_outputs.items():
        spec = table.tensor(key)
        if spec is None or spec.name not in result.shapes:
            unasserted.append(key)
        elif list(result.shapes[spec.name]) != expected:
            problems.append(f"{key} is {list(result.shapes[spec.name])}, expected {expected}")
    return _Finding("; ".join(problems), tuple(unasserted))


def _tiling(case: Case, table: OperatorSpec, chip: str) -> _Finding:
    try:
        result = aclnn.tiling(
            case.op, case.inputs, case.outputs, case.attrs, chip, platform=case.platform
        )
    except ValueError as error:
        raise CaseFileError(f"{case.name}: {error}") from None
    problem = _status_problem(case, result.status, result.message)
    if problem or result.status != aclnn.GRAPH_SUCCESS:
        return _Finding(problem)
    known: dict[str, int] = dict(result.data)
    if result.tiling_key is not None:
        known["tiling_key"] = result.tiling_key
    if result.workspace_rule == "exact":
        known["workspace"] = result.workspace
    unasserted: list[str] = []
    problems: list[str] = []
    for key, expected in case.expect_outputs.items():
        if key == "workspace_greater_than" and result.workspace_rule != "none":
            if result.workspace <= expected:
                problems.append(f"workspace is {result.workspace}, expected more than {expected}")
        elif key not in known:
            unasserted.append(key)
        elif known[key] != expected:
            problems.append(f"{key} is {known[key]}, expected {expected}")
    return _Finding("; ".join(problems), tuple(unasserted))


def _op_api(case: Case, table: OperatorSpec, chip: str) -> _Finding:
    tensors = {
        spec.name: _bare(desc)
        for name, desc in {**case.inputs, **case.outputs}.items()
        if (spec := table.tensor(name))
    }
    status, _, _ = _first_phase(case, table, tensors)
    problem = _status_problem(case, status, aclnn.aclGetRecentErrMsg() if status else "")
    return _Finding(problem, () if problem else tuple(case.expect_outputs))


def _bare(desc: Desc | None) -> aclnn.aclTensor | None:
    """A contiguous tensor without memory, enough for every check."""
    if desc is None:
        return None
    dtype, form = _DTYPE_NUMBERS[desc.dtype], _FORMAT_NUMBERS[desc.format]
    return aclnn.aclCreateTensor(desc.shape, dtype, None, 0, form, desc.shape, None)


def _first_phase(
    case: Case, table: OperatorSpec, tensors: dict[str, aclnn.aclTensor | None]
) -> tuple[int, int, aclnn.aclOpExecutor | None]:
    attrs = attributes(table, case.attrs)
    prototype = table.api(_api_name(case, table))
    assert prototype is not None
    arguments = [tensors.get(p) if table.tensor(p) else attrs[p] for p in prototype.parameters]
    handles: dict[str, Handle] = dict.fromkeys(case.null_handles)
    call = getattr(aclnn, f"{prototype.name}GetWorkspaceSize")
    result: tuple[int, int, aclnn.aclOpExecutor | None] = call(*arguments, **handles)
    return result


def _api_name(case: Case, table: OperatorSpec) -> str:
    """The pair of calls the case means: named, or the newest one that takes its attributes."""
    if case.api:
        return case.api
    names = {spec.name for name in case.attrs if (spec := table.attr(name)) and spec.acl}
    fitting = [api.name for api in table.apis if names <= set(api.parameters)]
    return fitting[0]


def _st(case: Case, table: OperatorSpec, chip: str) -> _Finding:
    attrs = attributes(table, case.attrs)
    inputs = draw_inputs(case, attrs)
    outputs = {
        spec.name: torch.full(desc.shape, torch.nan, dtype=TORCH_DTYPES[desc.dtype])
        for name, desc in case.outputs.items()
        if desc is not None and (spec := table.tensor(name))
    }
    tensors = {
        name: None if t is None else aclnn.from_torch(t)
        for name, t in {**inputs, **outputs}.items()
    }
    status, size, executor = _first_phase(case, table, tensors)
    if status == aclnn.ACLNN_SUCCESS:
        workspace = torch.empty(size, dtype=torch.uint8)
        run = getattr(aclnn, _api_name(case, table))
        status = run(workspace, size, executor, None)
    problem = _status_problem(case, status, aclnn.aclGetRecentErrMsg() if status else "")
    if problem or status != aclnn.ACLNN_SUCCESS:
        return _Finding(problem)
    return _compare(case, table, inputs, outputs, attrs)


def _compare(
    case: Case,
    table: OperatorSpec,
    inputs: dict[str, Tensor | None],
    outputs: dict[str, Tensor],
    attrs: dict[str, Any],
) -> _Finding:
    wide = {name: None if t is None else t.double() for name, t in inputs.items()}
    truth = TRUTHS[case.op](wide, attrs)
    known = {
        "tolerance": case.expect_outputs.get("tolerance") or {},
        "checked_outputs": case.expect_outputs.get("checked_outputs"),
        "gradGamma_without_gamma": case.expect_outputs.get("gradGamma_without_gamma"),
    }
    unasserted = tuple(key for key in case.expect_outputs if key not in known)
    tolerances = {
        spec.name: _tolerance(case, key, value, outputs.get(spec.name))
        for key, value in known["tolerance"].items()
        if (spec := _output(case, table, key))
    }
    checked = known["checked_outputs"]
    names = (
        [spec.name for key in checked if (spec := _output(case, table, key))]
        if checked
        else (list(dict.fromkeys((*tolerances, *outputs))))
    )
    problems: list[str] = []
    for name in names:
        spec = table.tensor(name)
        assert spec is not None
        if name not in outputs:
            problems.append(f"bad case: {spec.acl} has a tolerance but is null")
            continue
        if name not in truth:
            continue
        want = truth[name]
        if not want.isfinite().all():
            problems.append(f"bad case: the float64 truth of {spec.acl} is not finite")
            continue
        tolerance = tolerances.get(name, published_tolerance(case.op, name))
        verdict = judge(
            outputs[name], want, "framework", name=name, tolerance=tolerance, same_dtype=False
        )
        if not verdict:
            problems.append(f"{spec.acl}: {verdict.reason} ({verdict.rule})")
    if known["gradGamma_without_gamma"] == "all zeros" and inputs.get("gamma") is None:
        grad_gamma = outputs.get("grad_gamma")
        if grad_gamma is not None and grad_gamma.any():
            problems.append("gradGamma is not all zeros without gamma")
    return _Finding("; ".join(problems), unasserted)


def _output(case: Case, table: OperatorSpec, key: str) -> TensorSpec:
    spec = table.tensor(key)
    if spec is None or spec.kind != "output":
        raise CaseFileError(f"{case.name}: {key!r} is no output of {case.op}.")
    return spec


def _tolerance(case: Case, key: str, value: Any, output: Tensor | None) -> float:
    """A number, or a text such as "fp16 1e-3 / bf16 1e-4" read by the output's dtype."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    kind = "bf16" if output is not None and output.dtype is torch.bfloat16 else "fp16"
    match = re.search(rf"{kind} ({NUMBER})", value) if isinstance(value, str) else None
    if match is None:
        raise CaseFileError(f"{case.name}: tolerance of {key} is not understood: {value!r}.")
    return float(match[1])
