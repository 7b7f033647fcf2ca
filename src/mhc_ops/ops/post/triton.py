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
from ..common.triton_host import (
    Tile,
    column_chunk,
    launch,
    on_device,
    stream_tile,
    token_strides,
)
from ..common.triton_sums import split_sum, token_sum
from ..common.triton_table import chosen
from .triton_kernels import post_bwd_kernel, post_fwd_kernel

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
    tile = chosen("post_fwd_kernel", x, sizes.N, 0, stream_tile(sizes.N, sizes.D))
    with on_device(x):
        launch(
            post_fwd_kernel,
            (triton.cdiv(sizes.T, tile.tokens),),
            *(x, h_res, h_out, h_post, bias, out, sizes.T, *steps, h_out_step),
            N=sizes.N,
            D=sizes.D,
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
    columns = min(64, max(16, triton.next_power_of_2(sizes.D)))
    by_rule = Tile(16 if sizes.N <= 4 else 8, columns)  # every stream's tile is in registers
    tile = chosen("post_bwd_kernel", x, sizes.N, 0, by_rule)
    chunk = column_chunk(tile, sizes.D)
    with on_device(x):
        partial = Partial(sizes.T, sizes.D, tile, chunk, out)
        launch(
            post_bwd_kernel,
            (partial.programs,),
            *(grad_out, x, h_res, h_out, h_post, bias, *partial.grads, sizes.T),
            *(*grad_steps, *x_steps, h_out_step),
            N=sizes.N,
            D=sizes.D,
            BT=tile.tokens,
            BD=tile.columns,
            CHUNK=chunk,
            warps=tile.warps,
        )
        partial.add()


class Partial:
    """Gradients as a backward kernel leaves them: `grads`, those of h_res and h_post as sums over
    chunks of columns, that of the bias over blocks of tokens; `add` makes the whole ones.
    """

    def __init__(self, tokens: int, dim: int, tile: Tile, chunk: int, out: MhcPostBackward) -> None:
        blocks, chunks = triton.cdiv(tokens, tile.tokens), triton.cdiv(dim, chunk)
        self.programs = blocks * chunks
        self.out = out
        self.superblock = SUPERBLOCK // tile.tokens
        res, post, bias = (
            grad if grad is None or count == 1 else grad.new_empty(count, grad.numel())
            for grad, count in (
                (out.grad_h_res, chunks),
                (out.grad_h_post, chunks),
                (out.grad_bias, blocks),
            )
        )
        self.grads = (out.grad_x, res, out.grad_h_out, post, bias)

    def add(self) -> None:
        for partial, grad in zip(self.grads[:4], self.out[:4], strict=True):
            if partial is not None and grad is not None and partial is not grad:
                split_sum(partial, grad)
        bias, grad_bias = self.grads[4], self.out.grad_bias
        if bias is not None and grad_bias is not None and bias is not grad_bias:
            token_sum(bias, grad_bias, self.superblock)
