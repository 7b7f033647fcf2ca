"""The state of a run: what is torn does not count, what is newer does."""

import os

import pytest
import torch

from mhc_ops.out_of_core import progress
from mhc_ops.out_of_core.progress import Progress, State
from mhc_ops.out_of_core.sums import SumLayout
from mhc_ops.tensorfile import Blank

BYTES = 4096


def sums(value: int) -> torch.Tensor:
    return torch.full((BYTES,), value, dtype=torch.uint8)


@pytest.fixture
def fresh(tmp_path):
    found = Progress(tmp_path, BYTES)
    found.recover()
    yield found
    found.close()


def test_a_new_run_has_finished_nothing(fresh):
    assert fresh.tokens == 0
    assert not fresh.is_worth_keeping
    assert torch.equal(fresh.state().sums, sums(0))


def test_the_newest_state_counts(fresh, tmp_path):
    for step in range(1, 6):
        fresh.advance(State(step * 256, sums(step)))
        another = Progress(tmp_path, BYTES)
        state = another.state()
        another.close()
        assert state.tokens == fresh.tokens == step * 256
        assert torch.equal(state.sums, sums(step))


def test_killed_while_the_sums_are_written(fresh, monkeypatch):
    fresh.advance(State(256, sums(1)))
    real = os.pwrite

    def half(file, data, offset):
        real(file, data[: len(data) // 2], offset)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        with pytest.raises(KeyboardInterrupt):
            fresh.advance(State(512, sums(2)))
    assert fresh.tokens == 256
    assert torch.equal(fresh.state().sums, sums(1))
    fresh.advance(State(512, sums(3)))
    assert torch.equal(fresh.state().sums, sums(3))


def test_after_another_boot_the_saved_state_counts(fresh, monkeypatch):
    fresh.save(State(256, sums(1)))
    fresh.advance(State(512, sums(2)))
    fresh.recover()
    assert fresh.tokens == 512
    monkeypatch.setattr(progress, "boot_id", lambda: b"another")
    assert fresh.tokens == -1
    assert fresh.is_worth_keeping
    fresh.recover()
    assert fresh.tokens == 256
    assert torch.equal(fresh.state().sums, sums(1))


def test_where_boots_are_not_told_apart_the_saved_state_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "boot_id", lambda: b"unknown")
    found = Progress(tmp_path, BYTES)
    found.recover()
    found.save(State(256, sums(1)))
    found.advance(State(512, sums(2)))
    assert found.tokens == 512
    found.recover()
    assert found.tokens == 256
    found.close()


def test_sums_lie_apart_and_add_by_name():
    blanks = {"a": Blank(torch.float32, (3, 5)), "b": Blank(torch.float64, ())}
    layout = SumLayout(blanks)
    total, part = layout.buffer(), layout.buffer(2)
    layout.views(total)["a"].fill_(1)
    layout.views(part[1])["a"].fill_(2)
    layout.views(part[1])["b"].fill_(0.5)
    layout.add(total, part[1])
    found = layout.views(total)
    assert torch.equal(found["a"], torch.full((3, 5), 3.0))
    assert found["b"] == torch.tensor(0.5, dtype=torch.float64)
    assert not part[0].any()
