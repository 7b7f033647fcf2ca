"""A recorded run, read back from its JSONL."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FileError
from .journal import FORMAT, journal_file


class StepRecord(NamedTuple):
    """One recorded step. layers: one dict a layer, in the order of depth, as docs/monitor.md."""

    step: int
    time: float
    values: dict[str, float]
    layers: list[dict[str, Any]]


class Run(NamedTuple):
    """A run: its head, its recorded steps in ascending order, and remarks about the file."""

    path: Path
    head: dict[str, Any]
    steps: list[StepRecord]
    notes: list[str]


def read_run(path: str | Path) -> Run:
    """Read the JSONL at `path`, or the one in that folder.

    A half-written last line, as a killed run can leave it, is left out and noted. Of steps that a
    continued run recorded twice, the later record counts.

    Raises: FileError (an ArgumentError): no such file, not a monitor's, damaged before its end, of
            an unknown format, without a step, or of layers that changed on the way.
    """
    file = journal_file(path)
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        hint = "; give the .jsonl that Monitor wrote, or its folder" if not file.is_file() else ""
        raise FileError(f"report: cannot read {file}: {error.strerror}{hint}.") from None
    notes: list[str] = []
    lines = text.split("\n")
    if lines.pop():
        notes.append("The last line was not complete and is left out.")
    head: dict[str, Any] | None = None
    steps: dict[int, StepRecord] = {}
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            if record["kind"] == "run":
                head = _head(file, record, head)
            else:
                step = _step(record)
                steps[step.step] = step
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                f"report: line {number} of {file} is not a record of a monitor; take the line out "
                "if the file was damaged."
            ) from None
    if head is None or not steps:
        raise FileError(
            f"report: {file} has no recorded step yet; let the run go on and try again."
        )
    ordered = [steps[number] for number in sorted(steps)]
    names = [layer["name"] for layer in ordered[-1].layers]
    kept = [s for s in ordered if [layer["name"] for layer in s.layers] == names]
    if len(kept) < len(ordered):
        notes.append(
            f"{len(ordered) - len(kept)} steps in which other layers ran than in the last one are "
            "left out."
        )
    return Run(file, head, kept, notes)


def _head(file: Path, record: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    if record["format"] != FORMAT:
        raise FileError(
            f"report: {file} has format {record['format']!r}, this version reads {FORMAT}."
        )
    for key in ("streams", "layers"):
        if before is not None and before[key] != record[key]:
            raise FileError(
                f"report: {file} holds runs of models with different {key}; give each run its own "
                "folder."
            )
    return record


def _step(record: dict[str, Any]) -> StepRecord:
    values = {name: float(value) for name, value in record["values"].items()}
    layers = [_numbers(layer) for layer in record["layers"]]
    if record["kind"] != "step" or not layers:
        raise KeyError
    return StepRecord(int(record["step"]), float(record["time"]), values, layers)


def _numbers(layer: dict[str, Any]) -> dict[str, Any]:
    """The strings "nan", "inf" and "-inf" as the numbers they stand for."""

    def convert(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, list):
            return [convert(item) for item in value]
        return value if value is None else float(value)

    name = layer["name"]
    rest = convert({key: value for key, value in layer.items() if key != "name"})
    for key in _REQUIRED:
        rest[key]
    return {"name": name, **rest}


_REQUIRED = (
    *("gain_forward", "gain_backward", "single_forward", "single_backward"),
    *("h_res", "defect_row", "defect_column", "h_pre", "h_post", "grad_norm"),
)
