"""Where an output is off: by element, by stream, by block of tokens, in units of its dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...aclnn.spec.language import TensorSpec
from ...testing.budgets import absolute_errors

TOKEN_BLOCKS, WORST = 16, 10


class Element(NamedTuple):
    """One element; `at` are its coordinates by axis, such as t=3, i=1, d=17."""

    at: str
    got: float
    want: float
    error: float
    ulps: float
    share: float


class Group(NamedTuple):
    """A stream or a run of tokens: largest and root mean square error, elements outside."""

    name: str
    max_error: float
    rms_error: float
    outside: int
    size: int


class Errors(NamedTuple):
    """Errors of one output, all in the shape of the output, float64."""

    error: Tensor
    ulps: Tensor
    share: Tensor
    """The error as a share of what the element is allowed; above 1 it is outside its bound."""

    @property
    def outside(self) -> Tensor:
        """Elements outside their bound (bool)."""
        return self.share > 1


def ulp(truth: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance of neighbouring numbers of `dtype` around each element of `truth`."""
    info = torch.finfo(dtype)
    _, exponent = torch.frexp(truth.abs().nan_to_num(nan=0.0, posinf=0.0))
    spacing = torch.ldexp(torch.full_like(truth, info.eps), exponent - 1)
    return spacing.clamp(min=info.smallest_normal * info.eps)


def measure(got: Tensor, truth: Tensor, allowed: Tensor) -> Errors:
    """Errors of `got` against float64 `truth` and what each element is allowed."""
    error = absolute_errors(got, truth)
    return Errors(error, error / ulp(truth, got.dtype), error / allowed)


def axes_of(spec: TensorSpec, tensor: Tensor) -> tuple[str, ...]:
    """A letter for each dimension: b, s or t for tokens, i and j for streams, d, k for the rest."""
    names: list[str] = []
    for token in spec.shape.split():
        if token == "*lead":
            leading = tensor.dim() - len(spec.shape.split()) + 1
            names += ["b", "s"] if leading == 2 else ["t"]
        elif token == "n":
            names.append("j" if "i" in names else "i")
        else:
            names.append("d" if token == "D" else "k" if "k" not in names else "l")
    return tuple(names) if len(names) == tensor.dim() else tuple("xyzuvw"[: tensor.dim()])


def coordinates(axes: Sequence[str], shape: Sequence[int], flat: int) -> str:
    """The place of a flat index: t=3, i=1, d=17."""
    place: list[str] = []
    for axis, length in zip(reversed(axes), reversed(shape), strict=True):
        flat, here = divmod(flat, length)
        place.insert(0, f"{axis}={here}")
    return ", ".join(place)


def worst_elements(got: Tensor, truth: Tensor, found: Errors, axes: Sequence[str]) -> list[Element]:
    """The elements with the largest errors, those outside their bounds before all others."""
    error = found.error.flatten()
    rank = error.nan_to_num(posinf=torch.finfo(torch.float64).max / 2)
    rank = rank + found.outside.flatten() * rank.max()
    chosen = rank.topk(min(WORST, len(rank))).indices.tolist()
    flat_got, flat_truth = got.flatten(), truth.flatten()
    return [
        Element(
            coordinates(axes, got.shape, i),
            float(flat_got[i]),
            float(flat_truth[i]),
            float(error[i]),
            float(found.ulps.flatten()[i]),
            float(found.share.flatten()[i]),
        )
        for i in chosen
        if float(error[i]) > 0
    ]


def by_stream(found: Errors, axes: Sequence[str]) -> list[Group]:
    """Errors of each stream; for a map by the stream read (from) and the one written (to)."""
    groups = []
    for axis, words in (("i", "from " if "j" in axes else "stream "), ("j", "to ")):
        if axis in axes and ("t" in axes or "s" in axes):
            dim = axes.index(axis)
            for stream in range(found.error.shape[dim]):
                groups.append(_group(f"{words}{stream}", found, dim, slice(stream, stream + 1)))
    return groups


def by_token_block(found: Errors, axes: Sequence[str]) -> list[Group]:
    """Errors of at most 16 runs of tokens of equal length, a power of two."""
    tokens = token_major(found, axes)
    if tokens is None:
        return []
    count = len(tokens.error)
    length = 1 << max(0, math.ceil(math.log2(count / TOKEN_BLOCKS)))
    return [
        _group(
            f"{first}..{min(first + length, count) - 1}", tokens, 0, slice(first, first + length)
        )
        for first in range(0, count, length)
    ]


def token_major(found: Errors, axes: Sequence[str]) -> Errors | None:
    """The errors as [tokens, rest]; None for an output that has no tokens."""
    if "t" not in axes and "s" not in axes:
        return None

    def turned(values: Tensor) -> Tensor:
        lead = [axes.index(a) for a in ("b", "s", "t") if a in axes]
        rest = [d for d in range(values.dim()) if d not in lead]
        ordered = values.permute(*lead, *rest)
        return ordered.reshape(math.prod(ordered.shape[: len(lead)]), -1)

    return Errors(*(turned(values) for values in found))


def _group(name: str, found: Errors, dim: int, part: slice) -> Group:
    index: list[Any] = [slice(None)] * found.error.dim()
    index[dim] = part
    error, outside = found.error[tuple(index)], found.outside[tuple(index)]
    return Group(
        name,
        float(error.max()),
        float(error.square().mean().sqrt()),
        int(outside.sum()),
        error.numel(),
    )
