"""Fixtures of every operator's tests."""

import pytest
import torch


@pytest.fixture
def threads():
    """Sets the number of threads, and puts the old one back afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
