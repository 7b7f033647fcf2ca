"""What a run reads and what it will write, found out before anything is begun."""

import os
from collections.abc import Mapping
from contextlib import closing
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError
from ..tensorfile import Blank, Stored
from .operation import Operation
from .place import Place, Source, as_bytes, opened, read_at
from .sums import SumLayout


class Plan:
    """The inputs of a run by their part in it, and the shapes of its outputs.

    Raises ShapeError and whatever else the operator has to say of one token of these inputs, and
    ArgumentError when there is no token.
    """

    def __init__(self, operation: Operation, inputs: Mapping[str, Stored], device: str) -> None:
        self.operation, self.inputs = operation, inputs
        self.lead = operation.lead({name: stored.shape for name, stored in inputs.items()})
        self.tokens = prod(self.lead)
        if not self.tokens:
            shape = list(inputs[operation.leading].shape)
            raise ArgumentError(
                f"{operation.name}: {operation.leading} {shape} has no tokens to stream; leave the "
                f"streaming options out."
            )
        rows = operation.rows
        self.by_token = {name: self.place(name, s) for name, s in inputs.items() if name in rows}
        self.parameters = {name: _read(s) for name, s in inputs.items() if name not in rows}
        self.outputs = self._outputs(device)
        self.sums = SumLayout({name: b for name, b in self.outputs.items() if name not in rows})

    def place(self, name: str, stored: Stored) -> Place:
        """Where the rows of a tensor lie."""
        return Place(stored, self.operation.rows[name], self.lead)

    def identity(self) -> dict[str, Any]:
        """What tells these inputs from others."""
        return {name: _identity(stored) for name, stored in self.inputs.items()}

    def _outputs(self, device: str) -> dict[str, Blank]:
        """From a call with the first token alone."""
        token: dict[str, Tensor] = {}
        for name, place in self.by_token.items():
            with closing(Source(place)) as source:
                token[name] = source.take(0, 1).to(device)
        parameters = {name: t.to(device) for name, t in self.parameters.items()}
        found = {}
        for name, tensor in self.operation.call({**token, **parameters}).items():
            shape = tuple(tensor.shape)
            if name in self.operation.rows:
                shape = self.operation.rows[name].resized(shape, (1,), self.lead)
            found[name] = Blank(tensor.dtype, shape)
        return found


def _read(stored: Stored) -> Tensor:
    tensor = torch.empty(stored.shape, dtype=stored.dtype)
    with opened(stored.file, os.O_RDONLY) as file:
        read_at(file, as_bytes(tensor), stored.offset)
    return tensor


def _identity(stored: Stored) -> dict[str, Any]:
    found = stored.file.stat()
    return {
        "file": str(stored.file.resolve()),
        "bytes": found.st_size,
        "modified": found.st_mtime_ns,
        "offset": stored.offset,
        "dtype": str(stored.dtype).removeprefix("torch."),
        "shape": list(stored.shape),
    }
