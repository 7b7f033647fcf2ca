"""Whatever goes wrong on disk: one sentence that names the culprit, and nothing half-written."""

import errno
import json
import os
import resource
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mhc_ops.errors import ArgumentError, FileError
from mhc_ops.integrations.checkpoints import convert_checkpoint

from .on_disk import megatron, snapshot, write_shards
from .test_state_dict import ours


@contextmanager
def largest_file(size: int):
    """The system refuses to write files beyond `size` bytes, as a full disk refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("target", ["b.safetensors", "b"])
@pytest.mark.parametrize("room", [0, 300, 700, 5000, 9000])
def test_a_failing_write_leaves_nothing(folder, target, room):
    save_file({**megatron(), "w": torch.zeros(3000)}, "a.safetensors")
    if target == "b.safetensors":
        save_file({"old": torch.ones(3)}, target)
    before = snapshot(folder)
    with (
        pytest.raises(FileError, match=rf"^{target}: cannot be written \(File too large\)"),
        largest_file(room),
    ):
        convert_checkpoint("a.safetensors", target, source="megatron_main", target="ours")
    assert snapshot(folder) == before
    assert not (folder / "b").exists()


def test_a_full_disk_is_named(folder, monkeypatch):
    def sync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", sync)
    save_file({**megatron(), "w": torch.zeros(3000)}, "a.safetensors")
    before = snapshot(folder)
    with pytest.raises(FileError, match=r"^b: cannot be written \(no space left there\)\.$"):
        convert_checkpoint("a.safetensors", "b", source="megatron_main", target="ours")
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("harm", "text"),
    [(os.unlink, r"cannot be read \(No such file"), (lambda p: os.truncate(p, 700), "shorter")],
)
def test_a_source_that_goes_away_is_named(folder, harm, text):
    save_file({**megatron(), "w": torch.zeros(3000)}, "a.safetensors")
    with pytest.raises(FileError, match=rf"^a\.safetensors: .*{text}"):
        convert_checkpoint(
            *("a.safetensors", "b"),
            source="megatron_main",
            target="ours",
            progress=lambda done, total: harm("a.safetensors") if done == 0 else None,
        )
    assert not Path("b").exists()


def test_an_interruption_leaves_nothing(folder):
    save_file({**megatron(), "w": torch.zeros(3000)}, "a.safetensors")
    before = snapshot(folder)

    def stop(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_checkpoint(
            "a.safetensors", "b", source="megatron_main", target="ours", progress=stop
        )
    assert snapshot(folder) == before


def test_places_that_cannot_be_written(folder):
    save_file(ours(), "a.safetensors")
    Path("full").mkdir()
    Path("full/config.json").write_text("{}")
    Path("file").write_text("")
    for target, text in (
        ("full", "not replaced, it already holds files"),
        ("file", "cannot become a folder"),
        ("no/b.safetensors", "is not a folder"),
        ("b.pt", "unknown format .pt"),
        ("b" * 300, "cannot be written"),
    ):
        before = snapshot(folder)
        with pytest.raises(FileError, match=text):
            convert_checkpoint("a.safetensors", target, source="ours", target="cann")
        assert snapshot(folder) == before


def damaged_index(change) -> None:
    path = Path("mega/model.safetensors.index.json")
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


INDEXES = {
    "gone": (lambda d: d["weight_map"].update(more="no.safetensors"), "no such file"),
    "outside": (lambda d: d["weight_map"].update(more="../a.safetensors"), "no file beside it"),
    "elsewhere": (lambda d: d["weight_map"].popitem(), "in no file, but it is in model-0000"),
    "absent": (
        lambda d: d["weight_map"].update(more=next(iter(d["weight_map"].values()))),
        "has more in model-00001-of-00002.safetensors, but it is in none",
    ),
    "no map": (lambda d: d.pop("weight_map"), 'an object "weight_map"'),
    "list": (lambda d: d.update(weight_map=[1]), 'an object "weight_map"'),
}


@pytest.mark.parametrize("case", INDEXES)
def test_a_lying_index_is_refused(folder, case):
    write_shards(folder / "mega", megatron(), 2)
    change, text = INDEXES[case]
    damaged_index(change)
    with pytest.raises(FileError, match=text):
        convert_checkpoint("mega", "b", source="megatron_main", target="ours")
    assert not Path("b").exists()


def test_sources_that_are_none(folder):
    Path("empty").mkdir()
    Path("a.bin").write_bytes(b"x")
    Path("short.safetensors").write_bytes(b"1234")
    Path("twice").mkdir()
    save_file(ours(), "twice/a.safetensors")
    save_file(ours(), "twice/b.safetensors")
    for source, text in (
        ("empty", "holds no .safetensors file"),
        ("a.bin", "unknown format .bin"),
        ("short.safetensors", "is no .safetensors file"),
        ("gone", "no such file"),
        ("twice", r"is both in twice/a\.safetensors and in twice/b\.safetensors"),
    ):
        with pytest.raises(FileError, match=text):
            convert_checkpoint(source, "out", source="ours", target="cann")


def test_shapes_beyond_64_bits_are_refused(folder):
    header = {"w": {"dtype": "F32", "shape": [0, 1 << 70], "data_offsets": [0, 0]}}
    text = json.dumps(header).encode()
    Path("a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(FileError, match="no tensor has the shape"):
        convert_checkpoint("a.safetensors", "b", source="ours", target="cann")


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_header_is_refused_or_converted(data, folder):
    """Bytes changed or cut off: an error of ours or a converted file, and no leftovers."""
    path = folder / "a.safetensors"
    save_file({**ours(), "w": torch.zeros(4)}, path)
    damaged = bytearray(path.read_bytes())
    length = 8 + int.from_bytes(damaged[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, length - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    path.write_bytes(damaged[:cut])
    with suppress(ArgumentError):
        convert_checkpoint(path, "b.safetensors", source="ours", target="cann")
    left = set(os.listdir(folder))
    assert left <= {"a.safetensors", "b.safetensors", "b.convention.json"}
