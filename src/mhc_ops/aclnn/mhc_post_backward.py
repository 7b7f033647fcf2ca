"""aclnnMhcPostBackward."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..ops.post.api import mhc_post_backward
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

_OUTPUTS = ("grad_x", "grad_h_res", "grad_h_out", "grad_h_post")


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    mhc_post_backward(
        required(views, "grad_y"),
        required(views, "x"),
        views["h_res"],
        required(views, "h_out"),
        required(views, "h_post"),
        impl=impl,
        out=(*(views[name] for name in _OUTPUTS), None),
    )


def aclnnMhcPostBackwardGetWorkspaceSize(
    gradOutput: aclTensor | None,
    x: aclTensor | None,
    hRes: aclTensor | None,
    hOut: aclTensor | None,
    hPost: aclTensor | None,
    gradX: aclTensor | None,
    gradHres: aclTensor | None,
    gradHout: aclTensor | None,
    gradHpost: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcPostBackward and size its workspace.

    Args:
        gradOutput: [B, S, n, D] or [T, n, D], BF16 or FP16. x: as gradOutput. hRes: [.., n, n] as
            [from, to], FP32; None, on ascend950 alone, is the identity. hOut: [.., D] as x.
            hPost: [.., n] FP32.
        gradX: as x. gradHres: [.., n, n] FP32, computed without hRes too. gradHout: as hOut.
            gradHpost: [.., n] FP32.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcPostBackward",
        "aclnnMhcPostBackward",
        (gradOutput, x, hRes, hOut, hPost, gradX, gradHres, gradHout, gradHpost),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPostBackward(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPostBackwardGetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcPostBackward", workspace, workspaceSize, executor, stream)
