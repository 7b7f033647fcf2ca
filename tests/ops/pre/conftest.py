"""The implementations that every test of the pre operator runs through the public functions."""

import pytest
import torch

IMPLS = ["reference", "torch"]


@pytest.fixture(params=IMPLS)
def impl(request):
    return request.param


@pytest.fixture
def threads():
    """Sets the number of threads, and puts the old one back afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
