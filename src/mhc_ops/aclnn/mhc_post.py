"""aclnnMhcPost."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..ops.post.api import mhc_post_forward
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
from .tensor import aclTensor


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    mhc_post_forward(
        required(views, "x"),
        views["h_res"],
        required(views, "h_out"),
        required(views, "h_post"),
        impl=impl,
        out=required(views, "y"),
    )


def aclnnMhcPostGetWorkspaceSize(
    x: aclTensor | None,
    hRes: aclTensor | None,
    hOut: aclTensor | None,
    hPost: aclTensor | None,
    out: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcPost and size its workspace.

    Args:
        x: [B, S, n, D] or [T, n, D], BF16 or FP16. hRes: [.., n, n] as [from, to], FP32; None, on
            ascend950 alone, is the identity. hOut: [.., D] as x. hPost: [.., n] FP32.
        out: as x.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed. An empty input is a success with nothing to
        do.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcPost",
        "aclnnMhcPost",
        (x, hRes, hOut, hPost, out),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPost(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPostGetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcPost", workspace, workspaceSize, executor, stream)
