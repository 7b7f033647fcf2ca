"""What is known about one model family of transformers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

Pair = tuple[type[nn.Module], type[nn.Module]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """Which classes of a modeling file have accelerated ones, each pair (theirs, ours).

    layer: the decoder layer; it must call the connections in its attributes attn_hc and ffn_hc.
    norm: the class of a connection's and a head's input_norm.
    options: every setting of the config that begins with "hc_".
    layer_kinds: attributes that change a layer's course, with what self_attn then returns, as a
        function of a tensor; for the check that both layers do the same.
    """

    name: str
    connection: Pair
    layer: Pair
    head: Pair | None
    norm: type[nn.Module]
    options: tuple[str, ...]
    layer_kinds: tuple[tuple[dict[str, Any], Callable[[Any], Any]], ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return (self.connection, self.layer, *([self.head] if self.head else []))

    def swap(self, model: nn.Module, *, back: bool = False) -> None:
        """Give every module of one class of a pair the other class."""
        for module in model.modules():
            for pair in self.pairs:
                old, new = reversed(pair) if back else pair
                if type(module) is old:
                    module.__class__ = new
                    break
