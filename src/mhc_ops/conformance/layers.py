"""What each layer of the aclnn surface answers to a case, and how that differs from the case."""

from __future__ import annotations

from dataclasses import dataclass

from .. import aclnn
from ..aclnn.codes import DTYPE_NAMES, FORMAT_NAMES, STATUS_BY_NAME
from ..aclnn.executor import Handle
from ..aclnn.host import answer, attributes, tiling_call
from ..aclnn.platform import current_soc
from ..aclnn.spec.language import ApiSpec, OperatorSpec
from ..aclnn.validation import Desc
from .cases import Case, CaseFileError

_DTYPE_NUMBERS = {name: number for number, name in DTYPE_NAMES.items()}
_FORMAT_NUMBERS = {name: number for number, name in FORMAT_NAMES.items()}


@dataclass(frozen=True)
class Finding:
    """What differs, empty if nothing; and the expected keys that could not be judged."""

    problem: str = ""
    unasserted: tuple[str, ...] = ()


def status_problem(case: Case, status: int, message: str) -> str:
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


def infershape(case: Case, table: OperatorSpec) -> Finding:
    result = aclnn.infer_shape(case.op, case.inputs, case.attrs)
    problem = status_problem(case, result.status, result.message)
    if problem or result.status != aclnn.GRAPH_SUCCESS:
        return Finding(problem)
    unasserted: list[str] = []
    problems: list[str] = []
    for key, expected in case.expect_outputs.items():
        spec = table.tensor(key)
        if spec is None or spec.name not in result.shapes:
            unasserted.append(key)
        elif list(result.shapes[spec.name]) != expected:
            problems.append(f"{key} is {list(result.shapes[spec.name])}, expected {expected}")
    return Finding("; ".join(problems), tuple(unasserted))


def tiling(case: Case, table: OperatorSpec) -> Finding:
    try:
        if case.soc == "default" and table.unnamed_tiling:
            chip = current_soc()
            call = tiling_call(table, case.inputs, case.outputs, case.attrs, chip, case.platform)
            result = answer(table.unnamed_tiling, call)
        else:
            result = aclnn.tiling(
                case.op, case.inputs, case.outputs, case.attrs, platform=case.platform
            )
    except ValueError as error:
        raise CaseFileError(f"{case.name}: {error}") from None
    problem = status_problem(case, result.status, result.message)
    if problem or result.status != aclnn.GRAPH_SUCCESS:
        return Finding(problem)
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
    return Finding("; ".join(problems), tuple(unasserted))


def op_api(case: Case, table: OperatorSpec) -> Finding:
    tensors = {
        spec.name: _bare(desc)
        for name, desc in {**case.inputs, **case.outputs}.items()
        if (spec := table.tensor(name))
    }
    status, size, _ = first_phase(case, table, tensors)
    problem = status_problem(case, status, aclnn.aclGetRecentErrMsg() if status else "")
    if problem:
        return Finding(problem)
    expected = dict(case.expect_outputs)
    if expected.get("workspace") == 0:  # other sizes are tiling's
        del expected["workspace"]
        problem = f"workspace is {size}, expected 0" if size else ""
    return Finding(problem, tuple(expected))


def _bare(desc: Desc | None) -> aclnn.aclTensor | None:
    """A contiguous tensor without memory, enough for every check."""
    if desc is None:
        return None
    dtype, form = _DTYPE_NUMBERS[desc.dtype], _FORMAT_NUMBERS[desc.format]
    return aclnn.aclCreateTensor(desc.shape, dtype, None, 0, form, desc.shape, None)


def first_phase(
    case: Case, table: OperatorSpec, tensors: dict[str, aclnn.aclTensor | None]
) -> tuple[int, int, aclnn.aclOpExecutor | None]:
    """The case's first call on these tensors, by snake case name."""
    attrs = attributes(table, case.attrs)
    prototype = api_of(case, table)
    arguments = [tensors.get(p) if table.tensor(p) else attrs[p] for p in prototype.parameters]
    handles: dict[str, Handle] = dict.fromkeys(case.null_handles)
    call = getattr(aclnn, f"{prototype.name}GetWorkspaceSize")
    result: tuple[int, int, aclnn.aclOpExecutor | None] = call(*arguments, **handles)
    return result


def api_of(case: Case, table: OperatorSpec) -> ApiSpec:
    """The pair of calls the case names, or the first one that takes its attributes."""
    names = {spec.name for name in case.attrs if (spec := table.attr(name)) and spec.acl}
    return next(
        api
        for api in table.apis
        if (api.name == case.api if case.api else names <= set(api.parameters))
    )
