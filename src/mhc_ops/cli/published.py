"""Operators that `run` takes from their aclnn tables: names, attributes, sizes of the outputs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..aclnn import infer_shape
from ..aclnn.codes import DTYPE_NAMES
from ..aclnn.compute import COMPUTE
from ..aclnn.host import is_of_type
from ..aclnn.spec import OPERATORS
from ..aclnn.spec.language import OperatorSpec
from ..aclnn.tensor import TORCH_DTYPES
from ..errors import ArgumentError
from ..impls import resolve
from ..ops.common.checking import parse_impl
from ..tensorfile import Attr
from ..types import Impl
from .names import Entry, hint, select

_DTYPES = {DTYPE_NAMES[number]: dtype for number, dtype in TORCH_DTYPES.items()}
_KINDS = {"int64_t": "an integer", "bool": "true or false"}
_FLAGS = ("out_flag", "need_backward")


@dataclass(frozen=True)
class PublishedOperator:
    """An operator on named tensors, by its table and what its second phase computes.

    function: the public function whose implementations serve it; empty for eager torch alone.
    """

    name: str
    function: str

    @property
    def table(self) -> OperatorSpec:
        return OPERATORS[self.name]

    @property
    def required(self) -> tuple[str, ...]:
        return self._inputs(optional=False)

    @property
    def optional(self) -> tuple[str, ...]:
        return self._inputs(optional=True)

    def _inputs(self, optional: bool) -> tuple[str, ...]:
        tensors = self.table.tensors
        return tuple(t.name for t in tensors if t.kind == "input" and t.optional is optional)

    def select(self, tensors: Mapping[str, Entry]) -> tuple[dict[str, Entry], list[str]]:
        """The operator's own inputs, and the names of tensors that belong to its partner."""
        pair = self.name.removesuffix("Backward")
        known = {t.name for name in (pair, f"{pair}Backward") for t in OPERATORS[name].tensors}
        return select(self.name, self.required, self.optional, known, tensors)

    def keywords(self, attrs: Mapping[str, Attr]) -> dict[str, Any]:
        """All attributes of the table, those given in place of the defaults."""
        values: dict[str, Any] = {a.name: a.default for a in self.table.attrs}
        for name, value in attrs.items():
            spec = next((a for a in self.table.attrs if a.name == name), None)
            if spec is None and value is None:
                continue
            if spec is None:
                known = f"known are {', '.join(values)}" if values else "it has none"
                raise ArgumentError(
                    f"{self.name}: unknown attribute {name!r}{hint(name, values)}; {known}."
                )
            if not is_of_type(value, spec.type):
                kind = _KINDS.get(spec.type, "a number")
                raise ArgumentError(f"{self.name}: {name} must be {kind}, got {value!r}.")
            if isinstance(value, float) and not math.isfinite(value):
                raise ArgumentError(f"{self.name}: {name} must be finite, got {value}.")
            if name in _FLAGS and value not in (0, 1):
                raise ArgumentError(f"{self.name}: {name} must be 0 or 1, got {value!r}.")
            values[name] = value
        return values

    def call(self, inputs: Mapping[str, Tensor], keywords: Mapping[str, Any], impl: str) -> Any:
        """Results by name; None for saved tensors that a flag leaves out."""
        found = infer_shape(self.name, inputs, keywords)
        if not found.shapes:
            raise ArgumentError(found.message)
        first = next(iter(inputs.values()))
        saving = all(keywords.get(flag, True) for flag in _FLAGS)
        views: dict[str, Tensor | None] = dict.fromkeys(t.name for t in self.table.tensors)
        views.update(inputs)
        for name, shape in found.shapes.items():
            spec = self.table.tensor(name)
            if saving or not (spec and spec.optional):
                wide = first.dtype is torch.float64
                dtype = torch.float64 if wide else _DTYPES[found.dtypes[name]]
                views[name] = torch.empty(shape, dtype=dtype, device=first.device)
        COMPUTE[self.name](views, keywords, impl)
        return {name: views[name] for name in found.shapes}

    def chosen(self, inputs: Mapping[str, Tensor], impl: str) -> Impl:
        """The implementation that serves these inputs."""
        wanted = parse_impl(self.name, impl)
        if not self.function:
            return Impl.REFERENCE
        return resolve(self.function, wanted, next(iter(inputs.values())))

    def outputs(self, result: Any, attrs: Mapping[str, Attr]) -> dict[str, Tensor]:
        """The tensors that a call returned, by name."""
        return {name: tensor for name, tensor in result.items() if tensor is not None}


PUBLISHED = (
    PublishedOperator("MhcPost", "mhc_post_forward"),
    PublishedOperator("MhcPostBackward", "mhc_post_backward"),
    PublishedOperator("MhcSinkhorn", "sinkhorn_forward"),
    PublishedOperator("MhcSinkhornBackward", ""),
    PublishedOperator("MhcPreSinkhorn", "mhc_pre_forward"),
    PublishedOperator("MhcPreSinkhornBackward", "mhc_pre_backward"),
)
