"""What a run holds in memory does not grow with its files."""

import pytest

from mhc_ops.tensorfile import write

from . import cases
from .commands import command
from .memory import run_and_sample

SMALL, LARGE = 8_000, 80_000  # tokens of 672 bytes; the difference is 48 MB, and its output 18 MB
SLACK = 12 << 20


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    for tokens in (SMALL, LARGE):
        write(folder / f"{tokens}.safetensors", cases.pre_backward(tokens=tokens, dim=32))
    return {tokens: folder / f"{tokens}.safetensors" for tokens in (SMALL, LARGE)}


def growth(sources, *options: object) -> int:
    """How much more memory the large case takes than the small one, in bytes."""
    peaks = []
    for source in sources.values():
        words = command(source, source.with_name("out.safetensors"), *options)
        process, most = run_and_sample(words)
        said = process.communicate()[1]
        assert process.returncode == 0, said
        peaks.append(most)
    return peaks[1] - peaks[0]


@pytest.mark.parametrize("ranks", [1, 2])
def test_memory_does_not_grow_with_the_files(sources, ranks):
    assert growth(sources, "--nproc", ranks, "--chunk", 512, "--threads", 1) < SLACK


def test_in_memory_it_does(sources):
    """So the measure would notice."""
    assert growth(sources) > 3 * SLACK
