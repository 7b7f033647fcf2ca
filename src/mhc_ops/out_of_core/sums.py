"""The parameters' gradients of a run: one buffer of bytes that holds them all."""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from ..tensorfile import Blank

_ALIGNMENT = 64


class SumLayout:
    """Where each gradient lies in a buffer of `nbytes`."""

    def __init__(self, blanks: Mapping[str, Blank]) -> None:
        self._blanks = dict(blanks)
        self._offsets: dict[str, int] = {}
        self.nbytes = 0
        for name, (dtype, shape) in blanks.items():
            self._offsets[name] = self.nbytes
            size = prod(shape) * dtype.itemsize
            self.nbytes += -(-size // _ALIGNMENT) * _ALIGNMENT

    def views(self, buffer: Tensor) -> dict[str, Tensor]:
        """The gradients in a buffer, by name."""
        found = {}
        for name, (dtype, shape) in self._blanks.items():
            begin = self._offsets[name]
            found[name] = buffer[begin : begin + prod(shape) * dtype.itemsize].view(dtype)
            found[name] = found[name].view(shape)
        return found

    def add(self, total: Tensor, part: Tensor) -> None:
        """total += part."""
        parts = self.views(part)
        for name, view in self.views(total).items():
            view.add_(parts[name])

    def buffer(self, *lead: int) -> Tensor:
        """Fresh buffers of zeros, which take up memory as they are written."""
        return torch.zeros(*lead, self.nbytes, dtype=torch.uint8)
