"""The implementations that every test of sinkhorn runs through the public functions."""

import pytest
import torch

from mhc_ops.errors import UnsupportedError
from mhc_ops.ops.sinkhorn import dispatch
from mhc_ops.types import Impl

from ..pre.conftest import threads as threads

IMPLS = ["reference", "torch", "cpu"]


@pytest.fixture(params=IMPLS)
def impl(request):
    return request.param


@pytest.fixture(autouse=True)
def float64_is_not_for_the_kernels(request, monkeypatch):
    """A test that gives float64 to the C++ kernels meets the documented refusal and is skipped."""
    if getattr(getattr(request.node, "callspec", None), "params", {}).get("impl") != "cpu":
        return
    real = dispatch.resolve

    def resolve(op, impl, x):
        if impl is Impl.CPU and x.dtype == torch.float64:
            with pytest.raises(UnsupportedError, match="float64"):
                real(op, impl, x)
            pytest.skip("the kernels take no float64")
        return real(op, impl, x)

    monkeypatch.setattr(dispatch, "resolve", resolve)
