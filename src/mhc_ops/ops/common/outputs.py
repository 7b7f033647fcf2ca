"""Where results go: fresh tensors, the caller's `out`, or a copy into it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from ...errors import UnsupportedError

_NOTHING = nullcontext()


def allocate(
    layout: Any, out: Sequence[Tensor | None] | None, like: Tensor, kernels: Any
) -> list[Any]:
    """Contiguous tensors to write into: the caller's where they fit, fresh ones otherwise."""
    given = out or (None,) * len(layout)
    return [
        None
        if spec is None
        else target
        if target is not None and target.is_contiguous()
        else kernels.fresh(like, *spec)
        for spec, target in zip(layout, given, strict=True)
    ]


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
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs):
        raise UnsupportedError(
            f"{op}: out= does not record gradients, but an input requires grad; "
            f"use torch.no_grad() or leave out= away."
        )
