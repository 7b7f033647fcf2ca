"""Running `mhc-ops run` as a user does, and as one whose machine fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

from mhc_ops.out_of_core.progress import Progress
from mhc_ops.tensorfile import read

PATIENCE = 360  # seconds: more than the ranks wait for one another, so that they say why


def command(source: Path, target: Path, *options: object, op: str = "MhcPreBackward") -> list[str]:
    given = ["run", op, "--in", source, "--out", target, *options]
    return [sys.executable, "-m", "mhc_ops", *map(str, given)]


def start(words: list[str], **options) -> subprocess.Popen:
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finish(words: list[str], **options) -> tuple[int, str]:
    """Exit status and standard error."""
    done = start(words, **options)
    _, said = done.communicate(timeout=PATIENCE)
    return done.returncode, said


def scratch_of(target: Path) -> Path:
    return target.with_name(f".{target.name}.mhc-run")


def finished_tokens(target: Path) -> int:
    """How far an unfinished run is; 0 when there is none."""
    folder = scratch_of(target)
    if not (folder / "run.json").exists():
        return 0
    size = (folder / "progress").stat().st_size // 2 - 64
    progress = Progress(folder, size)
    try:
        return max(progress.tokens, 0)
    finally:
        progress.close()


def await_tokens(process: subprocess.Popen, target: Path, tokens: int) -> bool:
    """Wait until a run has finished so many tokens; False when it has ended instead."""
    deadline = time.monotonic() + PATIENCE
    while finished_tokens(target) < tokens:
        assert time.monotonic() < deadline
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    return True


def children(process: subprocess.Popen) -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def same_tensors(a: Path, b: Path) -> bool:
    """Whether two files hold the same tensors, bit for bit."""
    left, right = read(a), read(b)
    assert left.op == right.op
    assert dict(left.attrs) == dict(right.attrs)
    return left.tensors.keys() == right.tensors.keys() and all(
        same_bits(t, right.tensors[name]) for name, t in left.tensors.items()
    )


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    same = a.dtype == b.dtype and a.shape == b.shape
    return same and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
