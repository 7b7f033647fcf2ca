"""The example adapter, on the stand-in: right results wherever torch_npu has the operator."""

import importlib.util
from pathlib import Path

import pytest

from mhc_ops.aclnn.host import attributes
from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.conformance.adapters import Wanted
from mhc_ops.conformance.goldens import make_golden
from mhc_ops.conformance.judging import judge_golden
from mhc_ops.conformance.packaged import packaged_cases
from mhc_ops.errors import UnsupportedError

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_npu_adapter.py"
NAMED = ("MhcPre", "MhcPreBackward", "MhcPost", "MhcPostBackward")
CASES = [c for c in packaged_cases() if "float16" in c.name]


@pytest.fixture
def adapter(torch_npu, monkeypatch):
    spec = importlib.util.spec_from_file_location("torch_npu_adapter", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DEVICE", "cpu")
    return module.TorchNpu()


@pytest.mark.parametrize("case", [c for c in CASES if c.op in NAMED], ids=lambda c: c.name)
def test_packaged_cases(adapter, case):
    golden = make_golden(case)
    table = OPERATORS[case.op]
    inputs = {name: golden.inputs.tensors.get(name) for name in table.names("input")}
    wanted = {n: Wanted(t.dtype, tuple(t.shape)) for n, t in golden.expected.tensors.items()}
    attrs = attributes(table, golden.inputs.attrs)
    absent = (case.op, attrs.get("op_impl_mode")) == ("MhcPreBackward", 1)
    if absent or (case.op == "MhcPost" and inputs["h_res"] is None):
        with pytest.raises(UnsupportedError, match="of this form"):
            adapter.run(case.op, inputs, attrs, wanted)
        return
    assert judge_golden(golden, adapter.run(case.op, inputs, attrs, wanted), explain=False).passed


def test_operators_without_a_name(adapter):
    with pytest.raises(UnsupportedError, match="no MhcSinkhorn"):
        adapter.run("MhcSinkhorn", {}, {}, {})
