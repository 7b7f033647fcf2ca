"""What is written from the tables is up to date; the header's numbers are the published ones."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mhc_ops.aclnn import codes
from mhc_ops.aclnn.spec import OPERATORS

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "csrc" / "aclnn" / "generate.py"
HEADER = (ROOT / "include" / "acl" / "acl.h").read_text(encoding="utf-8")


def test_the_written_files_are_those_that_the_tables_give():
    # -S: as in an isolated build, where neither torch nor mhc_ops is installed.
    command = [sys.executable, "-S", str(GENERATOR), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_file_that_differs_is_named(tmp_path):
    for name in ("csrc/aclnn", "src/mhc_ops/aclnn", "include/aclnnop"):
        for path in (ROOT / name).rglob("*.*"):
            if path.suffix in (".py", ".cpp", ".h"):
                copy = tmp_path / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    table = tmp_path / "src/mhc_ops/aclnn/spec/mhc_sinkhorn.py"
    text = table.read_text(encoding="utf-8")
    table.write_text(text.replace('InRange("num_iters", 1, 100)', 'InRange("num_iters", 1, 99)'))
    command = [sys.executable, "-S", str(tmp_path / "csrc/aclnn/generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "csrc/aclnn/tables/mhc_sinkhorn.cpp differs from what csrc/aclnn/generate.py writes; run it"
    ]


@pytest.mark.parametrize("prefix", ["ACL_", "ACLNN_"])
def test_constants_of_the_header_are_those_of_python(prefix):
    written = dict(re.findall(rf"\b({prefix}\w+) = (-?\w+)", HEADER))
    known = {n: v for n, v in vars(codes).items() if n.startswith(prefix)}
    assert known
    for name, value in known.items():
        assert int(written[name], 0) == value, name


def test_one_header_for_each_pair_of_calls():
    folder = ROOT / "include" / "aclnnop"
    declared = {
        name
        for path in folder.glob("*.h")
        for name in re.findall(r"aclnnStatus (\w+)\(", path.read_text(encoding="utf-8"))
    }
    apis = [api.name for table in OPERATORS.values() for api in table.apis]
    assert declared == {*apis, *(f"{name}GetWorkspaceSize" for name in apis)}
    assert len(list(folder.glob("*.h"))) == len(apis)
    assert (folder / "aclnn_mhc_pre_backward_v2.h").exists()
