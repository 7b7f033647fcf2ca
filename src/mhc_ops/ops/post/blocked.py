"""MhcPost and its backward in torch operations over blocks of tokens, on any device.

Extra memory: a few float32 copies of one block, whatever T is. Products and sums are separate
operations in the order of reference.py, so that no device's fusing decides about the bits.
"""

import torch
from torch import Tensor

from ...types import MhcPostBackward
from ..common.blocks import blocks, rows, take
from ..common.numerics import channel_sum
from ..common.outputs import fresh as fresh
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
    lead, single = sizes.lead, h_post.dtype
    for tokens, _ in blocks(sizes.T, x.device):
        mixed = xb = take(x, tokens, lead, single)  # [rows, N, D]
        if h_res is not None:
            res = take(h_res, tokens, lead, single)
            mixed = res[:, 0, :, None] * xb[:, 0, None]
            for i in range(1, sizes.N):
                mixed += res[:, i, :, None] * xb[:, i, None]
        y = take(h_out, tokens, lead, single)
        if bias is not None:
            y += bias
        mixed += take(h_post, tokens, lead, single)[..., None] * y[:, None]
        rows(out, sizes.T)[tokens] = mixed.flatten(1)


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
    lead, n, single = sizes.lead, sizes.N, h_post.dtype
    flat_x, flat_res, flat_out, flat_post = (
        None if t is None else rows(t, sizes.T) for t in out[:4]
    )
    grad_bias = out.grad_bias
    superblock = None
    if grad_bias is not None:
        superblock = torch.zeros_like(grad_bias)
        grad_bias.zero_()
    for tokens, ends_superblock in blocks(sizes.T, x.device):
        grad = take(grad_out, tokens, lead, single)  # [rows, N, D]
        if flat_x is not None:
            grad_x = grad
            if h_res is not None:
                res = take(h_res, tokens, lead, single)
                grad_x = res[:, :, 0, None] * grad[:, 0, None]
                for j in range(1, n):
                    grad_x += res[:, :, j, None] * grad[:, j, None]
            flat_x[tokens] = grad_x.flatten(1)
        if flat_res is not None:
            xb = take(x, tokens, lead, single)
            sums = [channel_sum(xb[:, i, None] * grad) for i in range(n)]
            flat_res[tokens] = torch.cat(sums, 1)
        if flat_post is not None:
            y = take(h_out, tokens, lead, single)
            if bias is not None:
                y += bias
            flat_post[tokens] = channel_sum(y[:, None] * grad)
        if flat_out is None and superblock is None:
            continue
        post = take(h_post, tokens, lead, single)
        grad_y = post[:, 0, None] * grad[:, 0]
        for j in range(1, n):
            grad_y += post[:, j, None] * grad[:, j]
        if flat_out is not None:
            flat_out[tokens] = grad_y
        if grad_bias is not None and superblock is not None:
            superblock += grad_y.sum(0)
            if ends_superblock:
                grad_bias += superblock
                superblock.zero_()
