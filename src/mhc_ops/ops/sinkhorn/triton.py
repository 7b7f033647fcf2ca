"""Sinkhorn and its backward on GPUs: launches the Triton kernels beside this.

Limits: float32; other layouts than dense are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import triton
from torch import Tensor

from ...types import Sinkhorn
from ..common.outputs import fresh as fresh
from ..common.triton_host import launch, on_device
from .triton_kernels import sinkhorn_bwd_kernel, sinkhorn_fwd_kernel

if TYPE_CHECKING:
    from .checks import SinkhornBackward, SinkhornNumbers, SinkhornSizes

_CELLS = 1024  # of one program's matrices
_SEGMENT = 32  # iterations; a call with more of them leaves each segment's first matrix in scratch


def forward(sizes: SinkhornSizes, logits: Tensor, numbers: SinkhornNumbers, out: Sinkhorn) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors)."""
    _run(sinkhorn_fwd_kernel, sizes, (logits.contiguous(), *out), numbers)


def backward(
    sizes: SinkhornSizes,
    logits: Tensor,
    grad_h_res: Tensor,
    numbers: SinkhornNumbers,
    out: SinkhornBackward,
) -> None:
    segments = triton.cdiv(numbers.num_iters, _SEGMENT)
    history = None
    if segments > 1:
        history = logits.new_empty(segments - 1, sizes.T, sizes.N, sizes.N)
    tensors = (logits.contiguous(), grad_h_res.contiguous(), out.grad_logits, history)
    _run(sinkhorn_bwd_kernel, sizes, tensors, numbers, SEGMENT=_SEGMENT)


def _run(
    kernel: Any, sizes: SinkhornSizes, tensors: Any, numbers: SinkhornNumbers, **constants: int
) -> None:
    if sizes.T == 0:
        return
    padded = triton.next_power_of_2(sizes.N)
    tokens = max(1, min(64, _CELLS // (padded * padded)))
    with on_device(tensors[0]):
        launch(
            kernel,
            (triton.cdiv(sizes.T, tokens),),
            *(*tensors, sizes.T, numbers.num_iters, float(numbers.eps), float(numbers.temperature)),
            N=sizes.N,
            NP=padded,
            BT=tokens,
            MODE=numbers.eps_mode,
            ROWS_LAST=numbers.order == "rows_last",
            **constants,
            warps=8 if padded > 4 else 4,  # at N = 8 four spill on sm_100
        )
