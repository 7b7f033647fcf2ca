"""MhcPost and its backward in eager torch, in the order of the equations; the truth of this room.

Any float dtype: 16-bit x is computed in float32, float64 x in float64. Plain differentiable torch
operations only, so that autograd can go through it any number of times. The derivation is in
README.md.
"""

import torch
from torch import Tensor

from ...types import MhcPostBackward
from ..common.numerics import channel_sum, token_sum


def forward(
    x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor, bias: Tensor | None
) -> Tensor:
    single = h_post.dtype
    xf = x.to(single).contiguous()  # [.., N, D]
    y = h_out.to(single) if bias is None else h_out.to(single) + bias  # [.., D]

    mixed = xf
    if h_res is not None:  # [.., from, to]
        mixed = h_res[..., 0, :, None] * xf[..., 0, None, :]
        for i in range(1, x.shape[-2]):
            mixed = mixed + h_res[..., i, :, None] * xf[..., i, None, :]
    out = mixed + h_post[..., None] * y[..., None, :]
    return out.to(x.dtype).contiguous()


def backward(
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
) -> MhcPostBackward:
    n, d = x.shape[-2:]
    single = h_post.dtype
    xf = x.to(single).contiguous().view(-1, n, d)
    grad = grad_out.to(single).contiguous().view(-1, n, d)
    post = h_post.reshape(-1, n)
    y = h_out.to(single).contiguous().view(-1, d)
    y = y if bias is None else y + bias

    # Through h_res: out[to] receives x[from] with the weight h_res[from, to].
    if h_res is None:
        grad_x = grad.clone()
    else:
        res = h_res.reshape(-1, n, n)
        grad_x = res[:, :, 0, None] * grad[:, 0, None]
        for j in range(1, n):
            grad_x = grad_x + res[:, :, j, None] * grad[:, j, None]
    grad_h_res = torch.stack([channel_sum(xf[:, i, None] * grad) for i in range(n)], 1)

    # Through h_post: out[to] receives h_out + bias with the weight h_post[to].
    grad_y = post[:, 0, None] * grad[:, 0]
    for j in range(1, n):
        grad_y = grad_y + post[:, j, None] * grad[:, j]
    grad_h_post = channel_sum(y[:, None] * grad)

    lead = x.shape[:-2]
    return MhcPostBackward(
        grad_x.to(x.dtype).reshape(x.shape),
        grad_h_res.reshape(*lead, n, n),
        grad_y.to(x.dtype).reshape(*lead, d),
        grad_h_post.reshape(*lead, n),
        None if bias is None else token_sum(grad_y),
    )
