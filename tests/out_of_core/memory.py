"""How much memory a command takes: a cap by a control group, or samples of what is not a file."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .commands import children, start

_ROOT = Path("/sys/fs/cgroup")
_GROUPS = (
    (_ROOT / "memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    (_ROOT, "memory.max", "memory.peak"),
)


class Group:
    """A control group with a memory limit; processes and their children are put into it."""

    def __init__(self, folder: Path, peak: str) -> None:
        self._folder, self._peak = folder, peak

    def enter(self) -> None:
        """For the child, between fork and exec."""
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    @property
    def peak(self) -> int:
        """The most bytes it held so far, cached files included."""
        return int((self._folder / self._peak).read_text())


@contextmanager
def group(limit: int) -> Iterator[Group | None]:
    """A group of at most so many bytes, or None where this process may make none."""
    for root, limit_file, peak in _GROUPS:
        folder = root / f"mhc_ops_{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit_file).write_text(str(limit))
            yield Group(folder, peak)
            return
        except OSError:  # a group without this controller
            continue
        finally:
            _remove(folder)
    yield None


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:  # a process of it is still ending
            time.sleep(0.05)


def run_and_sample(words: list[str]) -> tuple[subprocess.Popen, int]:
    """The ended process, and the most anonymous memory that it and its children held at once."""
    process, most = start(words), 0
    while process.poll() is None:
        try:
            pids = [process.pid, *children(process)]
            most = max(most, sum(_anonymous(pid) for pid in pids))
        except OSError:  # one of them has just ended
            pass
        time.sleep(0.002)
    return process, most


def _anonymous(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
