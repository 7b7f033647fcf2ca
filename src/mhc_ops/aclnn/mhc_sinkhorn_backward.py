"""aclnnMhcSinkhornBackward."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..errors import UnsupportedError
from ..ops.sinkhorn.iterates import backward_from_iterates
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
from .saved_iterates import load
from .tensor import aclTensor


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    if impl not in ("auto", "reference"):
        raise UnsupportedError(
            f"MhcSinkhornBackward: impl={impl!r} cannot run here: the backward from saved iterates "
            f"is eager torch alone; use impl='auto'."
        )
    grad_y = required(views, "grad_y")
    lead, n = tuple(grad_y.shape[:-2]), grad_y.shape[-1]
    saved = load(required(views, "norm"), required(views, "sum"), lead, n)
    required(views, "grad_input").copy_(backward_from_iterates(grad_y, saved))


def aclnnMhcSinkhornBackwardGetWorkspaceSize(
    gradOutput: aclTensor | None,
    normOut: aclTensor | None,
    sumOut: aclTensor | None,
    out: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcSinkhornBackward, on ascend950 alone, and size its workspace.

    Args:
        gradOutput: [B, S, n, n] or [T, n, n]. normOut [2*numIters*T*n*8], sumOut [2*numIters*T*8]:
            what aclnnMhcSinkhorn wrote here; their sizes give numIters. out: as gradOutput. All
            are FP32.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed. An empty gradOutput is a success with
        nothing to do.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcSinkhornBackward",
        "aclnnMhcSinkhornBackward",
        (gradOutput, normOut, sumOut, out),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcSinkhornBackward(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcSinkhornBackwardGetWorkspaceSize` validated; as for `second_phase`."""
    return second_phase("aclnnMhcSinkhornBackward", workspace, workspaceSize, executor, stream)
