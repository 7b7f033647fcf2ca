"""aclnnMhcPreSinkhornBackward, by way of the backward operators of its two parts."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..errors import ShapeError
from ..ops.pre.api import mhc_pre_backward
from ..ops.sinkhorn.api import sinkhorn_backward
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
    """Exact where the published formula is so up to hcEps: the iterates are recomputed.

    Of sumOut and normOut the number of iterations is all that is used, as in the newest published
    composition; hPost and the logits come from hcBeforeNorm.
    """
    x, grad_hin, grad_x = (required(views, name) for name in ("x", "grad_hin", "grad_x"))
    alpha, bias = required(views, "alpha"), required(views, "bias")
    h_mix, inv_rms = required(views, "hc_before_norm"), required(views, "inv_rms")
    n, steps, eps = x.shape[-2], len(required(views, "sum_out")), attrs["eps"]
    if steps < 2 or steps % 2 or h_mix.shape[-1] != n * n + 2 * n:
        raise ShapeError(
            f"MhcPreSinkhornBackward: sumOut must have 2*numIters rows and hcBeforeNorm n*n+2n = "
            f"{n * n + 2 * n} columns, got {steps} and {h_mix.shape[-1]}."
        )
    _, post, res = (h_mix * inv_rms).split([n, n, n * n], -1)
    h_post = 2 * (post * alpha[1] + bias[n : 2 * n]).sigmoid()
    logits = (res * alpha[2] + bias[2 * n :]).unflatten(-1, (n, n))
    grad_logits = sinkhorn_backward(
        logits,
        required(views, "grad_h_res").reshape(logits.shape),
        num_iters=steps // 2,
        eps=eps,
        impl=impl,
    )
    mixed = x.dtype != grad_hin.dtype  # the call does not compare them: round once, at the end
    result = mhc_pre_backward(
        x.float() if mixed else x,
        required(views, "phi"),
        alpha,
        grad_hin.float() if mixed else grad_hin,
        required(views, "grad_h_post"),
        grad_logits,
        inv_rms.squeeze(-1),
        h_mix,
        required(views, "h_pre"),
        h_post,
        hc_eps=eps,
        impl=impl,
        out=(
            None if mixed else grad_x,
            *(views[name] for name in ("grad_phi", "grad_alpha", "grad_bias")),
            None,
        ),
    )
    if mixed and result.grad_x is not None:
        grad_x.copy_(result.grad_x)


def aclnnMhcPreSinkhornBackwardGetWorkspaceSize(
    gradHin: aclTensor | None,
    gradHPost: aclTensor | None,
    gradHRes: aclTensor | None,
    x: aclTensor | None,
    phi: aclTensor | None,
    alpha: aclTensor | None,
    bias: aclTensor | None,
    hPre: aclTensor | None,
    hcBeforeNorm: aclTensor | None,
    invRms: aclTensor | None,
    sumOut: aclTensor | None,
    normOut: aclTensor | None,
    hcEps: float,
    gradX: aclTensor | None,
    gradPhi: aclTensor | None,
    gradAlpha: aclTensor | None,
    gradBias: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcPreSinkhornBackward and size its workspace.

    Args:
        gradHin: [.., D] BF16 or FP16. gradHPost: [.., n]. gradHRes: [.., n, n] or [.., n*n].
        x: [B, S, n, D] or, on ascend950 alone, [T, n, D]; BF16 or FP16. phi: [n*n+2n, n*D].
            alpha: [3]. bias: [n*n+2n]. hPre [.., n], hcBeforeNorm [.., n*n+2n], invRms [.., 1],
            sumOut [2*numIters, .., n], normOut [2*numIters, .., n, n]: what the forward wrote.
            FP32 but x and gradHin.
        hcEps: the forward's.
        gradX: [.., n, D] in the type of gradHin. gradPhi, gradAlpha, gradBias: as phi, alpha, bias.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed. An empty input, but phi, alpha and bias, is
        a success with nothing to do: no gradient is written.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcPreSinkhornBackward",
        "aclnnMhcPreSinkhornBackward",
        (
            *(gradHin, gradHPost, gradHRes, x, phi, alpha, bias),
            *(hPre, hcBeforeNorm, invRms, sumOut, normOut, hcEps),
            *(gradX, gradPhi, gradAlpha, gradBias),
        ),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPreSinkhornBackward(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPreSinkhornBackwardGetWorkspaceSize` validated; as for `second_phase`."""
    return second_phase("aclnnMhcPreSinkhornBackward", workspace, workspaceSize, executor, stream)
