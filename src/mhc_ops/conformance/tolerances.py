"""Which criterion an operator's published tests use, and where a stated tolerance gives way."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..testing.budgets import round_to, rounding_budget, unit_roundoff
from .criteria import Tolerance


def published_criterion(op: str | None) -> str:
    """The criterion of the framework's own tests of an operator."""
    return "pre-sinkhorn" if op == "MhcPreSinkhorn" else "framework"


def overflowing(truth: Tensor, dtype: torch.dtype) -> Tensor:
    """The truth with infinities where it is beyond the output's dtype: no result saturates."""
    rounded = round_to(truth, dtype)
    return torch.where(rounded.isinf(), rounded.double(), truth)


def attainable(
    op: str,
    name: str,
    stated: float | None,
    got: Tensor,
    inputs: Mapping[str, Tensor | None],
    truth: Tensor,
) -> Tolerance:
    """Absolute and relative tolerance: what is stated, but no less than FP32 can attain.

    The published tests compare with results of the same dtype, so some state 1e-4 for BF16, which
    one rounding exceeds: the relative part is at least that rounding. And they draw x of
    MhcPreSinkhorn up to 1e5: sums of n*D products reach 1e5 and cancel, and where little is left no
    FP32 accumulation is within 1e-4: the absolute part is at least what adding them costs.
    """
    own = 1e-3 if got.dtype is torch.float16 else 1e-4
    tolerance = own if stated is None else stated
    absolute = relative = tolerance
    if got.dtype in (torch.float16, torch.bfloat16):
        relative = max(relative, unit_roundoff(got.dtype))
    phi = inputs.get("phi")
    if op == "MhcPreSinkhorn" and name == "hc_before_norm" and phi is not None:
        cost = rounding_budget(got.dtype, phi.shape[1]) * float(truth.abs().max())
        absolute = max(absolute, cost)
    return absolute, relative
