"""aclnnMhcPre and aclnnMhcPreV2."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..ops.pre.api import mhc_pre_forward
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

_OUTPUTS = ("hin", "h_post", "h_res", "inv_rms", "h_mix", "h_pre")


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    alpha = required(views, "alpha")
    if len(alpha) == 2:
        views = {**views, "h_res": None}
    mhc_pre_forward(
        required(views, "x"),
        required(views, "phi"),
        alpha,
        required(views, "bias"),
        views["gamma"],
        norm_eps=attrs["norm_eps"],
        hc_eps=attrs["hc_eps"],
        # The sources disagree on 2*sigmoid + hcEps without residual part; the page and the newest
        # kernel snapshot that has it win.
        post_eps=attrs["hc_eps"] if len(alpha) == 2 else 0.0,
        precision="hf32" if attrs["op_impl_mode"] == 1 else "fp32",
        impl=impl,
        out=tuple(views[name] for name in _OUTPUTS),
    )


def aclnnMhcPreGetWorkspaceSize(
    x: aclTensor | None,
    phi: aclTensor | None,
    alpha: aclTensor | None,
    bias: aclTensor | None,
    gammaOptional: aclTensor | None,
    normEps: float,
    hcEps: float,
    hIn: aclTensor | None,
    hPost: aclTensor | None,
    hRes: aclTensor | None,
    invRmsOptional: aclTensor | None,
    hMixOptional: aclTensor | None,
    hPreOptional: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcPre in FP32 mode and size its workspace.

    Args:
        x: [B, S, n, D] or [T, n, D], BF16 or FP16. phi: [f, n*D]. alpha: [3], or [2] for no
            residual part. bias: [f]. gammaOptional: [n, D] or None. FP32 but x.
        normEps, hcEps: added to the mean square of x; to hPre (and to hPost for alpha [2]).
        hIn: [.., D] as x. hPost: [.., n]. hRes: [.., n, n], on A2 and A3 also [.., n!]; ignored for
            alpha [2]. invRmsOptional [..], hMixOptional [.., f], hPreOptional [.., n]: all or none.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcPre",
        "aclnnMhcPre",
        (
            *(x, phi, alpha, bias, gammaOptional, normEps, hcEps),
            *(hIn, hPost, hRes, invRmsOptional, hMixOptional, hPreOptional),
        ),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPre(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPreGetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcPre", workspace, workspaceSize, executor, stream)


def aclnnMhcPreV2GetWorkspaceSize(
    x: aclTensor | None,
    phi: aclTensor | None,
    alpha: aclTensor | None,
    bias: aclTensor | None,
    gammaOptional: aclTensor | None,
    normEps: float,
    hcEps: float,
    opImplMode: int,
    hIn: aclTensor | None,
    hPost: aclTensor | None,
    hRes: aclTensor | None,
    invRmsOptional: aclTensor | None,
    hMixOptional: aclTensor | None,
    hPreOptional: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """As `aclnnMhcPreGetWorkspaceSize`; opImplMode 1 is HF32, on ascend950 alone, 0 is FP32."""
    return first_phase(
        "MhcPre",
        "aclnnMhcPreV2",
        (
            *(x, phi, alpha, bias, gammaOptional, normEps, hcEps, opImplMode),
            *(hIn, hPost, hRes, invRmsOptional, hMixOptional, hPreOptional),
        ),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPreV2(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPreV2GetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcPreV2", workspace, workspaceSize, executor, stream)
