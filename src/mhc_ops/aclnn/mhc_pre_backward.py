"""aclnnMhcPreBackward and aclnnMhcPreBackwardV2."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..ops.pre.api import mhc_pre_backward
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

_OUTPUTS = ("grad_x", "grad_phi", "grad_alpha", "grad_bias", "grad_gamma")


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    grad_gamma = views["grad_gamma"]
    if views["gamma"] is None and grad_gamma is not None:
        views = {**views, "grad_gamma": None}
    mhc_pre_backward(
        required(views, "x"),
        required(views, "phi"),
        required(views, "alpha"),
        required(views, "grad_h_in"),
        required(views, "grad_h_post"),
        required(views, "grad_h_res"),
        required(views, "inv_rms"),
        required(views, "h_mix"),
        required(views, "h_pre"),
        required(views, "h_post"),
        views["gamma"],
        views["grad_x_post"],
        hc_eps=attrs["hc_eps"],
        precision="hf32" if attrs["op_impl_mode"] == 1 else "fp32",
        impl=impl,
        out=tuple(views[name] for name in _OUTPUTS),
    )
    if views["gamma"] is None and grad_gamma is not None:
        grad_gamma.zero_()


def aclnnMhcPreBackwardGetWorkspaceSize(
    x: aclTensor | None,
    phi: aclTensor | None,
    alpha: aclTensor | None,
    gradHIn: aclTensor | None,
    gradHPost: aclTensor | None,
    gradHRes: aclTensor | None,
    invRms: aclTensor | None,
    hMix: aclTensor | None,
    hPre: aclTensor | None,
    hPost: aclTensor | None,
    gammaOptional: aclTensor | None,
    gradXPostOptional: aclTensor | None,
    hcEps: float,
    gradX: aclTensor | None,
    gradPhi: aclTensor | None,
    gradAlpha: aclTensor | None,
    gradBias: aclTensor | None,
    gradGamma: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcPreBackward in FP32 mode and size its workspace.

    Args:
        x: [B, S, n, D] or [T, n, D], BF16 or FP16. phi: [f, n*D]. alpha: [3]. gradHIn: [.., D] as
            x. gradHPost: [.., n]. gradHRes: [.., n, n], on A2 and A3 also [.., n!]. invRms [..],
            hMix [.., f], hPre [.., n], hPost [.., n]: what the forward wrote. FP32 but x and
            gradHIn.
        gammaOptional: [n, D] FP32, or None for ones. gradXPostOptional: as x, or None for zeros.
        hcEps: the forward's.
        gradX: as x. gradPhi [f, n*D], gradAlpha [3], gradBias [f]: FP32. gradGamma: [n, D] FP32,
            may be None without gammaOptional and becomes zeros if it is not.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcPreBackward",
        "aclnnMhcPreBackward",
        (
            *(x, phi, alpha, gradHIn, gradHPost, gradHRes, invRms, hMix, hPre, hPost),
            *(gammaOptional, gradXPostOptional, hcEps),
            *(gradX, gradPhi, gradAlpha, gradBias, gradGamma),
        ),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPreBackward(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPreBackwardGetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcPreBackward", workspace, workspaceSize, executor, stream)


def aclnnMhcPreBackwardV2GetWorkspaceSize(
    x: aclTensor | None,
    phi: aclTensor | None,
    alpha: aclTensor | None,
    gradHIn: aclTensor | None,
    gradHPost: aclTensor | None,
    gradHRes: aclTensor | None,
    invRms: aclTensor | None,
    hMix: aclTensor | None,
    hPre: aclTensor | None,
    hPost: aclTensor | None,
    gammaOptional: aclTensor | None,
    gradXPostOptional: aclTensor | None,
    hcEps: float,
    opImplMode: int,
    gradX: aclTensor | None,
    gradPhi: aclTensor | None,
    gradAlpha: aclTensor | None,
    gradBias: aclTensor | None,
    gradGamma: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """As `aclnnMhcPreBackwardGetWorkspaceSize`; opImplMode 1 is HF32, 0 is FP32."""
    return first_phase(
        "MhcPreBackward",
        "aclnnMhcPreBackwardV2",
        (
            *(x, phi, alpha, gradHIn, gradHPost, gradHRes, invRms, hMix, hPre, hPost),
            *(gammaOptional, gradXPostOptional, hcEps, opImplMode),
            *(gradX, gradPhi, gradAlpha, gradBias, gradGamma),
        ),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPreBackwardV2(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPreBackwardV2GetWorkspaceSize` validated; as for `second_phase`."""
    return second_phase("aclnnMhcPreBackwardV2", workspace, workspaceSize, executor, stream)
