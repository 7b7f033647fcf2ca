"""What the rooms' conftests share about implementations."""

import os

import pytest
import torch

from mhc_ops import _native
from mhc_ops.errors import UnsupportedError
from mhc_ops.types import Impl

IMPLS = ["reference", "torch", "cpu"]


def named(request):
    """The implementation that a test is parametrised with; without its library it cannot run."""
    missing = _native.obstacle() if request.param == "cpu" else None
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return request.param


def skip_float64_on_the_kernels(request, monkeypatch, dispatch):
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
