"""MhcPre and its backward in eager torch, in the order of the equations; the truth of this room.

Any float dtype: 16-bit x is computed in float32, float64 x in float64. Plain differentiable torch
operations only, so that autograd can go through it any number of times. The derivation is in
README.md.
"""

import torch
from torch import Tensor

from ...types import MhcPreBackward, MhcPreForward
from ..common.numerics import (
    gather_spread,
    inv_root,
    mean_square,
    rms_slope,
    round_hf32,
    rows_matmul,
    rows_matmul_wide,
    spread,
    token_matmul,
    token_sum,
)
from .checks import PreNumbers


def forward(
    x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor | None, numbers: PreNumbers
) -> MhcPreForward:
    n, d = x.shape[-2:]
    residual = len(phi) - 2 * n
    xf = x.to(phi.dtype).contiguous()  # [.., N, D]

    mean_sq = mean_square(xf, (-2, -1))  # of raw x
    inv_rms = inv_root(mean_sq, numbers.norm_eps, numbers.norm_eps_outside).to(phi.dtype)  # [..]
    scaled = xf if gamma is None else xf * gamma
    if numbers.hf32:
        scaled, phi = round_hf32(scaled), round_hf32(phi)
    h_mix = rows_matmul(scaled.reshape(-1, n * d), phi).view(*x.shape[:-2], len(phi))  # [.., F]

    counts = (n, n, residual)
    z = (h_mix * inv_rms[..., None]) * spread(alpha, counts) + bias  # [.., F]
    z_pre, z_post, z_res = z.split(counts, -1)
    h_pre = torch.sigmoid(z_pre) + numbers.hc_eps
    h_post = numbers.post_scale * torch.sigmoid(z_post) + numbers.post_eps
    h_res = None
    if residual:
        h_res = z_res.unflatten(-1, (n, n)) if residual == n * n else z_res
        h_res = h_res.contiguous()

    h_in = h_pre[..., 0, None] * xf[..., 0, :]
    for i in range(1, n):
        h_in = h_in + h_pre[..., i, None] * xf[..., i, :]
    return MhcPreForward(h_in.to(x.dtype), h_post, h_res, inv_rms, h_mix, h_pre)


def backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    numbers: PreNumbers,
) -> MhcPreBackward:
    n, d = x.shape[-2:]
    residual = len(phi) - 2 * n
    xf = x.to(phi.dtype).contiguous().view(-1, n, d)
    grad_h = grad_h_in.to(phi.dtype).contiguous().view(-1, 1, d)
    inv, mix, pre = inv_rms.reshape(-1, 1), h_mix.reshape(-1, len(phi)), h_pre.reshape(-1, n)

    # Through the gates: a is the gradient of what the sigmoids and the residual part receive.
    s = pre - numbers.hc_eps
    p = h_post.reshape(-1, n) - numbers.post_eps
    a_pre = (grad_h * xf).sum(-1) * s * (1 - s)  # [T, N]
    a_post = grad_h_post.reshape(-1, n) * p * (1 - p / numbers.post_scale)
    a_res = [] if grad_h_res is None else [grad_h_res.reshape(-1, residual)]
    a = torch.cat([a_pre, a_post, *a_res], -1)  # [T, F]
    m = a * spread(alpha, (n, n, residual))

    # Through w = h_mix * inv_rms.
    g = m * inv  # gradient of h_mix
    w = mix * inv
    d_log_inv = (m * w).sum(-1, keepdim=True)  # gradient of inv_rms, times inv_rms

    # Through h_mix = (x * gamma) @ phi^T.
    scaled = xf if gamma is None else xf * gamma
    g_operand = g
    if numbers.hf32:
        g_operand, scaled, phi = round_hf32(g), round_hf32(scaled), round_hf32(phi)
    grad_phi = token_matmul(g_operand, scaled.flatten(1))
    u = rows_matmul_wide(g_operand, phi).unflatten(-1, (n, d))  # gradient of x * gamma
    grad_gamma = None if gamma is None else token_sum(xf * u)

    # Everything that reaches x: h_in, the projection, the mean square of raw x, the post branch.
    normed = xf * rms_slope(inv, numbers.norm_eps, numbers.norm_eps_outside)[..., None]
    of_rms = (d_log_inv * inv / (n * d))[..., None] * normed
    grad_x = grad_h * pre[..., None] + (u if gamma is None else u * gamma) - of_rms
    if grad_x_post is not None:
        grad_x = grad_x + grad_x_post.to(phi.dtype).reshape(-1, n, d)

    grad_alpha = token_sum(gather_spread(a * w, (n, n, residual), len(alpha)))
    return MhcPreBackward(
        grad_x.to(x.dtype).reshape(x.shape), grad_phi, grad_alpha, token_sum(a), grad_gamma
    )
