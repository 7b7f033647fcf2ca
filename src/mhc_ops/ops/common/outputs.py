"""Where results go: fresh tensors, the caller's `out`, or a copy into it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ...errors import UnsupportedError
from . import memory

_NOTHING = nullcontext()


def allocate(
    layout: Any, out: Sequence[Tensor | None] | None, inputs: Sequence[Tensor | None], kernels: Any
) -> list[Any]:
    """Contiguous tensors to write into: the caller's where they fit, fresh ones otherwise.

    A target on an input's memory does not fit: the kernels still read there while they write.
    """
    like = inputs[0]
    if out is None:
        return [None if spec is None else kernels.fresh(like, *spec) for spec in layout]
    read = [t for t in inputs if t is not None]
    return [
        target if fits(target, read) else None if spec is None else kernels.fresh(like, *spec)
        for spec, target in zip(layout, out, strict=True)
    ]


def fits(target: Tensor | None, read: Sequence[Tensor]) -> bool:
    """Whether a kernel may write straight into `target` while it reads the others."""
    if target is None or not target.is_contiguous():
        return False
    return not any(memory.may_overlap(target, t) for t in read)


def hand_over(results: Sequence[Tensor | None], out: Sequence[Tensor | None] | None) -> list[Any]:
    """The results, copied into those `out` tensors that were not written in place."""
    if out is None:
        return list(results)
    final: list[Tensor | None] = []
    for result, target in zip(results, out, strict=True):
        if result is None or target is None or result is target:
            final.append(result)
        else:
            with torch.no_grad():
                final.append(target.copy_(result))
    return final


def fresh(like: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An empty tensor for an output."""
    return like.new_empty(shape, dtype=dtype)


def contiguous(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.contiguous()


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """The operators keep their own numerics under autocast."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else _NOTHING


def refuse_out(op: str, *inputs: Tensor | None) -> None:
    """`out` is written past autograd and past a traced graph: say so, lose no gradient."""
    if torch.compiler.is_compiling():
        raise UnsupportedError(
            f"{op}: out= is for eager calls; leave it out, torch.compile plans the memory itself."
        )
    if any(isinstance(t, Tensor) and t.is_neg() for t in inputs):
        raise UnsupportedError(
            f"{op}: out= reads no lazily negated input; give that tensor's .resolve_neg()."
        )
    for t in inputs:
        if isinstance(t, Tensor) and is_traceable_wrapper_subclass(t):
            raise UnsupportedError(
                f"{op}: out= writes where plain tensors lie, but an input is a {type(t).__name__}; "
                f"leave out= away, or call on its local tensor."
            )
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        raise UnsupportedError(
            f"{op}: out= does not record gradients, but an input requires grad; "
            f"use torch.no_grad() or leave out= away."
        )
