"""Saves how far a run is through a crash of the machine, now and then, beside the work."""

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from .place import opened
from .progress import Progress

SECONDS = 30.0  # between two flushes


class Flusher:
    """A thread that flushes the outputs, then saves the state that was theirs before the flush."""

    def __init__(self, folder: Path, sum_bytes: int, outputs: Iterable[Path]) -> None:
        self._progress = Progress(folder, sum_bytes)
        self._outputs = sorted(set(outputs))
        self._end = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the OSError that a flush met."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """End the thread, after the flush that it may be in."""
        self._end.set()
        self._thread.join()
        self._progress.close()

    def _run(self) -> None:
        saved = 0
        try:
            while not self._end.wait(SECONDS):
                state = self._progress.state()
                if state.tokens > saved:
                    flush(self._outputs)
                    self._progress.save(state)
                    saved = state.tokens
        except OSError as error:
            self._failure = error


def flush(files: Iterable[Path]) -> None:
    """Wait until the files are on the disk."""
    for path in files:
        with opened(path, os.O_RDWR) as file:
            os.fsync(file)
