"""The other ranks of a run as rank 0 sees them, and those that it starts itself."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from typing import IO, Protocol

from ..errors import RunError
from .job import Job

READY = b"ready\n"


class Crew(Protocol):
    """The other ranks."""

    def start(self, job: Job) -> None:
        """Give them their job; returns when all are ready to work."""

    def check(self) -> None:
        """Raise RunError when one has ended badly."""

    def finish(self) -> None:
        """Wait until all have ended."""

    def stop(self) -> None:
        """End them, whatever they do."""


class Spawned:
    """Ranks 1 to count - 1, as children of this process."""

    def __init__(self, count: int) -> None:
        self._ranks = [_Child(rank) for rank in range(1, count)]

    def start(self, job: Job) -> None:
        for rank in self._ranks:
            rank.give(job)
        for rank in self._ranks:
            rank.await_ready()

    def check(self) -> None:
        for rank in self._ranks:
            rank.check()

    def finish(self) -> None:
        for rank in self._ranks:
            rank.process.wait()
        self.check()

    def stop(self) -> None:
        for rank in self._ranks:
            rank.process.kill()
            rank.process.wait()
            rank.close()


class _Child:
    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._words: IO[bytes] = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.rank"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
        )

    def await_ready(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != READY:
            self.process.wait()
            self.check()

    def give(self, job: Job) -> None:
        assert self.process.stdin is not None
        try:
            pickle.dump((self._rank, os.getpid(), job), self.process.stdin)
            self.process.stdin.close()
        except BrokenPipeError:
            self.process.wait()
            self.check()

    def check(self) -> None:
        status = self.process.poll()
        if not status:
            return
        self._words.seek(0)
        words = self._words.read().decode(errors="replace").split("\n")
        said = next((line for line in reversed(words) if line.strip()), "")
        if status < 0:
            said = f"was ended by {signal.Signals(-status).name}"
        how = said.rstrip(".") or f"ended with status {status}"
        raise RunError(f"rank {self._rank} {how}; go on with --resume.")

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self._words):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


def check_parent(parent: int) -> None:
    """RunError when the process that supervises this one is gone."""
    if os.getppid() != parent:
        raise RunError("the process that started this rank is gone.")
