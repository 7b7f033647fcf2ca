"""Checks that every operator makes in the same words: tensors, `out` tuples, implementation names.

One sentence an error: operator, argument, expected in symbols and numbers, received, next step.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ...errors import ArgumentError, DeviceError, DtypeError, ShapeError
from ...types import Impl
from .memory import overlaps_itself, share_bytes

X_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def parameter_dtype(x: Tensor) -> torch.dtype:
    """The dtype of parameters and gates beside x: float32, or float64 beside float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check_streams(op: str, x: Tensor, name: str = "x") -> None:
    """Check that `x` is a [B, S, N, D] or [T, N, D] tensor of a dtype that operators take."""
    check_is_tensor(op, name, x)
    if x.dim() not in (3, 4):
        raise ShapeError(
            f"{op}: {name} must be [B, S, N, D] or [T, N, D], got {list(x.shape)}; "
            f"add or merge leading dimensions."
        )
    if x.shape[-2] < 1 or x.shape[-1] < 1:
        raise ShapeError(f"{op}: {name} must have N >= 1 and D >= 1, got {list(x.shape)}.")
    if x.dtype not in X_DTYPES:
        raise DtypeError(
            f"{op}: {name} must be bfloat16, float16, float32 or float64, got {x.dtype}."
        )


class Contract:
    """The tensors that one call expects beside its leading one.

    like: the tensor that gives leading dimensions and device, called `subject` in messages.
    lead: its leading dimensions. sizes: what the symbols in a shape stand for.
    """

    def __init__(
        self,
        op: str,
        like: Tensor,
        lead: tuple[int, ...],
        sizes: Mapping[str, int],
        subject: str = "x",
    ) -> None:
        self.op, self.like, self.lead, self.sizes, self.subject = op, like, lead, sizes, subject

    def check(
        self, name: str, tensor: Tensor, symbols: tuple[str, ...], dtype: torch.dtype
    ) -> None:
        """Check one tensor; symbols are names of sizes, ".." for leading dimensions, or digits."""
        check_is_tensor(self.op, name, tensor)
        shape: list[int] = []
        for symbol in symbols:
            if symbol == "..":
                shape += self.lead
            else:
                shape.append(self.sizes[symbol] if symbol in self.sizes else int(symbol))
        if tuple(tensor.shape) != tuple(shape):
            raise ShapeError(
                f"{self.op}: {name} must be [{', '.join(symbols)}] = {shape} for {self.subject} "
                f"{list(self.like.shape)}, got {list(tensor.shape)}."
            )
        if tensor.dtype != dtype:
            raise DtypeError(_dtype_text(self.op, name, tensor.dtype, dtype))
        if tensor.device != self.like.device:
            raise DeviceError(
                f"{self.op}: {name} must be on {self.like.device} as {self.subject}, got "
                f"{tensor.device}; move it with .to({str(self.like.device)!r})."
            )


def parse_impl(op: str, impl: str | Impl) -> Impl:
    try:
        return Impl(impl)
    except ValueError:
        names = ", ".join(repr(i.value) for i in Impl)
        raise ArgumentError(f"{op}: impl must be one of {names}, got {impl!r}.") from None


def check_out(op: str, out: Sequence[Tensor | None], layout: Any, x: Tensor) -> None:
    """Check a caller's `out` tuple against the layout; None entries are for us to allocate."""
    names = layout._fields
    if not isinstance(out, (tuple, list)) or len(out) != len(names):
        got = f"{len(out)} entries" if isinstance(out, (tuple, list)) else describe(out)
        raise ArgumentError(
            f"{op}: out must be a tuple of {len(names)} entries ({', '.join(names)}), got {got}."
        )
    for name, given, expected in zip(names, out, layout, strict=True):
        if given is None:
            continue
        if expected is None:
            raise ArgumentError(
                f"{op}: out.{name} must be None because this call does not compute it, "
                f"got {describe(given)}."
            )
        check_target(op, f"out.{name}", given, expected, x)
    present = [(name, t) for name, t in zip(names, out, strict=True) if t is not None]
    for i, (name, a) in enumerate(present):
        for other, b in present[:i]:
            if share_bytes(a, b):
                raise ArgumentError(
                    f"{op}: out.{name} must not share memory with out.{other}; "
                    f"give each result its own tensor."
                )


def check_target(op: str, name: str, given: Tensor, expected: Any, x: Tensor) -> None:
    """Check one tensor to write into against its (shape, dtype)."""
    check_is_tensor(op, name, given)
    if is_traceable_wrapper_subclass(given):
        raise ArgumentError(
            f"{op}: {name} must be a plain tensor, got a {type(given).__name__}; leave it out."
        )
    shape, dtype = expected
    if tuple(given.shape) != tuple(shape):
        raise ShapeError(f"{op}: {name} must be {list(shape)}, got {list(given.shape)}.")
    if given.dtype != dtype:
        raise DtypeError(f"{op}: {name} must be {dtype}, got {given.dtype}.")
    if given.device != x.device:
        raise DeviceError(f"{op}: {name} must be on {x.device} as x, got {given.device}.")
    if overlaps_itself(given):
        raise ArgumentError(
            f"{op}: {name} must have one place in memory for each element, got strides "
            f"{list(given.stride())}; pass a tensor that is not expanded."
        )
    if given.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"{op}: {name} requires grad, and out= writes past autograd; pass a detached tensor."
        )


def parse_wanted(op: str, wanted: Iterable[str] | None, gradients: Sequence[str]) -> list[bool]:
    """Which of `gradients` to compute; names with or without their "grad_", None for all."""
    if wanted is None:
        return [True] * len(gradients)
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise ArgumentError(
            f"{op}: wanted must be a collection of names such as ({gradients[0]!r},), "
            f"got {wanted!r}."
        )
    names = {w if str(w).startswith("grad_") else f"grad_{w}" for w in wanted}
    if not names <= set(gradients):
        raise ArgumentError(
            f"{op}: wanted may name {', '.join(gradients)}, got {sorted(names - set(gradients))}."
        )
    return [name in names for name in gradients]


def check_is_tensor(op: str, name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentError(f"{op}: {name} must be a tensor, got {type(value).__name__}.")
    if value.layout is not torch.strided:
        raise ArgumentError(
            f"{op}: {name} must be a dense tensor, got {value.layout}; use .to_dense()."
        )


def check_are_tensors(op: str, optional: Sequence[str] = (), **values: object) -> None:
    """Check types before a registered operator does, whose own error would print the data."""
    for name, value in values.items():
        if value is not None or name not in optional:
            check_is_tensor(op, name, value)


def describe(value: object) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def _dtype_text(op: str, name: str, got: torch.dtype, expected: torch.dtype) -> str:
    text = f"{op}: {name} must be {expected}, got {got}"
    if name in ("phi", "alpha", "bias", "gamma", "out_bias") and got in (
        torch.bfloat16,
        torch.float16,
    ):
        return (
            f"{text}; mHC parameters stay in float32 when a model is cast, so exclude them from "
            f".to(), .half(), .bfloat16() and from the mixed-precision policy."
        )
    return f"{text}; cast it with .to({expected})."
