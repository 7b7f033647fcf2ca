"""Where impl="triton" can run, what is said where it cannot, and when `auto` takes it."""

import sys
import types

import pytest
import torch

from mhc_ops import impls
from mhc_ops.types import Impl

CPU, GPU = torch.device("cpu"), torch.device("cuda")
ROOMS = [
    *("mhc_pre", "mhc_pre_sinkhorn", "mhc_post", "mhc_post_pre"),
    *("sinkhorn", "permutation_mix", "stream_head"),
]


@pytest.fixture(autouse=True)
def not_interpreted(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for function in (impls._automatic, impls._triton_is_missing):
        function.cache_clear()
    yield
    for function in (impls._automatic, impls._triton_is_missing):
        function.cache_clear()


def installed(monkeypatch, version="3.9.0"):
    monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(__version__=version))


def reason(device, dtype=torch.float32, op="mhc_pre"):
    return impls.obstacle(Impl.TRITON, device, dtype, op)


def test_tensors_elsewhere():
    assert reason(CPU) == "the tensors are on cpu, not on an NVIDIA or AMD GPU"
    assert "on meta" in reason(torch.device("meta"))


def test_without_triton_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    assert "triton is not installed; install the extra" in reason(GPU)
    assert "mhc-ops[gpu]" in reason(GPU)
    assert impls._automatic("mhc_pre", GPU, torch.float32) is Impl.TORCH


def test_an_old_triton_is_refused(monkeypatch):
    installed(monkeypatch, "3.3.1")
    assert reason(GPU).startswith("triton 3.3.1 is older than 3.6")
    impls._triton_is_missing.cache_clear()
    installed(monkeypatch, "3.10.0+git1234")
    assert reason(GPU) is None


def test_dtypes_that_the_kernels_do_not_take(monkeypatch):
    installed(monkeypatch)
    assert "not torch.float64" in reason(GPU, torch.float64)
    assert "take float32, not torch.bfloat16" in reason(GPU, torch.bfloat16, "sinkhorn")
    assert impls._automatic("mhc_pre", GPU, torch.float64) is Impl.TORCH


@pytest.mark.parametrize("room", ROOMS)
def test_auto_takes_it_on_a_gpu(monkeypatch, room):
    installed(monkeypatch)
    for op in (room, f"{room}_forward", f"{room}_backward"):
        assert reason(GPU, op=op) is None
        assert impls._automatic(op, GPU, torch.float32) is Impl.TRITON


def test_the_interpreter_takes_cpu_tensors_by_name_alone(monkeypatch):
    installed(monkeypatch)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert reason(CPU) is None
    assert impls._automatic("mhc_pre", CPU, torch.float32) is not Impl.TRITON
