"""aclnnMhcSinkhorn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..ops.sinkhorn.api import sinkhorn_forward
from ..ops.sinkhorn.iterates import sinkhorn_iterates
from .executor import (
    OUT,
    FirstPhase,
    Handle,
    Views,
    aclOpExecutor,
    first_phase,
    required,
    second_phase,
)
from .runtime import aclrtStream
from .saved_iterates import store
from .tensor import aclTensor


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    logits, y = required(views, "h_res"), required(views, "y")
    norm_out, sum_out = views["norm_out"], views["sum_out"]
    wanted = norm_out is not None and sum_out is not None and norm_out.numel() != 1
    # Here either infinity gives NaN; the operator of this library takes -inf for a weight of 0.
    logits = logits.masked_fill(logits.isinf(), torch.nan)
    num_iters, eps = int(attrs["num_iters"]), attrs["eps"]
    saved = sinkhorn_iterates(logits, num_iters=num_iters, eps=eps) if wanted else None
    sinkhorn_forward(logits, num_iters=num_iters, eps=eps, impl=impl, out=(y, None, None))
    if saved is not None and norm_out is not None and sum_out is not None:
        saved.norm[-1].copy_(y)  # the last iterate is the output, to the bit
        store(saved, norm_out, sum_out)


def aclnnMhcSinkhornGetWorkspaceSize(
    x: aclTensor | None,
    eps: float,
    numIters: int,
    output: aclTensor | None,
    normOut: aclTensor | None,
    sumOut: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcSinkhorn, on ascend950 alone, and size its workspace.

    Args:
        x: residual logits [B, S, n, n] or [T, n, n] as [from, to]; NaN or an infinity gives NaN in
            its token. output: as x.
        eps: added to each softmax entry and to each sum, in [0, 1). numIters: 1..100.
        normOut [2*numIters*T*n*8], sumOut [2*numIters*T*8]: for aclnnMhcSinkhornBackward; both, or
            neither: None or a tensor of one element. All tensors are FP32.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcSinkhorn",
        "aclnnMhcSinkhorn",
        (x, eps, numIters, output, normOut, sumOut),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcSinkhorn(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcSinkhornGetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcSinkhorn", workspace, workspaceSize, executor, stream)
