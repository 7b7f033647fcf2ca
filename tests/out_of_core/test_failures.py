"""What goes wrong on the way becomes one sentence, exit status 2, and no corrupt file."""

import os
import resource
import subprocess
import sys
import time

import pytest
import torch

from mhc_ops.cli import main
from mhc_ops.out_of_core.progress import Progress, State
from mhc_ops.tensorfile import TensorSet, read, write

from . import cases
from .commands import (
    PATIENCE,
    await_tokens,
    children,
    command,
    finish,
    finished_tokens,
    kill,
    same_tensors,
    start,
)

BOUND = 20  # seconds in which the others notice a dead rank


def complaint(capsys, *words: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def one_sentence(said: str) -> str:
    lines = said.splitlines()
    assert len(lines) == 1, said
    assert lines[0].startswith("mhc-ops: ")
    return lines[0]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_dead_rank_ends_the_run(case, tmp_path, victim):
    target = tmp_path / "out.safetensors"
    words = command(case.source, target, "--impl", "torch", "--nproc", 2, "--chunk", 256)
    process = start([*words, "--threads", "1"])
    assert await_tokens(process, target, 1000)
    ranks = [process.pid, *children(process)]
    assert len(ranks) == 2
    kill(ranks[victim])
    died = time.monotonic()
    _, said = process.communicate(timeout=PATIENCE)
    while any(os.path.exists(f"/proc/{pid}") for pid in ranks):
        assert time.monotonic() - died < BOUND
        time.sleep(0.01)
    if victim:
        assert process.returncode == 2
        told = one_sentence(said)
        assert f"rank {victim} was ended by SIGKILL; go on with --resume" in told
    assert not target.exists()
    assert 1000 <= finished_tokens(target) < case.tokens
    resume(case, target)


def resume(case, target) -> None:
    """In this process."""
    words = ("run", "MhcPreBackward", "--in", case.source, "--out", target, "--impl", "torch")
    assert main([str(word) for word in (*words, "--resume")]) == 0
    assert same_tensors(target, case.whole)


def test_a_dead_rank_of_torchrun_ends_the_run(case, tmp_path):
    target = tmp_path / "out.safetensors"
    _, *words = command(case.source, target, "--impl", "torch", "--chunk", 256, "--resume")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    process = start([*launcher, "--nproc-per-node", "2", *words])
    assert await_tokens(process, target, 1000)
    ranks = children(process)
    kill(next(pid for pid in ranks if _rank(pid) == "1"))
    died = time.monotonic()
    _, said = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - died < BOUND
    assert process.returncode == 1
    assert "Signal 9 (SIGKILL)" in said
    assert not target.exists()
    resume(case, target)


def _rank(pid: int) -> str | None:
    with open(f"/proc/{pid}/environ", "rb") as file:
        words = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
    return words.get(b"RANK", b"").decode()


def test_a_full_disk(case, tmp_path):
    """No file may grow beyond 64 KiB: the output's place on the disk cannot be had."""
    target = tmp_path / "out.safetensors"
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # noqa: E731
    words = command(case.source, target, "--nproc", 2, "--chunk", 512)
    status, said = finish(words, preexec_fn=limit)
    assert status == 2
    assert "there is no room for it" in one_sentence(said)
    assert os.listdir(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_without_room_for_the_output(case, small_disk):
    write(small_disk / "out.safetensors", TensorSet({"old": torch.ones(3)}))
    target = small_disk / "out.safetensors"
    status, said = finish(command(case.source, target, "--chunk", 512))
    assert status == 2
    assert "there is no room for it (No space left on device)" in one_sentence(said)
    assert torch.equal(read(target).tensors["old"], torch.ones(3))
    assert os.listdir(small_disk) == [target.name]


def test_a_disk_that_fills_on_the_way(case, tmp_path, capsys, monkeypatch):
    """Where room cannot be reserved, the system says so in the midst of the work."""
    from mhc_ops.out_of_core import place

    real, calls = os.pwrite, []

    def pwrite(file, data, offset):
        calls.append(offset)
        if len(calls) > 100:
            raise OSError(28, "No space left on device")
        return real(file, data, offset)

    target = tmp_path / "out.safetensors"
    words = ("run", "MhcPreBackward", "--in", case.source, "--out", target, "--impl", "torch")
    with monkeypatch.context() as patch:
        patch.setattr(place.os, "pwrite", pwrite)
        told = complaint(capsys, *words, "--chunk", 256)
    assert "there is no room for it" in told
    assert "--resume" in told
    assert not target.exists()
    assert main([str(w) for w in (*words, "--resume")]) == 0
    assert same_tensors(target, case.whole)


@pytest.mark.parametrize("form", ["in.safetensors", "in"])
def test_a_truncated_input(tmp_path, capsys, form):
    source = tmp_path / form
    write(source, cases.pre_backward())
    cut = source / "x.bin" if source.is_dir() else source
    os.truncate(cut, cut.stat().st_size - 100)
    words = ("run", "MhcPreBackward", "--in", source, "--out", tmp_path / "out", "--nproc", 2)
    told = complaint(capsys, *words)
    assert form in told
    assert os.listdir(tmp_path) == [form]


def test_an_input_that_is_truncated_on_the_way(case, tmp_path, capsys, monkeypatch):
    """Noticed before the next superblock is mapped."""
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    source.write_bytes(case.source.read_bytes())

    def advance(self, state: State) -> None:
        real(self, state)
        os.truncate(source, 1 << 20)

    real = Progress.advance
    monkeypatch.setattr(Progress, "advance", advance)
    words = ("run", "MhcPreBackward", "--in", source, "--out", target, "--chunk", 256)
    assert "in.safetensors: has become shorter" in complaint(capsys, *words)
    assert not target.exists()


def test_an_operator_that_refuses(tmp_path, capsys):
    """The operator's own checks, before anything is written."""
    content = cases.pre_backward()
    content.tensors["phi"] = content.tensors["phi"].T.contiguous()
    write(tmp_path / "in", content)
    words = ("run", "MhcPreBackward", "--in", tmp_path / "in", "--out", tmp_path / "out")
    assert "it looks transposed" in complaint(capsys, *words, "--nproc", 2)
    assert os.listdir(tmp_path) == ["in"]


MISTAKES = {
    "chunk": (("--chunk", 300), "a chunk must be a multiple of 256 tokens, got 300"),
    "reference": (("--nproc", 1, "--impl", "reference"), "sums in an order of its own"),
    "impl": (("--nproc", 1, "--impl", "fast"), "impl must be one of 'auto'"),
    "threads": (("--threads", 100_000), "at most 1024, got 100000"),
    "processes": (("--nproc", 100_000), "at most 1024, got 100000"),
    "npz": (("--nproc", 1, "--out", "out.npz"), "an .npz cannot be streamed"),
    "nowhere": (("--nproc", 1, "--out", "no/such/out"), "is not a folder"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(tmp_path, capsys, monkeypatch, mistake):
    options, told = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    write("in", cases.pre_backward())
    words = ("run", "MhcPreBackward", "--in", "in", "--out", "out", *options)
    assert told in complaint(capsys, *words)
    assert os.listdir(tmp_path) == ["in"]


def test_an_npz_is_not_streamed_from(tmp_path, capsys):
    write(tmp_path / "in.npz", cases.pre_backward())
    words = ("run", "MhcPreBackward", "--in", tmp_path / "in.npz", "--out", tmp_path / "out")
    assert "cannot be mapped" in complaint(capsys, *words, "--chunk", 256)


def test_tokens_that_do_not_agree(tmp_path, capsys):
    content = cases.pre_backward()
    content.tensors["h_mix"] = content.tensors["h_mix"][:-1]
    write(tmp_path / "in", content)
    words = ("run", "MhcPreBackward", "--in", tmp_path / "in", "--out", tmp_path / "out")
    told = complaint(capsys, *words, "--chunk", 256)
    assert "MhcPreBackward: h_mix must have the tokens [1300], got [1299, 24]" in told


def test_no_tokens(tmp_path, capsys):
    write(tmp_path / "in", cases.pre_backward(tokens=0))
    words = ("run", "MhcPreBackward", "--in", tmp_path / "in", "--out", tmp_path / "out")
    assert "has no tokens to stream; leave" in complaint(capsys, *words, "--chunk", 256)


def test_nproc_under_torchrun(tmp_path, capsys, monkeypatch):
    write(tmp_path / "in", cases.pre_backward())
    for name, value in {
        "TORCHELASTIC_RUN_ID": "none",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    words = ("run", "MhcPreBackward", "--in", tmp_path / "in", "--out", tmp_path / "out")
    assert "leave it out under torchrun" in complaint(capsys, *words, "--nproc", 2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "all ranks must be on one machine" in complaint(capsys, *words)
