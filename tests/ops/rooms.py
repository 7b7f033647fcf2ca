"""What the rooms' conftests share about implementations."""

import os

import pytest
import torch

from mhc_ops import _native
from mhc_ops.errors import UnsupportedError
from mhc_ops.types import Impl

# Triton's interpreter has processes of its own: tests/triton/test_interpreted.py starts them.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
IMPLS = ["triton"] if INTERPRETED else ["reference", "torch", "cpu"]


def affordable(tokens, streams, dim):
    """Whether a drawn input of this size takes the interpreter seconds and not minutes."""
    return not INTERPRETED or (streams * dim <= 4200 and tokens * streams * dim <= 65_000)


def named(request):
    """The implementation that a test is parametrised with; without its library it cannot run."""
    missing = _native.obstacle() if request.param == "cpu" else None
    if missing is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return request.param


def skip_float64_on_the_kernels(request, monkeypatch, dispatch):
    """A test that gives float64 to kernels meets the documented refusal and is skipped."""
    impl = getattr(getattr(request.node, "callspec", None), "params", {}).get("impl")
    if impl not in ("cpu", "triton"):
        return
    real = dispatch.resolve

    def resolve(op, impl, x):
        if impl in (Impl.CPU, Impl.TRITON) and x.dtype == torch.float64:
            with pytest.raises(UnsupportedError, match="float64"):
                real(op, impl, x)
            pytest.skip("the kernels take no float64")
        return real(op, impl, x)

    monkeypatch.setattr(dispatch, "resolve", resolve)
