"""The JSONL of a run: one line a record, whole lines only."""

import json
import math
from pathlib import Path
from typing import Any

from ..errors import FileError

FORMAT = 1
FILE_NAME = "monitor.jsonl"


def journal_file(path: str | Path) -> Path:
    """The file that a path means: itself where it ends in .jsonl, else one in that folder."""
    path = Path(path)
    return path if path.suffix == ".jsonl" else path / FILE_NAME


class Journal:
    """Appends records. Each is one write followed by a flush, so a killed run loses at most a line.

    A file that is there is continued; the half line that a killed run left is taken off first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+") as file:
                file.seek(0)
                end = file.read().rfind(b"\n") + 1
                file.truncate(end)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise FileError(f"Monitor: cannot write {path}: {error.strerror}.") from None

    def write(self, record: dict[str, Any]) -> None:
        """Append one record; NaN and infinities, which JSON lacks, become strings."""
        line = json.dumps(_plain(record), allow_nan=False, separators=(",", ":"))
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.8g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
