"""A run that is killed goes on where it was, and nothing half-written is ever seen."""

import os
import random
import shutil

import pytest
import torch

from mhc_ops.cli import main
from mhc_ops.out_of_core import progress
from mhc_ops.tensorfile import read, write

from . import cases
from .commands import (
    await_tokens,
    children,
    command,
    finish,
    finished_tokens,
    kill,
    same_tensors,
    scratch_of,
    start,
)


def run(case, target, *options: object) -> int:
    words = ["run", "MhcPreBackward", "--in", case.source, "--out", target, *options]
    return main([str(word) for word in words])


def killed(case, target, tokens: int, *options: object) -> bool:
    """Run until so many tokens are finished, then kill it all; False if it was faster."""
    words = command(case.source, target, "--impl", "torch", "--resume", *options)
    process = start(words)
    reached = await_tokens(process, target, tokens)
    if reached:
        others = children(process)
        for pid in (process.pid, *others):
            kill(pid)
    process.communicate()
    return reached


@pytest.mark.parametrize(("ranks", "chunk"), [(1, 512), (2, 256), (4, 1024)])
def test_kill_and_resume(case, tmp_path, ranks, chunk):
    target = tmp_path / "out.safetensors"
    options = ("--nproc", ranks, "--chunk", chunk, "--threads", 1)
    draw = random.Random(ranks)
    done = kills = 0
    for _ in range(3):
        wanted = done + draw.randrange(1, 3000)
        kills += killed(case, target, wanted, *options)
        if target.exists():
            break
        assert finished_tokens(target) >= min(wanted, case.tokens)
        done = finished_tokens(target)
        assert os.listdir(tmp_path) == [scratch_of(target).name]
    assert kills
    if not target.exists():
        status, said = finish(command(case.source, target, "--impl", "torch", "--resume", *options))
        assert status == 0, said
    assert same_tensors(target, case.whole)
    assert os.listdir(tmp_path) == [target.name]


def test_finished_chunks_are_not_done_again(case, tmp_path, capsys):
    """Other ranks, chunks and threads may go on; what they find finished they leave as it is."""
    target = tmp_path / "out.safetensors"
    assert killed(case, target, 2000, "--chunk", 512)
    done = finished_tokens(target)
    output = scratch_of(target) / "output.safetensors"
    marked = read(output).tensors["grad_x"].clone()
    stored = read_places(output)["grad_x"]
    with output.open("r+b") as file:  # a mark that only a second computation would remove
        file.seek(stored.offset)
        file.write(b"\x11\x22")
    marked.view(torch.uint8).reshape(-1)[:2] = torch.tensor([0x11, 0x22], dtype=torch.uint8)
    options = ("--impl", "torch", "--resume", "--chunk", 1024, "--nproc", 2, "--json")
    assert run(case, target, *options) == 0
    assert f'"resumed_at": {done}' in capsys.readouterr().out
    got, want = read(target).tensors, read(case.whole).tensors
    assert got["grad_x"].reshape(-1)[0] == marked.reshape(-1)[0]
    assert torch.equal(got["grad_x"].reshape(-1)[1:], want["grad_x"].reshape(-1)[1:])
    assert torch.equal(got["grad_phi"], want["grad_phi"])


def read_places(path):
    from mhc_ops.tensorfile import locate

    return locate(path).tensors


def test_an_old_output_stays_until_the_new_one_is_complete(case, tmp_path):
    target = tmp_path / "out"
    shutil.copytree(old_folder(tmp_path), target)
    assert killed(case, target, 1000, "--chunk", 256)
    assert same_tensors(target, old_folder(tmp_path))
    assert run(case, target, "--impl", "torch", "--resume") == 0
    assert read(target).tensors["grad_x"].shape[0] == case.tokens
    assert not scratch_of(target).exists()


def old_folder(folder):
    path = folder / "old"
    if not path.exists():
        write(path, cases.pre_backward(tokens=3))
    return path


