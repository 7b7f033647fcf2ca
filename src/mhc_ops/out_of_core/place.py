"""Tensors in files, a range of tokens at a time."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import FileError
from ..tensorfile import Stored
from .operation import FlatRows, Rows, Shape


class Place(NamedTuple):
    """A tensor with a row a token in a file, in memory [outer][T][row bytes]."""

    stored: Stored
    rows: Rows | FlatRows
    lead: Shape

    @property
    def tokens(self) -> int:
        return prod(self.lead)

    @property
    def outer(self) -> int:
        return self.rows.outer(self.stored.shape, self.lead)

    @property
    def row_bytes(self) -> int:
        return self.stored.nbytes // (self.outer * self.tokens)

    def shape_of(self, count: int) -> Shape:
        """The shape for `count` tokens, which form one dimension."""
        return self.rows.resized(self.stored.shape, self.lead, (count,))

    def extents(self, first: int, stop: int) -> list[tuple[int, int]]:
        """(offset, bytes) in the file of tokens [first, stop), one for each outer index."""
        row, base = self.row_bytes, self.stored.offset
        return [
            (base + (index * self.tokens + first) * row, (stop - first) * row)
            for index in range(self.outer)
        ]


class Source:
    """An input in a file that is mapped a few superblocks at a time, so that nothing piles up."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._file = os.open(place.stored.file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def take(self, first: int, stop: int) -> Tensor:
        """Tokens [first, stop): the mapped file itself where they are in one piece and aligned."""
        place, dtype = self._place, self._place.stored.dtype
        shape = place.shape_of(stop - first)
        extents = place.extents(first, stop)
        if not prod(shape):
            return torch.empty(shape, dtype=dtype)
        offset, size = extents[-1]
        if os.fstat(self._file).st_size < offset + size:
            raise FileError(f"{place.stored.file}: has become shorter since the run began.")
        if len(extents) > 1 or offset % dtype.itemsize:
            pieces = [os.pread(self._file, size, offset) for offset, size in extents]
            return torch.frombuffer(bytearray().join(pieces), dtype=dtype).view(shape)
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY
        # A private copy that nobody writes to; torch warns about mappings that are read-only.
        window = mmap.mmap(self._file, offset + size - begin, access=mmap.ACCESS_COPY, offset=begin)
        count = size // dtype.itemsize
        return torch.frombuffer(window, dtype=dtype, count=count, offset=offset - begin).view(shape)

    def announce(self, first: int, stop: int) -> None:
        """Let the system read tokens [first, stop) ahead."""
        if hasattr(os, "posix_fadvise"):
            for offset, size in self._place.extents(first, stop):
                os.posix_fadvise(self._file, offset, size, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        os.close(self._file)


class Sink:
    """An output in a file that has its full size already."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._file = os.open(place.stored.file, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))

    def put(self, first: int, stop: int, tensor: Tensor) -> None:
        """Write tokens [first, stop)."""
        place = self._place
        bits = as_bytes(tensor.contiguous())
        begin = 0
        for offset, size in place.extents(first, stop):
            write_at(self._file, bits[begin : begin + size], offset)
            begin += size

    def close(self) -> None:
        os.close(self._file)


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A file by its number, closed afterwards."""
    file = os.open(path, flags, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def as_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, shared with it."""
    return tensor.detach().reshape(-1).view(torch.uint8).numpy().data


def write_at(file: int, data: memoryview, offset: int) -> None:
    """Write all of it; a system call may write less."""
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def read_at(file: int, data: memoryview, offset: int) -> None:
    """Fill it, or EOFError."""
    while data:
        count = os.preadv(file, [data], offset)
        if not count:
            raise EOFError
        data, offset = data[count:], offset + count
