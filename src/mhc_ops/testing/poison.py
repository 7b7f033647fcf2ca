"""NaN where a result is still to be written, so that whatever is forgotten shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..types import MhcPreBackward, MhcPreForward
from .inputs import PreInputs


def poison(*tensors: Tensor | None) -> None:
    """Fill floating-point tensors with NaN in place; None is passed over."""
    for t in tensors:
        if t is not None:
            t.fill_(math.nan)


@contextmanager
def nan_scratch() -> Iterator[None]:
    """Let torch.empty and its kin return NaN-filled memory inside the block.

    Uses torch's deterministic mode, which also raises for operators without a deterministic form.
    """
    enabled = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)


def poisoned_pre_forward(inputs: PreInputs) -> MhcPreForward:
    """NaN-filled outputs of the forward of this case, contiguous, for `out=`."""
    lead, n = inputs.x.shape[:-2], inputs.x.shape[-2]

    def nan(*shape: int) -> Tensor:
        return inputs.phi.new_full((*lead, *shape), math.nan)

    return MhcPreForward(
        h_in=torch.full_like(inputs.grad_h_in, math.nan, memory_format=torch.contiguous_format),
        h_post=nan(n),
        h_res=None if inputs.grad_h_res is None else nan(*inputs.grad_h_res.shape[len(lead) :]),
        inv_rms=nan(),
        h_mix=nan(inputs.phi.shape[0]),
        h_pre=nan(n),
    )


def poisoned_pre_backward(inputs: PreInputs) -> MhcPreBackward:
    """NaN-filled gradients of this case, contiguous, for `out=`; grad_gamma None without gamma."""

    def nan(t: Tensor) -> Tensor:
        return torch.full_like(t, math.nan, memory_format=torch.contiguous_format)

    return MhcPreBackward(
        grad_x=nan(inputs.x),
        grad_phi=nan(inputs.phi),
        grad_alpha=nan(inputs.alpha),
        grad_bias=nan(inputs.bias),
        grad_gamma=None if inputs.gamma is None else nan(inputs.gamma),
    )