def test_without_resume_an_unfinished_run_is_not_thrown_away(case, tmp_path, capsys):
    target = tmp_path / "out.safetensors"
    assert killed(case, target, 1000, "--chunk", 256)
    done = finished_tokens(target)
    assert run(case, target, "--impl", "torch", "--chunk", 256) == 2
    assert "an unfinished run lies in" in (said := capsys.readouterr().err)
    assert "add --resume" in said
    assert finished_tokens(target) == done


CHANGES = {
    "attributes": (("--attr", "hc_eps=1e-3", "--impl", "torch"), "attrs hc_eps: 1e-06, not"),
    "implementation": (("--impl", "cpu"), "made_by impl"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_run_cannot_be_resumed(case, tmp_path, capsys, change):
    options, told = CHANGES[change]
    target = tmp_path / "out.safetensors"
    assert killed(case, target, 1000, "--chunk", 256)
    assert run(case, target, "--resume", *options) == 2
    assert told in capsys.readouterr().err
    assert finished_tokens(target) >= 1000


def test_changed_inputs_are_not_resumed(case, tmp_path, capsys):
    source = tmp_path / "in.safetensors"
    shutil.copyfile(case.source, source)
    here = case._replace(source=source)
    target = tmp_path / "out.safetensors"
    assert killed(here, target, 1000, "--chunk", 256)
    os.utime(source, ns=(1, 1))
    assert run(here, target, "--resume", "--impl", "torch") == 2
    assert "was begun with in " in (said := capsys.readouterr().err)
    assert "modified" in said


def test_two_runs_do_not_write_one_target(case, tmp_path, capsys, monkeypatch):
    from mhc_ops.out_of_core import scratch

    monkeypatch.setattr(scratch, "_PATIENCE", 0.1)
    target = tmp_path / "out.safetensors"
    first = start(command(case.source, target, "--impl", "torch", "--chunk", 256))
    assert await_tokens(first, target, 500)
    os.kill(first.pid, 19)  # SIGSTOP: it stays on its way
    assert run(case, target, "--impl", "torch", "--resume") == 2
    assert "another run is writing it" in capsys.readouterr().err
    os.kill(first.pid, 18)
    first.communicate()
    assert first.returncode == 0
    assert same_tensors(target, case.whole)


def test_killed_between_the_rename_and_the_end(case, tmp_path, monkeypatch):
    from mhc_ops.out_of_core import scratch

    target = tmp_path / "out.safetensors"

    def lost(self) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(scratch.Scratch, "clear", lambda self: self.has_begun and lost(self))
        assert run(case, target, "--impl", "torch", "--chunk", 1024) == 130
    assert same_tensors(target, case.whole)
    before = target.stat().st_mtime_ns
    assert run(case, target, "--impl", "torch", "--resume") == 0
    assert target.stat().st_mtime_ns == before
    assert os.listdir(tmp_path) == [target.name]


@pytest.mark.parametrize("saved", [True, False])
def test_after_a_crash_of_the_machine_what_was_flushed_counts(case, tmp_path, monkeypatch, saved):
    """Another boot: the slots may be lost in part, so the durable state counts, or none."""
    from mhc_ops.out_of_core import flusher

    monkeypatch.setattr(flusher, "SECONDS", 0.01 if saved else 1e6)
    target = tmp_path / "out.safetensors"
    seen: list[int] = []

    def stop(self, state: progress.State) -> None:
        if state.tokens > 3000:
            raise KeyboardInterrupt
        seen.append(state.tokens)
        real(self, state)

    real = progress.Progress.advance
    with monkeypatch.context() as patch:
        patch.setattr(progress.Progress, "advance", stop)
        assert run(case, target, "--impl", "torch", "--chunk", 256) == 130
    durable = scratch_of(target) / "durable"
    assert durable.exists() == saved
    monkeypatch.setattr(progress, "boot_id", lambda: b"another boot")
    assert finished_tokens(target) == 0
    at: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(progress.Progress, "advance", lambda s, x: (at.append(x.tokens), real(s, x)))
        status = run(case, target, "--impl", "torch", "--chunk", 256, "--resume")
    assert status == 0
    assert (at[0] > 256) == saved
    assert at[0] - 256 in (0, *seen)
    assert same_tensors(target, case.whole)
