"""A checkpoint on disk: one .safetensors file, or a folder of shards with or without an index."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ...errors import FileError
from .conventions import METADATA_KEY, Stored
from .safetensors_io import Entry, read_header

INDEX = "model.safetensors.index.json"
SIDECAR = "convention.json"


class Checkpoint(NamedTuple):
    """tensors: every tensor of the checkpoint by name. metadata: text pairs of each file.
    stored: what was written beside the tensors, or None.
    """

    tensors: Mapping[str, Entry]
    metadata: Mapping[Path, Mapping[str, str]]
    stored: Stored | None


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Read the headers of a checkpoint: a .safetensors file, an index.json, or their folder.

    Raises FileError when a file is missing, damaged, or contradicts the index.
    """
    path = Path(path)
    try:
        return _open(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _open(path: Path) -> Checkpoint:
    if not path.exists():
        raise FileError(f"{path}: no such file or folder.")
    if path.is_dir():
        index = path / INDEX
        if not index.is_file():
            others = sorted(path.glob("*.safetensors.index.json"))
            index = others[0] if len(others) == 1 else index
        if index.is_file():
            return _indexed(index)
        files = sorted(path.glob("*.safetensors"))
        if not files:
            raise FileError(f"{path}: holds no .safetensors file.")
        return _joined(files, path / SIDECAR)
    if path.name.endswith(".index.json"):
        return _indexed(path)
    if path.suffix != ".safetensors":
        raise FileError(
            f"{path}: unknown format {path.suffix or '(no ending)'}; give a .safetensors file, a "
            f"folder of them or its {INDEX}."
        )
    return _joined([path], sidecar_of(path))


def sidecar_of(path: Path) -> Path:
    """Where the convention of a checkpoint lies: beside a file, in a folder."""
    if path.suffix == ".safetensors" and not path.is_dir():
        return path.with_name(f"{path.name.removesuffix('.safetensors')}.{SIDECAR}")
    return path / SIDECAR


def _indexed(index: Path) -> Checkpoint:
    try:
        weight_map = json.loads(index.read_bytes())["weight_map"]
        files = sorted(set(weight_map.values()))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(f'{index}: must be JSON with an object "weight_map" ({error}).') from error
    for file in files:
        if not isinstance(file, str) or Path(file).name != file or "\\" in file:
            raise FileError(f"{index}: names {file!r}, which is no file beside it.")
    found = _joined([index.parent / file for file in files], index.parent / SIDECAR)
    lying = {name: entry.path.name for name, entry in found.tensors.items()}
    for name in weight_map.keys() | lying.keys():
        if weight_map.get(name) != lying.get(name):
            raise FileError(
                f"{index}: has {name} in {weight_map.get(name, 'no file')}, but it is in "
                f"{lying.get(name, 'none')}."
            )
    return found


def _joined(files: list[Path], sidecar: Path) -> Checkpoint:
    tensors: dict[str, Entry] = {}
    metadata: dict[Path, Mapping[str, str]] = {}
    told: list[tuple[Path, Stored]] = []
    for file in files:
        if not file.is_file():
            raise FileError(f"{file}: no such file.")
        found, metadata[file] = read_header(file)
        for name, entry in found.items():
            if name in tensors:
                raise FileError(f"{name} is both in {tensors[name].path} and in {file}.")
            tensors[name] = entry
        if METADATA_KEY in metadata[file]:
            told.append((file, _stored(file, metadata[file][METADATA_KEY])))
    if sidecar.is_file():
        told.append((sidecar, _stored(sidecar, sidecar.read_bytes())))
    for place, stored in told[1:]:
        if stored != told[0][1]:
            raise FileError(
                f"{told[0][0]} and {place} name different conventions; remove the wrong one."
            )
    return Checkpoint(tensors, metadata, told[0][1] if told else None)


def _stored(path: Path, text: str | bytes) -> Stored:
    try:
        return Stored.from_json(text)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
