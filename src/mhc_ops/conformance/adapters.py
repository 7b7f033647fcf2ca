"""What computes: the protocol that an adapter fulfils, and the one of this library.

An adapter is a class with a `run` method, ten to twenty lines that bring a call to whatever is to
be judged (examples/torch_npu_adapter.py is one). Names are those of the operator definitions, which
`mhc-ops describe OP` lists.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..aclnn.compute import COMPUTE
from ..aclnn.spec import OPERATORS
from ..errors import ArgumentError
from ..types import Impl

Tensors = dict[str, Tensor | None]


class Wanted(NamedTuple):
    """An output that a case asks for."""

    dtype: torch.dtype
    shape: tuple[int, ...]


class Adapter(Protocol):
    """Brings calls of the operators to an implementation.

    run:  op is an operator's name ("MhcPreBackward"); inputs are all its input tensors by name, CPU
          tensors, None where a case leaves an optional one out; attrs are all its attributes;
          outputs are the wanted ones. Returns them by name, on any device. What the implementation
          cannot do is an UnsupportedError, which skips the case with its text; every other error
          fails it.
    """

    def run(
        self,
        op: str,
        inputs: Mapping[str, Tensor | None],
        attrs: Mapping[str, Any],
        outputs: Mapping[str, Wanted],
    ) -> Mapping[str, Tensor]: ...


class Ours:
    """This library, past the limits that only a chip has.

    impl: which implementation computes; `auto` takes what fits.
    """

    def __init__(self, impl: str = "auto") -> None:
        self.impl = Impl(impl).value

    def run(
        self,
        op: str,
        inputs: Mapping[str, Tensor | None],
        attrs: Mapping[str, Any],
        outputs: Mapping[str, Wanted],
    ) -> dict[str, Tensor]:
        views: Tensors = dict.fromkeys(t.name for t in OPERATORS[op].tensors)
        views.update(inputs)
        made = {
            name: torch.full(shape, torch.nan, dtype=dtype)
            for name, (dtype, shape) in outputs.items()
        }
        with torch.no_grad():
            COMPUTE[op]({**views, **made}, attrs, self.impl)
        return made


def eager_float32(
    op: str,
    inputs: Mapping[str, Tensor | None],
    attrs: Mapping[str, Any],
    outputs: Mapping[str, Wanted],
) -> dict[str, Tensor]:
    """Plain float32 torch on the same values, no output rounded to 16 bits: the bar of others."""
    wide = {name: None if t is None else t.float() for name, t in inputs.items()}
    wanted = {name: Wanted(torch.float32, shape) for name, (_, shape) in outputs.items()}
    return Ours("reference").run(op, wide, attrs, wanted)


def load_adapter(name: str) -> Adapter:
    """The adapter of a text such as "my_module:MyAdapter"; empty for the one of this library.

    Raises ArgumentError for a text that names no class with a `run` method, and for a class that
    cannot be made without arguments.
    """
    if not name:
        return Ours()
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError(
            f"adapter: expected MODULE:CLASS that can be imported, got {name!r}: {error}."
        ) from error
    try:
        adapter: Adapter = found()
    except Exception as error:
        raise ArgumentError(
            f"adapter: {name} cannot be made without arguments: {type(error).__name__}: {error}."
        ) from error
    if not callable(getattr(adapter, "run", None)):
        raise ArgumentError(f"adapter: {name} has no method run(op, inputs, attrs, outputs).")
    return adapter
