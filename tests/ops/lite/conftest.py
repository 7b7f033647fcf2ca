"""The implementations that every test of mHC-lite runs through the public functions."""

import pytest

from ..pre.conftest import threads as threads


@pytest.fixture(params=["reference", "torch"])
def impl(request):
    return request.param
