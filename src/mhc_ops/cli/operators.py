"""The operators that `run` can run: their tensors and attributes, and how to call them.

MhcPre and MhcPreBackward go by the names of the Python functions, the six others by those of the
operator definitions.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .. import mhc_pre_backward, mhc_pre_forward
from ..errors import ArgumentError
from ..impls import resolve
from ..ops.common.checking import parse_impl
from ..tensorfile import Attr
from ..types import Impl
from .names import Entry, hint, select
from .published import PUBLISHED, PublishedOperator

_PRE = ("x", "phi", "alpha", "bias")
_UPSTREAM = ("grad_h_in", "grad_h_post", "grad_h_res")
_SAVED = ("inv_rms", "h_mix", "h_pre", "h_post")
_PARAMETERS = ("phi", "alpha", "bias", "gamma")
_GRADIENTS = ("grad_x", *(f"grad_{name}" for name in _PARAMETERS))
_EVERY_TENSOR = {*_PRE, "gamma", *_UPSTREAM, *_SAVED, "grad_x_post", "h_in", "h_res", *_GRADIENTS}
BY_TOKEN = _EVERY_TENSOR - {*_PARAMETERS, *_GRADIENTS[1:]}
"""The tensors of MhcPre and MhcPreBackward with a row a token; the others are whole or sums."""

_MODES = {0: "fp32", 1: "hf32"}


@dataclass(frozen=True)
class Operator:
    """An operator on named tensors; attributes go by the op definition's names."""

    name: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    epsilons: tuple[str, ...]
    flagged: tuple[str, ...] = ()
    """Outputs that the attribute out_flag switches off with 0."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of all attributes, `precision` as another spelling of op_impl_mode."""
        flag = ("out_flag",) if self.flagged else ()
        return (*self.epsilons, *flag, "op_impl_mode", "precision")

    def select(self, tensors: Mapping[str, Entry]) -> tuple[dict[str, Entry], list[str]]:
        """The operator's own inputs, and the names of tensors that belong to its partner."""
        return select(self.name, self.required, self.optional, _EVERY_TENSOR, tensors)

    def keywords(self, attrs: Mapping[str, Attr]) -> dict[str, Any]:
        """The function's keyword arguments for these attributes."""
        words: dict[str, Any] = {}
        for name, value in attrs.items():
            if name in self.epsilons:
                words[name] = self._finite(name, value)
            elif name == "precision":
                words["precision"] = value
            elif name not in self.attributes:
                raise ArgumentError(
                    f"{self.name}: unknown attribute {name!r}{hint(name, self.attributes)}; "
                    f"known are {', '.join(self.attributes)}."
                )
        self._zero_or_one("out_flag", attrs)
        mode = self._zero_or_one("op_impl_mode", attrs)
        if mode is not None:
            precision = _MODES[mode]
            if words.setdefault("precision", precision) != precision:
                raise ArgumentError(
                    f"{self.name}: op_impl_mode {mode} contradicts precision "
                    f"{words['precision']!r}; give one of them."
                )
        return words

    def call(self, inputs: Mapping[str, Tensor], keywords: Mapping[str, Any], impl: str) -> Any:
        """Run the function; missing optional tensors are None."""
        arguments: dict[str, Any] = dict.fromkeys((*self.required, *self.optional))
        return self.function(**{**arguments, **inputs}, **keywords, impl=impl)

    def chosen(self, inputs: Mapping[str, Tensor], impl: str) -> Impl:
        """The implementation that serves these inputs."""
        function = self.function.__name__
        return resolve(function, parse_impl(function, impl), inputs["x"])

    def outputs(self, result: Any, attrs: Mapping[str, Attr]) -> dict[str, Tensor]:
        """The tensors that a call returned, by name, without those that out_flag 0 drops."""
        dropped = self.flagged if attrs.get("out_flag") == 0 else ()
        return {
            name: tensor
            for name, tensor in result._asdict().items()
            if tensor is not None and name not in dropped
        }

    def _zero_or_one(self, name: str, attrs: Mapping[str, Attr]) -> int | None:
        value = attrs.get(name)
        if value is not None and (isinstance(value, bool | str) or value not in (0, 1)):
            raise ArgumentError(f"{self.name}: {name} must be 0 or 1, got {value!r}.")
        return None if value is None else int(value)

    def _finite(self, name: str, value: Attr) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ArgumentError(f"{self.name}: {name} must be a number, got {value!r}.")
        if not math.isfinite(value):
            raise ArgumentError(f"{self.name}: {name} must be finite, got {value}.")
        return float(value)


OPERATORS: dict[str, Operator | PublishedOperator] = {
    operator.name: operator
    for operator in (
        Operator(
            "MhcPre",
            mhc_pre_forward,
            _PRE,
            ("gamma",),
            ("norm_eps", "hc_eps", "post_eps"),
            ("inv_rms", "h_mix", "h_pre"),
        ),
        Operator(
            "MhcPreBackward",
            mhc_pre_backward,
            ("x", "phi", "alpha", "grad_h_in", "grad_h_post", *_SAVED),
            ("grad_h_res", "gamma", "grad_x_post"),
            ("hc_eps", "post_eps"),
        ),
        *PUBLISHED,
    )
}


def find_operator(name: str) -> Operator | PublishedOperator:
    """The operator of that name: MhcPre, mhc_pre and aclnnMhcPre are one."""
    for operator in OPERATORS.values():
        if fold_operator(name) == fold_operator(operator.name):
            return operator
    raise ArgumentError(f"unknown operator {name!r}; known are {', '.join(OPERATORS)}.")


def fold_operator(name: str) -> str:
    """A form of an operator's name in which its spellings coincide."""
    return name.replace("_", "").lower().removeprefix("aclnn")
