"""What the kernels are measured against: the operators in plain torch, as people write them."""

import torch
from torch import Tensor


def pre(x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor) -> tuple[Tensor, ...]:
    """h_in, h_post, h_res in float32 torch operations that autograd differentiates."""
    n = x.shape[-2]
    single = x.float()
    inv_rms = torch.rsqrt(single.square().mean((-2, -1)) + 1e-6)
    h_mix = (single * gamma).flatten(-2) @ phi.T
    w = h_mix * inv_rms[..., None]
    h_pre = torch.sigmoid(alpha[0] * w[..., :n] + bias[:n]) + 1e-6
    h_post = 2 * torch.sigmoid(alpha[1] * w[..., n : 2 * n] + bias[n : 2 * n])
    h_res = (alpha[2] * w[..., 2 * n :] + bias[2 * n :]).unflatten(-1, (n, n))
    return (h_pre[..., None] * single).sum(-2).to(x.dtype), h_post, h_res


def pre_backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor,
    grad_x_post: Tensor,
) -> tuple[Tensor, ...]:
    """The backward written out, for torch.compile."""
    t, n, d = x.shape
    single = x.float()
    s = h_pre - 1e-6
    a_pre = (grad_h_in.float()[:, None] * single).sum(-1) * s * (1 - s)
    a = torch.cat([a_pre, grad_h_post * h_post * (1 - h_post / 2), grad_h_res.flatten(1)], 1)
    gains = torch.cat([alpha[0].expand(n), alpha[1].expand(n), alpha[2].expand(n * n)])
    m = a * gains
    g = m * inv_rms[:, None]
    u = (g @ phi).view(t, n, d)
    c = (m * h_mix).sum(1) * inv_rms**3 / (n * d)
    grad_x = grad_h_in[:, None] * h_pre[..., None] + u * gamma - c[:, None, None] * single
    grad_phi = g.T @ (single * gamma).flatten(1)
    by_row = (a * h_mix * inv_rms[:, None]).sum(0)
    grad_alpha = torch.stack([p.sum() for p in by_row.split([n, n, n * n])])
    return (grad_x + grad_x_post).to(x.dtype), grad_phi, grad_alpha, a.sum(0), (single * u).sum(0)


def sinkhorn(logits: Tensor) -> Tensor:
    """DeepSeek-V4's 20 iterations."""
    h = torch.softmax(logits, -1) + 1e-6
    h = h / (h.sum(-2, keepdim=True) + 1e-6)
    for _ in range(19):
        h = h / (h.sum(-1, keepdim=True) + 1e-6)
        h = h / (h.sum(-2, keepdim=True) + 1e-6)
    return h


def post(x: Tensor, h_res: Tensor, h_out: Tensor, h_post: Tensor) -> Tensor:
    """The streams of the next sublayer, summed in float32."""
    added = h_post[..., None] * h_out.float()[..., None, :]
    return (h_res.transpose(-1, -2) @ x.float() + added).to(x.dtype)


def pre_sinkhorn(
    x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor
) -> tuple[Tensor, ...]:
    h_in, h_post, logits = pre(x, phi, alpha, bias, gamma)
    return h_in, h_post, sinkhorn(logits)


def post_pre(
    x: Tensor,
    h_res: Tensor,
    h_out: Tensor,
    h_post: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor,
) -> tuple[Tensor, ...]:
    """The end of one sublayer and the begin of the next."""
    x_next = post(x, h_res, h_out, h_post)
    return x_next, *pre(x_next, phi, alpha, bias, gamma)


def sublayer(x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor) -> Tensor:
    """A sublayer's mHC part; the sublayer itself hands its input on."""
    h_in, h_post, logits = pre(x, phi, alpha, bias, gamma)
    return post(x, sinkhorn(logits), h_in, h_post)
