"""MhcPost and MhcPostBackward on GPUs: launches the Triton kernels beside this.

Limits: x in bfloat16, float16 or float32. grad_out, x and h_out are read in place when their last
dimension is contiguous and tokens lie at one stride, and copied otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
from torch import Tensor

from ...types import MhcPostBackward
from ..common.numerics import SUPERBLOCK
from ..common.outputs import fresh as fresh
from ..common.triton_host import launch, on_device, stream_tile, token_strides
from ..common.triton_sums import ordered_sum
from .triton_kernels import post_bias_bwd_kernel, post_bwd_kernel, post_fwd_kernel

if TYPE_CHECKING:
    from .checks import PostSizes


def forward(
    sizes: PostSizes,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    out: Tensor,
) -> None:
    """Compute into `out`, a contiguous tensor; the gates and bias are contiguous too."""
    if sizes.T == 0:
        return
    x, *steps = token_strides(sizes.lead, x)
    h_out, h_out_step, _ = token_strides(sizes.lead, h_out)
    tile = stream_tile(sizes.N, sizes.D)
    with on_device(x):
        launch(
            post_fwd_kernel,
            (triton.cdiv(sizes.T, tile.tokens),),
            *(x, h_res, h_out, h_post, bias, out, sizes.T, *steps, h_out_step),
            N=sizes.N,
            D=sizes.D,
            NP=triton.next_power_of_2(sizes.N),
            BT=tile.tokens,
            BD=tile.columns,
            warps=tile.warps,
        )


def backward(
    sizes: PostSizes,
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    out: MhcPostBackward,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors)."""
    if sizes.T == 0:
        if out.grad_bias is not None:
            out.grad_bias.zero_()
        return
    grad_out, *grad_steps = token_strides(sizes.lead, grad_out)
    x, *x_steps = token_strides(sizes.lead, x)
    h_out, h_out_step, _ = token_strides(sizes.lead, h_out)
    tile = stream_tile(sizes.N, sizes.D)._replace(warps=8)  # four spill on sm_80
    with on_device(x):
        if any(grad is not None for grad in out[:4]):
            launch(
                post_bwd_kernel,
                (triton.cdiv(sizes.T, tile.tokens),),
                *(grad_out, x, h_res, h_out, h_post, bias, *out[:4], sizes.T),
                *(*grad_steps, *x_steps, h_out_step),
                N=sizes.N,
                D=sizes.D,
                NP=triton.next_power_of_2(sizes.N),
                BT=tile.tokens,
                BD=tile.columns,
                warps=tile.warps,
            )
        if out.grad_bias is None:
            return
        superblocks = triton.cdiv(sizes.T, SUPERBLOCK)
        partial = out.grad_bias.new_empty(superblocks, sizes.D)
        columns = min(128, max(16, triton.next_power_of_2(sizes.D)))
        launch(
            post_bias_bwd_kernel,
            (triton.cdiv(sizes.D, columns) * superblocks,),
            *(grad_out, h_post, partial, sizes.T, *grad_steps),
            N=sizes.N,
            D=sizes.D,
            BT=32,
            BD=columns,
            SUPERBLOCK=SUPERBLOCK,
        )
        ordered_sum(partial, out.grad_bias)
