"""The options of the conformance kit, a pytest plugin: pytest -p mhc_ops.conformance.options ...

pytest reads options before it looks at `--pyargs mhc_ops.conformance`. An entry point would load
this in every run of pytest in the environment, and have mhc_ops rewritten there; the environment
variables work without the plugin.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mhc-ops", "pytest --pyargs mhc_ops.conformance")
    group.addoption(
        "--mhc-adapter",
        metavar="MODULE:CLASS",
        help="What computes, or MHC_OPS_ADAPTER; the implementations of mhc_ops by default.",
    )
    group.addoption(
        "--mhc-cases",
        metavar="FILE",
        action="append",
        help="A case file, or MHC_OPS_CASES, in place of the packaged cases; may be repeated.",
    )
