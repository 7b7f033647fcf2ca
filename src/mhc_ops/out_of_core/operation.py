"""What a run must know of an operator: which tensors have a row a token, and how those lie."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from torch import Tensor

from ..errors import ShapeError

Shape = tuple[int, ...]


class Rows(NamedTuple):
    """A tensor [*before, *lead, *after], where lead are the tokens' dimensions."""

    before: int = 0
    """How many dimensions come before the tokens'."""

    def outer(self, shape: Shape, lead: Shape) -> int:
        """How often the tokens repeat in memory; ShapeError when they are not there."""
        if shape[self.before : self.before + len(lead)] != lead:
            where = f" from dimension {self.before} on" if self.before else ""
            raise ShapeError(f"must have the tokens {list(lead)}{where}, got {list(shape)}")
        return prod(shape[: self.before])

    def resized(self, shape: Shape, lead: Shape, to: Shape) -> Shape:
        """The shape of the same tensor for tokens `to`."""
        return (*shape[: self.before], *to, *shape[self.before + len(lead) :])


class FlatRows(NamedTuple):
    """A tensor [outer * T * lanes]: one axis, in memory as [outer][T][lanes]."""

    lanes: int

    def outer(self, shape: Shape, lead: Shape) -> int:
        """How often the tokens repeat in memory; ShapeError when they are not there."""
        row = prod(lead) * self.lanes
        if len(shape) != 1 or shape[0] % row:
            raise ShapeError(
                f"must be flat, a multiple of T*{self.lanes} = {row}, got {list(shape)}"
            )
        return shape[0] // row

    def resized(self, shape: Shape, lead: Shape, to: Shape) -> Shape:
        """The shape of the same tensor for tokens `to`."""
        return (shape[0] // prod(lead) * prod(to),)


@dataclass(frozen=True)
class Operation:
    """An operator on named tensors.

    Inputs that `rows` does not name are parameters: every call gets them whole. Outputs that it
    does not name are sums over tokens, the parameters' gradients: those of one superblock must be
    what a call on its 256 tokens returns. Pickled for the other ranks.
    """

    name: str
    call: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
    """Runs it; the tokens of every tensor form one dimension."""
    rows: Mapping[str, Rows | FlatRows]
    leading: str
    """The input whose first dimensions are the tokens'."""
    tail: int
    """How many dimensions of `leading` follow the tokens'."""

    def lead(self, shapes: Mapping[str, Shape]) -> Shape:
        """The tokens' dimensions, the same in every input; ShapeError otherwise."""
        shape = shapes[self.leading]
        lead = shape[: len(shape) - self.tail]
        if len(lead) not in (1, 2):
            raise ShapeError(
                f"{self.name}: {self.leading} must have 1 or 2 dimensions of tokens before its "
                f"last {self.tail}, got {list(shape)}."
            )
        if prod(lead):
            for name, shape in shapes.items():
                if name in self.rows:
                    self._outer(name, shape, lead)
        return lead

    def _outer(self, name: str, shape: Shape, lead: Shape) -> int:
        try:
            return self.rows[name].outer(shape, lead)
        except ShapeError as error:
            raise ShapeError(f"{self.name}: {name} {error}, as {self.leading} has them.") from None
