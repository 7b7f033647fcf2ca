"""A case that takes long enough to be stopped on its way, and its results in memory."""

from pathlib import Path
from typing import NamedTuple

import pytest

from mhc_ops.cli import main
from mhc_ops.tensorfile import write

from . import cases


class Case(NamedTuple):
    source: Path
    whole: Path
    tokens: int


@pytest.fixture(scope="session")
def case(tmp_path_factory) -> Case:
    """MhcPreBackward on a few MB, by impl torch, which is slow."""
    folder = tmp_path_factory.mktemp("case")
    source, whole, tokens = folder / "in.safetensors", folder / "whole.safetensors", 12_000
    write(source, cases.pre_backward(tokens=tokens, dim=32))
    words = ["run", "MhcPreBackward", "--in", source, "--out", whole, "--impl", "torch"]
    assert main([str(word) for word in words]) == 0
    return Case(source, whole, tokens)
