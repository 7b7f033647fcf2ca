"""torch_npu as the stand-in, on CPU tensors; and a machine without it."""

import sys

import pytest

from mhc_ops import impls
from mhc_ops.ops.common import npu
from tests.npu import stand_in


@pytest.fixture(scope="session")
def _registered():
    library = stand_in.registered()
    yield library
    library._destroy()


@pytest.fixture
def torch_npu(monkeypatch, _registered):
    """The stand-in, with CPU tensors in place of an NPU's; its list of calls, empty."""
    module = stand_in.module()
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    monkeypatch.setattr(impls, "_NPU_DEVICE", "cpu")
    npu.is_missing.cache_clear()
    stand_in.calls.clear()
    yield module
    npu.is_missing.cache_clear()


@pytest.fixture
def no_torch_npu(monkeypatch):
    """A machine where it is not installed."""
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    npu.is_missing.cache_clear()
    yield
    npu.is_missing.cache_clear()
