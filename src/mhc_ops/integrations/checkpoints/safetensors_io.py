"""The .safetensors format read and written in pieces, so that no tensor need fit into memory.

A file is: the length of the header (8 bytes, little-endian), the header (JSON: for each name dtype,
shape and the bytes' place in the data; text pairs under __metadata__), the data.
"""

import ctypes
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import FileError

CHUNK = 8 << 20
_LARGEST_HEADER = 100_000_000

_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "C64": 64,
}
_TORCH = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
_NAMES = {dtype: name for name, dtype in _TORCH.items()}


class Entry(NamedTuple):
    """One tensor in a file: `begin` and `size` in bytes from the file's start."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int
    size: int

    def meta(self) -> Tensor:
        """A meta tensor of its shape; int8 stands for whatever no parameter of ours can be."""
        try:
            return torch.empty(self.shape, dtype=_TORCH.get(self.dtype, torch.int8), device="meta")
        except (RuntimeError, TypeError) as error:  # more elements than 64 bits can count
            raise FileError(f"{self.path}: no tensor has the shape {list(self.shape)}.") from error

    def load(self) -> Tensor:
        """The tensor itself; for the few that are converted."""
        data = bytearray()
        for piece in self.pieces():
            data += piece
        if not data:
            return torch.empty(self.shape, dtype=_TORCH[self.dtype])
        return torch.frombuffer(data, dtype=_TORCH[self.dtype]).reshape(self.shape)

    def pieces(self) -> Iterator[memoryview]:
        """The bytes in pieces of CHUNK; each is overwritten by the next."""
        piece, left = memoryview(bytearray(min(CHUNK, self.size))), self.size
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(self.begin)
                while left:
                    got = file.readinto(piece[: min(len(piece), left)])
                    if not got:
                        raise FileError(f"{self.path}: has become shorter while it was read.")
                    yield piece[:got]
                    left -= got
        except OSError as error:
            raise FileError(f"{self.path}: cannot be read ({error.strerror or error}).") from error


def read_header(path: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    """The tensors of a file, in its order, and its metadata.

    Raises FileError when the header is damaged or the data is cut off.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LARGEST_HEADER):
                raise FileError(f"{path}: is no .safetensors file, or is cut off.")
            header = json.loads(file.read(length))
            metadata = header.pop("__metadata__", {})
            found = {name: _entry(path, name, entry, 8 + length) for name, entry in header.items()}
    except FileError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(f"{path}: has a damaged header ({error}).") from error
    _check_places(path, found, 8 + length, size)
    if not isinstance(metadata, dict) or not all(isinstance(t, str) for t in metadata.values()):
        raise FileError(f"{path}: its metadata must be text.")
    return found, metadata


class Planned(NamedTuple):
    """A tensor to be written: its dtype's name, shape and bytes."""

    dtype: str
    shape: tuple[int, ...]
    size: int

    @classmethod
    def like(cls, meta: Tensor) -> "Planned":
        return cls(_NAMES[meta.dtype], tuple(meta.shape), meta.numel() * meta.itemsize)


def in_file_order(tensors: Mapping[str, Planned]) -> list[str]:
    """Wider dtypes first, then by name, as the format's own writer does: all are aligned."""
    return sorted(tensors, key=lambda name: (-_BITS.get(tensors[name].dtype, 8), name))


def header_of(tensors: Mapping[str, Planned], metadata: Mapping[str, str]) -> bytes:
    """The file's beginning, for tensors in file order; a multiple of 8 bytes."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name in in_file_order(tensors):
        dtype, shape, size = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def bytes_of(tensor: Tensor) -> bytes:
    """The bytes of a tensor, row-major."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return ctypes.string_at(flat.data_ptr(), flat.nbytes)  # Tensor.numpy would need numpy


def _entry(path: Path, name: str, entry: Any, start: int) -> Entry:
    dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    numbers = (*shape, begin, end)
    if not isinstance(dtype, str) or not all(type(n) is int and n >= 0 for n in numbers):
        raise FileError(f"{path}: the header's entry of {name} is damaged.")
    bits = _BITS.get(dtype)
    if end < begin or (bits is not None and (end - begin) * 8 != math.prod(shape) * bits):
        raise FileError(f"{path}: {name} {list(shape)} in {dtype} cannot take {end - begin} bytes.")
    return Entry(path, dtype, shape, start + begin, end - begin)


def _check_places(path: Path, found: Mapping[str, Entry], start: int, size: int) -> None:
    """The tensors lie one behind the other and fill the file."""
    at = start
    for name, entry in sorted(found.items(), key=lambda item: (item[1].begin, item[1].size)):
        if entry.begin != at:
            raise FileError(f"{path}: {name} overlaps another tensor or leaves a gap.")
        at += entry.size
    if at != size:
        raise FileError(
            f"{path}: holds {size - start} bytes of data, its header says {at - start}."
        )
