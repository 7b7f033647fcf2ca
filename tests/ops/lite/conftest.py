"""The implementations that every test of mHC-lite runs through the public functions."""

import pytest


@pytest.fixture(params=["reference", "torch"])
def impl(request):
    return request.param
