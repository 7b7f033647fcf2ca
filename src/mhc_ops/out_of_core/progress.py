"""How far a run is: tokens [0, n) are finished, with the sums over them.

Two slots in a file, and the one with more tokens counts; a rank whose turn it is fills the other
one, sums first. What is written survives the end of any process, since the system holds it. A crash
of the machine may lose it in any order, so slots are marked with the boot of the system, and now
and then the state is also saved durably: after the outputs it speaks of, in a file of its own.
"""

import functools
import os
import struct
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import FileError
from .place import as_bytes, opened, read_at, write_at

_HEADER = struct.Struct("<q36s")  # tokens, boot
_ROOM = 64  # bytes for a header
_TRIES = 100
_UNKNOWN = b"unknown"


class State(NamedTuple):
    """Tokens [0, tokens) are finished, and `sums` are over them."""

    tokens: int
    sums: Tensor


class Progress:
    """The state of a run in its scratch folder, read by all ranks and advanced by one at a time."""

    def __init__(self, folder: Path, sum_bytes: int) -> None:
        self._size = sum_bytes
        self._step = _ROOM + sum_bytes
        self._durable = folder / "durable"
        self._file = os.open(folder / "progress", os.O_RDWR | os.O_CREAT, 0o666)

    def begin(self, state: State) -> None:
        """Start from a state, and give the file its full size."""
        reserve(self._file, 2 * self._step)
        for slot in (0, 1):
            self._write_header(slot, -1)
        self._write(0, state)

    @property
    def tokens(self) -> int:
        """How many tokens are finished; -1 when nothing that counts is there."""
        return max(self._tokens_in(slot) for slot in (0, 1))

    def state(self) -> State:
        """The newest state."""
        for _ in range(_TRIES):
            slot = self._newest()
            tokens = self._tokens_in(slot)
            state = State(tokens, self._sums_at(self._file, slot * self._step + _ROOM))
            if self._newest() == slot:  # nobody began to fill it meanwhile
                return state
        raise FileError("the state of the run changes too fast to be read.")

    def recover(self) -> None:
        """After a crash of the machine, start from what was saved durably, or from nothing."""
        if boot_id() != _UNKNOWN and self.tokens >= 0:
            return
        try:
            saved = self._saved()
        except FileNotFoundError:
            saved = State(0, torch.zeros(self._size, dtype=torch.uint8))
        self.begin(saved)

    def advance(self, state: State) -> None:
        """Put a newer state in place; for the rank whose turn it is alone."""
        self._write(1 - self._newest(), state)

    def save(self, state: State) -> None:
        """Keep a state through a crash of the machine; the outputs are to be flushed before."""
        part = self._durable.with_suffix(".part")
        with opened(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            header = bytearray(_ROOM)
            _HEADER.pack_into(header, 0, state.tokens, b"")
            write_at(file, memoryview(header), 0)
            write_at(file, as_bytes(state.sums), _ROOM)
            os.fsync(file)
        os.replace(part, self._durable)
        flush_folder(self._durable.parent)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether anything is finished, or was before a crash of the machine."""
        return self.tokens > 0 or self._durable.exists()

    def close(self) -> None:
        os.close(self._file)

    def _saved(self) -> State:
        with opened(self._durable, os.O_RDONLY) as file:
            header = bytearray(_ROOM)
            read_at(file, memoryview(header), 0)
            return State(_HEADER.unpack_from(header)[0], self._sums_at(file, _ROOM))

    def _newest(self) -> int:
        return int(self._tokens_in(1) > self._tokens_in(0))

    def _tokens_in(self, slot: int) -> int:
        header = os.pread(self._file, _HEADER.size, slot * self._step)
        if len(header) < _HEADER.size:
            return -1
        tokens, boot = _HEADER.unpack(header)
        return int(tokens) if boot.rstrip(b"\0") == boot_id() else -1

    def _write(self, slot: int, state: State) -> None:
        write_at(self._file, as_bytes(state.sums), slot * self._step + _ROOM)
        self._write_header(slot, state.tokens)

    def _write_header(self, slot: int, tokens: int) -> None:
        header = bytearray(_HEADER.pack(tokens, boot_id()))
        write_at(self._file, memoryview(header), slot * self._step)

    def _sums_at(self, file: int, offset: int) -> Tensor:
        sums = torch.empty(self._size, dtype=torch.uint8)
        read_at(file, as_bytes(sums), offset)
        return sums


@functools.cache
def boot_id() -> bytes:
    """What tells this boot of the system from another, where it says."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    except OSError:
        return _UNKNOWN


def reserve(file: int, size: int) -> None:
    """Give an open file its size and, where the system can, its place on the disk."""
    os.ftruncate(file, size)
    if hasattr(os, "posix_fallocate") and size:
        os.posix_fallocate(file, 0, size)


def flush_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    with opened(folder, os.O_RDONLY) as file:
        os.fsync(file)
