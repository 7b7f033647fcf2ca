"""aclnnMhcPreSinkhorn: MhcPre without gamma, then MhcSinkhorn on its residual logits."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..errors import ArgumentError
from ..ops.pre.api import mhc_pre_forward
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
from .tensor import aclTensor


def compute(views: Views, attrs: Mapping[str, float], impl: str = "auto") -> None:
    x, hin, h_res = required(views, "x"), required(views, "hin"), required(views, "h_res")
    n, num_iters, eps = x.shape[-2], int(attrs["num_iters"]), attrs["hc_eps"]
    if attrs["hc_mult"] != n:
        raise ArgumentError(f"MhcPreSinkhorn: hc_mult must be n = {n}, got {attrs['hc_mult']}.")
    saving = bool(attrs["need_backward"])
    mixed = hin.dtype != x.dtype  # the call does not compare them: round to hin's once, at the end
    pre = mhc_pre_forward(
        x.float() if mixed else x,
        required(views, "phi"),
        required(views, "alpha"),
        required(views, "bias"),
        norm_eps=attrs["norm_eps"],
        hc_eps=eps,
        impl=impl,
        out=(
            None if mixed else hin,
            required(views, "h_post"),
            None,
            required(views, "inv_rms").squeeze(-1) if saving else None,
            required(views, "hc_before_norm") if saving else None,
            required(views, "h_pre") if saving else None,
        ),
    )
    if mixed:
        hin.copy_(pre.h_in)
    assert pre.h_res is not None
    weights = h_res.unflatten(-1, (n, n))
    sinkhorn_forward(pre.h_res, num_iters=num_iters, eps=eps, impl=impl, out=(weights, None, None))
    if saving:
        norm, sums = sinkhorn_iterates(pre.h_res, num_iters=num_iters, eps=eps)
        norm[0] += eps  # unlike MhcSinkhorn's
        sums[0] += eps
        norm[-1].copy_(weights)  # the last iterate is the output, to the bit
        required(views, "norm_out").copy_(norm)
        required(views, "sum_out").copy_(sums)


def aclnnMhcPreSinkhornGetWorkspaceSize(
    x: aclTensor | None,
    phi: aclTensor | None,
    alpha: aclTensor | None,
    bias: aclTensor | None,
    hcMult: int,
    numIters: int,
    hcEps: float,
    normEps: float,
    needBackward: bool,
    hin: aclTensor | None,
    hPost: aclTensor | None,
    hRes: aclTensor | None,
    hPre: aclTensor | None,
    hcBeforeNorm: aclTensor | None,
    invRms: aclTensor | None,
    sumOut: aclTensor | None,
    normOut: aclTensor | None,
    *,
    workspaceSize: Handle = OUT,
    executor: Handle = OUT,
) -> FirstPhase:
    """Validate MhcPreSinkhorn and size its workspace.

    Args:
        x: [B, S, n, D] or, on ascend950 alone, [T, n, D]; BF16 or FP16. phi: [n*n+2n, n*D].
            alpha: [3]. bias: [n*n+2n]. FP32 but x.
        hcMult, numIters: 4 and 20, nothing else. hcEps: added to hPre, to each softmax entry and
            to each sum, in [0, 1). normEps: added to the mean square of x.
        needBackward: whether the last five are written; False ignores them.
        hin: [.., D] BF16 or FP16. hPost: [.., n]. hRes: [.., n*n], from before to. hPre: [.., n].
            hcBeforeNorm: [.., n*n+2n]. invRms: [.., 1]. sumOut: [2*numIters, .., n].
            normOut: [2*numIters, .., n, n]. FP32 but hin.
        workspaceSize, executor: None passes a null pointer.
    Returns:
        (status, workspaceSize in bytes, executor); (code, 0, None) on an error, and
        `aclGetRecentErrMsg()` says which check failed. An empty x, hin, hPost or hRes is a success
        with nothing to do.
    Raises TypeError for what is neither a handle nor None.
    """
    return first_phase(
        "MhcPreSinkhorn",
        "aclnnMhcPreSinkhorn",
        (
            *(x, phi, alpha, bias, hcMult, numIters, hcEps, normEps, needBackward),
            *(hin, hPost, hRes, hPre, hcBeforeNorm, invRms, sumOut, normOut),
        ),
        (workspaceSize, executor),
        compute,
    )


def aclnnMhcPreSinkhorn(
    workspace: Tensor | None,
    workspaceSize: int,
    executor: aclOpExecutor | None,
    stream: aclrtStream | None = None,
) -> int:
    """Run what `aclnnMhcPreSinkhornGetWorkspaceSize` validated; status as for `second_phase`."""
    return second_phase("aclnnMhcPreSinkhorn", workspace, workspaceSize, executor, stream)
