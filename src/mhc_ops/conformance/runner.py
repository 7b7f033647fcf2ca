"""Runs cases and whole case files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import factorial
from pathlib import Path

from .. import aclnn
from ..aclnn.spec import OPERATORS, SOCS
from .cases import Case, CaseFileError, load_cases
from .layers import Finding, infershape, op_api, tiling
from .numeric import st
from .report import Outcome, Report

_LAYERS = {"op_api": op_api, "infershape": infershape, "tiling": tiling, "st": st}


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
    try:
        with aclnn.soc(chip):
            finding = _LAYERS[case.layer](case, table)
    except CaseFileError as error:
        finding = Finding(f"bad case: {error}")
    return outcome("failed" if finding.problem else "passed", finding.problem, finding.unasserted)


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
