"""The .safetensors file; operator and attributes are its metadata: op, and one key per attribute.

Attributes may also come together, as a JSON object under `attrs`. The key `format`, which other
writers leave there, means nothing here.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from .tensor_set import (
    Attr,
    Blank,
    Stored,
    StoredSet,
    TensorSet,
    attr_of,
    attrs_of,
    dtype_name,
    dtype_of,
)

_HEADER = 8  # bytes of the header's length, which come first; the header is padded to as many


def load(path: Path) -> TensorSet:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        return TensorSet(tensors, *_described(file))


def locate(path: Path) -> StoredSet:
    with safe_open(path, framework="pt") as file:  # checks the header against the file's size
        described = _described(file)
    with path.open("rb") as raw:
        length = int.from_bytes(raw.read(_HEADER), "little")
        entries = json.loads(raw.read(length))
    entries.pop("__metadata__", None)
    tensors = {
        name: Stored(
            path,
            _HEADER + length + entry["data_offsets"][0],
            dtype_of(_full(entry["dtype"])),
            tuple(entry["shape"]),
        )
        for name, entry in entries.items()
    }
    return StoredSet(tensors, *described)


def save(path: Path, content: TensorSet) -> None:
    metadata = _metadata(content.op, content.attrs)
    tensors = {name: _own(tensor) for name, tensor in content.tensors.items()}
    save_file(tensors, path, metadata=metadata or None)  # an empty one makes an unreadable header


def lay_out(
    path: Path, tensors: Mapping[str, Blank], op: str | None, attrs: Mapping[str, Attr]
) -> dict[str, Stored]:
    """Write the header of a new file; its data, up to the right size, are for the caller."""
    metadata = _metadata(op, attrs)
    entries: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    end = 0
    # The widest first, so that every tensor is aligned; there may be no gaps.
    for name, (dtype, shape) in sorted(tensors.items(), key=lambda t: (-t[1].dtype.itemsize, t[0])):
        begin, end = end, end + math.prod(shape) * dtype.itemsize
        entries[name] = {
            "dtype": _short(dtype_name(dtype)),
            "shape": list(shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _HEADER)
    path.write_bytes(len(header).to_bytes(_HEADER, "little") + header)
    data = _HEADER + len(header)
    return {
        name: Stored(path, data + entries[name]["data_offsets"][0], *blank)
        for name, blank in tensors.items()
    }


def _described(file: Any) -> tuple[str | None, dict[str, Attr]]:
    """The operator and its attributes."""
    metadata = dict(file.metadata() or {})
    metadata.pop("format", None)
    op = metadata.pop("op", None)
    attrs = attrs_of(metadata.pop("attrs", None))
    attrs.update({name: attr_of(text) for name, text in metadata.items()})
    return op, attrs


def _metadata(op: str | None, attrs: Mapping[str, Attr]) -> dict[str, str]:
    metadata = {name: _text(value) for name, value in attrs.items()}
    if op is not None:
        metadata["op"] = op
    return metadata


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous and sharing memory with no other tensor, as the format demands."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _text(value: Attr) -> str:
    """The text that attr_of reads back as `value`."""
    return value if isinstance(value, str) and attr_of(value) == value else json.dumps(value)


_KINDS = {"bfloat": "BF", "float": "F", "uint": "U", "int": "I"}


def _short(dtype: str) -> str:
    """The format's name of a dtype: BF16 for bfloat16."""
    kind = dtype.rstrip("0123456789")
    return _KINDS[kind] + dtype[len(kind) :] if kind in _KINDS else dtype.upper()


def _full(name: str) -> str:
    """bfloat16 for BF16."""
    short = name.rstrip("0123456789")
    return next((k for k, s in _KINDS.items() if s == short), short) + name[len(short) :]
