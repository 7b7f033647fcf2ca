"""What the commands share: exit statuses, consoles, tables, JSON, progress."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text
from torch import Tensor

from ..errors import FileError

GOOD, NOT_EQUAL, BAD_INPUT = 0, 1, 2

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def console() -> Console:
    """Standard output; lines of a pipe or a file are not cut to a terminal's width."""
    width = None if sys.stdout.isatty() else 160
    return _Console(width=width, highlight=False, markup=False, emoji=False)


class PipeClosed(Exception):
    """Nobody reads standard output any more. Not an OSError: rich and typer would exit on those."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise PipeClosed


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"mhc-ops: {' '.join(message.split())}", file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON object on standard output; NaN and infinities, which JSON lacks, become strings."""
    try:
        print(json.dumps(_plain(value), indent=1, allow_nan=False), flush=True)
    except BrokenPipeError as error:
        raise PipeClosed from error


def write_page(command: str, path: Path, page: str) -> None:
    """Write an HTML page, or FileError in one sentence."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{command}: cannot write {path}: {error.strerror}.") from None


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], header: bool = True
) -> Table:
    """A plain table; columns whose heading starts with `>` are aligned right."""
    result = Table(
        show_header=header, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold"
    )
    for column in columns:
        right = column.startswith(">")
        result.add_column(
            Text(column.lstrip(">")), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        result.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return result


def mark(good: bool, words: tuple[str, str] = ("ok", "OFF")) -> Text:
    return Text(words[0], "green") if good else Text(words[1], "bold red")


class Step:
    """Moves a bar by one, and may say what comes next."""

    def __init__(self, bar: Progress, total: int | None, what: str) -> None:
        self._bar = bar
        self._task = bar.add_task(what, total=total)

    def __call__(self, what: str | None = None) -> None:
        self._bar.update(self._task, advance=1, description=what)

    def to(self, done: int, total: int) -> None:
        """Set the bar: `done` of `total`."""
        self._bar.update(self._task, completed=done, total=total)


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Step]:
    """A bar on standard error, where that is a terminal; call the yielded step after each unit."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar:
        yield Step(bar, total, what)


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def shape_name(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
