"""The shared case file and a way to change one of its cases."""

import copy
import json
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "mhc_pre_cases.json"
FAMILY = Path(__file__).parent / "mhc_family_cases.json"


@pytest.fixture(scope="session")
def shared_file():
    return CASES


@pytest.fixture(scope="session")
def family_file():
    """The cases of the six other operators."""
    return FAMILY


@pytest.fixture(scope="session")
def _entries():
    files = (CASES, FAMILY)
    return {(e["layer"], e["name"]): e for file in files for e in json.loads(file.read_text())}


@pytest.fixture
def entry(_entries):
    """A copy of the case of that layer and name."""
    return lambda layer, name: copy.deepcopy(_entries[layer, name])


@pytest.fixture
def case_file(tmp_path):
    """A file holding these cases."""

    def write(*entries, text=None):
        path = tmp_path / "cases.json"
        path.write_text(json.dumps(entries) if text is None else text)
        return path

    return write
