"""The JSONL: whole lines, at once; continued; read back; refused with a sentence."""

import json

import pytest

from mhc_ops import ArgumentError
from mhc_ops.monitor import Monitor, read_run

from .conftest import Model, randomized, train


def test_every_step_is_on_disk_at_once(model, tmp_path):
    file = tmp_path / "deep" / "a.jsonl"
    with Monitor(model, file, tensorboard=False) as monitor:
        for done in range(1, 4):
            train(model, 1, monitor)
            lines = file.read_text().split("\n")
            assert lines.pop() == ""
            kinds = [json.loads(line)["kind"] for line in lines]
            assert kinds == ["run", *["step"] * done]
    assert monitor.path == file


def test_a_half_written_last_line_is_left_out(recorded):
    whole = read_run(recorded.parent)
    assert [s.step for s in whole.steps] == [0, 2, 4, 6]
    assert whole.notes == []
    recorded.write_bytes(recorded.read_bytes()[:-40])
    cut = read_run(recorded)
    assert cut.steps == whole.steps[:3]
    assert cut.notes == ["The last line was not complete and is left out."]


def test_a_run_is_continued(recorded, model):
    recorded.write_bytes(recorded.read_bytes()[:-40])
    with Monitor(model, recorded, every=2, first_step=4, tensorboard=False) as monitor:
        train(model, 3, monitor)
    again = read_run(recorded)
    assert [s.step for s in again.steps] == [0, 2, 4, 6]
    assert again.notes == []
    other = randomized(Model(streams=2))
    Monitor(other, recorded, tensorboard=False).close()
    with pytest.raises(ArgumentError, match="holds runs of models with different streams"):
        read_run(recorded)


def test_steps_of_other_layers_are_left_out_and_said(recorded):
    lines = recorded.read_text().splitlines()
    odd = json.loads(lines[2])
    odd["layers"].pop()
    recorded.write_text("\n".join([*lines[:2], json.dumps(odd), *lines[3:]]) + "\n")
    run = read_run(recorded)
    assert [s.step for s in run.steps] == [0, 4, 6]
    assert "1 steps in which other layers ran" in run.notes[0]


def test_refusals(recorded, tmp_path):
    with pytest.raises(ArgumentError, match=r"cannot read .*; give the .jsonl that Monitor wrote"):
        read_run(tmp_path / "absent")
    lines = recorded.read_text().splitlines(keepends=True)
    recorded.write_text("".join([lines[0], lines[1][:50] + "\n", *lines[2:]]))
    with pytest.raises(ArgumentError, match=r"line 2 of .* is not a record of a monitor"):
        read_run(recorded)
    for text, match in (
        ("", "has no recorded step yet"),
        (lines[0], "has no recorded step yet"),
        ("[1]\n", "line 1 of"),
        ("\x00\xff\n", "line 1 of"),
        (lines[0].replace('"format":1', '"format":2'), "has format 2, this version reads 1"),
        (lines[0] + lines[1].replace('"h_post"', '"other"'), "line 2 of"),
    ):
        recorded.write_text(text)
        with pytest.raises(ArgumentError, match=match):
            read_run(recorded)
