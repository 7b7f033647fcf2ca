"""permutation_mix and its backward on GPUs: launches the Triton kernels beside this.

Limits: float32; other layouts than dense are copied.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor

from ..common.outputs import fresh as fresh
from ..common.triton_host import launch, on_device
from .permutations import matrices
from .triton_kernels import lite_bwd_kernel, lite_fwd_kernel

if TYPE_CHECKING:
    from .checks import LiteBackward, LiteForward, LiteSizes


def forward(sizes: LiteSizes, logits: Tensor, out: LiteForward) -> None:
    """Compute out.h_res, a contiguous tensor."""
    logits = logits.contiguous()
    _run(lite_fwd_kernel, sizes, (logits, _table(sizes.N, logits.device), out.h_res))


def backward(sizes: LiteSizes, logits: Tensor, grad_h_res: Tensor, out: LiteBackward) -> None:
    """Compute out.grad_logits, a contiguous tensor."""
    logits = logits.contiguous()
    given = (logits, _table(sizes.N, logits.device), grad_h_res.contiguous())
    _run(lite_bwd_kernel, sizes, (*given, out.grad_logits))


def _run(kernel: Any, sizes: LiteSizes, tensors: Any) -> None:
    if sizes.T == 0:
        return
    cells = sizes.N * sizes.N
    with on_device(tensors[0]):
        launch(
            kernel,
            (triton.cdiv(sizes.T, 16),),
            *(*tensors, sizes.T),
            R=sizes.R,
            M=cells,
            BT=16,
            BR=min(64, max(16, triton.next_power_of_2(sizes.R))),
            BM=max(16, triton.next_power_of_2(cells)),
        )


@cache
def _table(streams: int, device: torch.device) -> Tensor:
    """[N!, N*N], kept on the device: a captured graph may not copy it there."""
    return matrices(streams, torch.empty(0, dtype=torch.bfloat16, device=device)).contiguous()
