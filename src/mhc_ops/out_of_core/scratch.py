"""The folder beside the target in which a run works, until one rename puts its output in place.

lock        held by every rank: exclusively to open or throw away the folder, else shared
run.json    what the run is; written when all is laid out, so without it nothing has begun
progress, durable    how far it is
job         what torchrun's ranks get from rank 0
output...   the output, at its full size
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, RunError
from .progress import Progress, flush_folder

_PATIENCE = 10.0  # seconds for the ranks of a killed run to end


class Scratch:
    """The folder of one run and this process's hold on it."""

    def __init__(self, target: Path) -> None:
        self.target = target.resolve()  # a link is written through, not replaced
        self.folder = self.target.with_name(f".{self.target.name[:100]}.mhc-run")
        self.output = self.folder / f"output{self.target.suffix}"
        self._aside = self.folder / "old"
        self._lock = -1

    def open(self) -> None:
        """Take the folder for a new rank 0, making it where there is none.

        Raises RunError when a run that is still alive has it.
        """
        deadline = time.monotonic() + _PATIENCE
        while not self._locked(fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise RunError(
                    f"{self.target}: another run is writing it; wait for that, or end it."
                )
            time.sleep(0.02)

    def share(self) -> None:
        """Let the other ranks in, or be one; RunError when another run has taken the folder."""
        if self._lock >= 0:
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        elif not self._locked(fcntl.LOCK_SH):
            raise RunError(f"{self.target}: another run has begun to write it.")

    @property
    def has_begun(self) -> bool:
        """Whether an unfinished run lies here."""
        return (self.folder / "run.json").exists()

    def clear(self) -> None:
        """Throw away what lies in the folder."""
        (self.folder / "run.json").unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if path.name == "lock":
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def describe(self, run: Mapping[str, Any]) -> None:
        """Say what the run is; from here on it can be resumed."""
        part = self.folder / "run.part"
        with part.open("w", encoding="utf-8") as file:
            json.dump(run, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / "run.json")
        flush_folder(self.folder)

    def check_same(self, run: Mapping[str, Any]) -> None:
        """ArgumentError when the unfinished run is another one than `run`."""
        begun = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        asked = json.loads(json.dumps(run))
        for key in asked:
            if begun.get(key) != asked[key]:
                was, now = _difference(begun.get(key), asked[key])
                raise ArgumentError(
                    f"--resume: the unfinished run in {self.folder} was begun with {key} {was}, "
                    f"not {now}; repeat it as it was, or delete that folder."
                )

    def publish(self) -> None:
        """Put the output in place of the target and remove the folder."""
        if self.output.exists():
            if self.target.is_dir():
                self.target.rename(self._aside)
            os.replace(self.output, self.target)
            flush_folder(self.target.parent)
        self.clear()
        self.remove()

    def leave(self, sum_bytes: int) -> None:
        """Let go of the folder, and remove it where nothing in it is worth keeping."""
        if self._lock >= 0 and self.folder.exists():
            keep = self.has_begun
            if keep:
                with closing(Progress(self.folder, sum_bytes)) as progress:
                    keep = progress.is_worth_keeping
            if not keep:
                self.remove()
        self.close()

    def remove(self) -> None:
        """Remove the folder and let go of it."""
        shutil.rmtree(self.folder)
        self.close()

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _locked(self, how: int) -> bool:
        if how == fcntl.LOCK_EX:
            self.folder.mkdir(exist_ok=True)
        name = self.folder / "lock"
        try:
            file = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # removed meanwhile by the run that had it
            return False
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            if os.stat(name).st_ino == os.fstat(file).st_ino:
                self._lock = file
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(file)
        return False


def _difference(was: Any, now: Any) -> tuple[str, str]:
    """The two values, or where both are objects the first entry in which they differ."""
    if not isinstance(was, dict) or not isinstance(now, dict):
        return json.dumps(was), json.dumps(now)
    key = next(k for k in sorted({*was, *now}) if was.get(k) != now.get(k))
    before, after = _difference(was.get(key), now.get(key))
    return f"{key}: {before}", f"{key}: {after}"
