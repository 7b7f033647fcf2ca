"""What a user asks `run` to do, and the report on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import ArgumentError
from ..tensorfile import Attr, Blank
from .names import Entry
from .operators import Operator, fold_operator
from .output import complain, console, print_json, table
from .published import PublishedOperator


@dataclass(frozen=True)
class Request:
    """An operator, its files, and the options that win over the file's attributes."""

    operator: Operator | PublishedOperator
    source: Path
    target: Path
    overrides: Mapping[str, Attr]
    device: torch.device
    impl: str

    def attrs(self, op: str | None, found: Mapping[str, Attr]) -> dict[str, Attr]:
        """The attributes of the run, where the file is for `op` and has those `found`."""
        name = self.operator.name
        if op is not None and fold_operator(op) != fold_operator(name):
            raise ArgumentError(f"{self.source}: its tensors are for {op}, not {name}.")
        return {**found, **self.overrides}

    def inputs(self, tensors: Mapping[str, Entry]) -> tuple[dict[str, Entry], list[str]]:
        """The operator's inputs, and the names of others, which are remarked on."""
        inputs, unused = self.operator.select(tensors)
        if unused:
            complain(f"not inputs of {self.operator.name}, left alone: {', '.join(unused)}.")
        return inputs, unused


def report(
    request: Request,
    impl: str,
    attrs: Mapping[str, Attr],
    outputs: Mapping[str, Blank],
    unused: list[str],
    seconds: float,
    more: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Say what was done; `more` is for JSON."""
    name = request.operator.name
    rows = {output: (_dtype(blank), blank.shape) for output, blank in outputs.items()}
    if as_json:
        described = {key: {"dtype": d, "shape": list(s)} for key, (d, s) in rows.items()}
        print_json(
            {
                "op": name,
                "impl": impl,
                "attrs": attrs,
                "in": str(request.source),
                "out": str(request.target),
                "outputs": described,
                "unused": unused,
                "seconds": seconds,
                **more,
            }
        )
        return
    out = console()
    sizes = [(key, d, "x".join(map(str, s)) or "scalar") for key, (d, s) in rows.items()]
    out.print(table(("output", "dtype", "shape"), sizes))
    out.print(f"{name} by impl '{impl}' in {seconds * 1e3:.1f} ms; written to {request.target}")


def _dtype(blank: Blank) -> str:
    return str(blank.dtype).removeprefix("torch.")
