"""The implementations that every test of the boundary runs through the public functions."""

import pytest

from mhc_ops.ops.post_pre import dispatch

from ..rooms import IMPLS, named, skip_float64_on_the_kernels


@pytest.fixture(params=IMPLS)
def impl(request):
    return named(request)


@pytest.fixture(autouse=True)
def float64_is_not_for_the_kernels(request, monkeypatch):
    skip_float64_on_the_kernels(request, monkeypatch, dispatch)
