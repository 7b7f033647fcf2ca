"""What `pytest --pyargs mhc_ops.conformance` runs: the adapter and the cases that were chosen."""

from __future__ import annotations

import os

import pytest

from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.conformance.adapters import Adapter, load_adapter
from mhc_ops.conformance.cases import Case, load_cases
from mhc_ops.conformance.goldens import Golden, make_golden
from mhc_ops.conformance.packaged import packaged_cases
from mhc_ops.errors import ArgumentError


@pytest.fixture(scope="session")
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """What computes."""
    return _adapter(request.config)


@pytest.fixture(scope="module")
def golden(case: Case) -> Golden:
    """The case's inputs and what float64 makes of them."""
    if case.layer != "st" or case.op not in OPERATORS:
        pytest.skip(f"{case.layer} case of {case.op}: an adapter computes; mhc-ops conform has it")
    if case.stale or case.expect != "SUCCESS":
        pytest.skip("no result is published for it")
    return make_golden(case)


def _adapter(config: pytest.Config) -> Adapter:
    named = os.environ.get("MHC_OPS_ADAPTER", "")
    return load_adapter(config.getoption("--mhc-adapter", None) or named)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    named = [part for part in os.environ.get("MHC_OPS_CASES", "").split(os.pathsep) if part]
    files = metafunc.config.getoption("--mhc-cases", None) or named
    try:
        _adapter(metafunc.config)  # one that cannot be loaded ends the run before it begins
        cases = [c for f in files for c in load_cases(f)] if files else packaged_cases()
    except ArgumentError as error:
        raise pytest.UsageError(str(error)) from None
    metafunc.parametrize("case", cases, ids=_name, scope="module")


def _name(case: Case) -> str:
    return case.name
