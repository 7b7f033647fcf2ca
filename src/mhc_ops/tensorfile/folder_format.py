"""A folder of raw little-endian, row-major .bin files, described by its manifest.json:

{"format": 1, "op": "MhcPreBackward", "attrs": {"hc_eps": 1e-6},
 "tensors": {"x": {"file": "x.bin", "dtype": "bfloat16", "shape": [1024, 4, 512]}, ...}}
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from ..errors import FileError
from .tensor_set import (
    Attr,
    Blank,
    Stored,
    StoredSet,
    TensorSet,
    attrs_of,
    dtype_name,
    dtype_of,
    parse_json,
)

_BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


def load(path: Path) -> TensorSet:
    found = locate(path)
    tensors = {name: _tensor(stored) for name, stored in found.tensors.items()}
    return TensorSet(tensors, found.op, found.attrs)


def locate(path: Path) -> StoredSet:
    manifest = path / "manifest.json"
    if not manifest.is_file():
        raise FileError("is a folder without a manifest.json")
    described = parse_json(manifest.read_bytes())
    if not isinstance(described, dict) or described.get("format") != 1:
        raise FileError('manifest.json must be an object with "format": 1')
    op = described.get("op")
    if not isinstance(op, str | None):
        raise FileError(f"manifest.json: op must be a string, got {op!r}")
    entries = described.get("tensors")
    if not isinstance(entries, dict):
        raise FileError('manifest.json must have an object "tensors"')
    tensors = {name: _stored(path, name, entry) for name, entry in entries.items()}
    return StoredSet(tensors, op, attrs_of(described.get("attrs")))


def save(path: Path, content: TensorSet) -> None:
    blanks = {name: Blank(t.dtype, tuple(t.shape)) for name, t in content.tensors.items()}
    places = lay_out(path, blanks, content.op, content.attrs)
    for name, tensor in content.tensors.items():
        bits = tensor.detach().cpu().contiguous().view(_BITS[tensor.dtype.itemsize]).numpy()
        little = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
        places[name].file.write_bytes(little.tobytes())


def lay_out(
    path: Path, tensors: Mapping[str, Blank], op: str | None, attrs: Mapping[str, Attr]
) -> dict[str, Stored]:
    """Write the manifest of a new folder; its .bin files, of the right size, are for the caller."""
    path.mkdir()
    entries: dict[str, Any] = {}
    places: dict[str, Stored] = {}
    taken: set[str] = set()
    for number, (name, blank) in enumerate(tensors.items()):
        file = quote(name, safe="") + ".bin"
        if len(file) > 200 or file.lower() in taken:  # one file each, also where case is ignored
            file = f"tensor-{number}.bin"
        taken.add(file.lower())
        dtype = dtype_name(blank.dtype)
        entries[name] = {"file": file, "dtype": dtype, "shape": list(blank.shape)}
        places[name] = Stored(path / file, 0, *blank)
    described = {"format": 1, "op": op, "attrs": dict(attrs), "tensors": entries}
    (path / "manifest.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return places


def tensor_of(folder: Path, name: str, entry: Any) -> Tensor:
    """One tensor by its entry in a manifest. Raises FileError, without the folder's name."""
    return _tensor(_stored(folder, name, entry))


def _stored(folder: Path, name: str, entry: Any) -> Stored:
    if not isinstance(entry, dict):
        raise FileError(f"manifest.json: {name} must be an object of file, dtype and shape")
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise FileError(f"manifest.json: the shape of {name} must be a list of sizes, got {shape}")
    file = _inside(folder, name, entry.get("file"))
    stored = Stored(file, 0, dtype_of(entry.get("dtype")), tuple(shape))
    found = file.stat().st_size
    if found != stored.nbytes:
        raise FileError(
            f"{file.name} has {found} bytes, but {name} {shape} in {dtype_name(stored.dtype)} takes"
            f" {stored.nbytes}"
        )
    return stored


def _tensor(stored: Stored) -> Tensor:
    file, _, dtype, shape = stored
    if not stored.nbytes:
        return torch.empty(shape, dtype=dtype)
    bits = np.fromfile(file, dtype=f"<u{dtype.itemsize}")
    tensor = torch.from_numpy(bits.astype(bits.dtype.newbyteorder("="), copy=False))
    if dtype == torch.bool and int(tensor.max()) > 1:
        raise FileError(f"{file.name} is bool but holds bytes other than 0 and 1")
    return tensor.view(_BITS[dtype.itemsize]).view(dtype).reshape(shape)


def _inside(folder: Path, name: str, file: object) -> Path:
    if not isinstance(file, str) or not file:
        raise FileError(f"manifest.json: {name} names no file")
    relative = PurePosixPath(file.replace("\\", "/"))
    inside = folder / relative
    escapes = relative.is_absolute() or ".." in relative.parts or "\0" in file
    if escapes or not inside.resolve().is_relative_to(folder.resolve()):
        raise FileError(f"manifest.json: the file of {name} lies outside the folder: {file!r}")
    if not inside.is_file():
        raise FileError(f"{file} of {name} is missing")
    return inside
