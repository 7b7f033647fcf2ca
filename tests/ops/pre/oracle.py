"""The truth of the pre operator, written from the published equations and from nothing of ours.

Everything runs in the dtype of `work`: float64 is the truth, float32 the eager bar that an
implementation is measured against.
"""

import math

import torch
from torch import Tensor

from mhc_ops.types import MhcPreBackward, MhcPreForward


def forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    *,
    norm_eps: float = 1e-6,
    norm_eps_outside: bool = False,
    hc_eps: float = 1e-6,
    post_scale: float = 2.0,
    post_eps: float = 0.0,
    hf32: bool = False,
    work: torch.dtype = torch.float64,
) -> MhcPreForward:
    n, d = x.shape[-2:]
    rows = phi.shape[0] - 2 * n
    columns = x if gamma is None else _scaled(x, gamma, hf32, work)
    left, right = (to_hf32(columns), to_hf32(phi)) if hf32 else (columns, phi)
    x, alpha, bias = x.to(work), alpha.to(work), bias.to(work)
    mean = x.square().mean((-1, -2))
    inv_rms = 1 / (mean.sqrt() + norm_eps) if norm_eps_outside else (mean + norm_eps) ** -0.5
    h_mix = torch.einsum("...id,kid->...k", left.to(work), right.to(work).unflatten(1, (n, d)))
    w = h_mix * inv_rms[..., None]
    h_pre = sigmoid(alpha[0] * w[..., :n] + bias[:n]) + hc_eps
    h_post = post_scale * sigmoid(alpha[1] * w[..., n : 2 * n] + bias[n : 2 * n]) + post_eps
    h_res = None
    if rows:
        h_res = alpha[2] * w[..., 2 * n :] + bias[2 * n :]
        if rows == n * n:
            h_res = h_res.unflatten(-1, (n, n))
    h_in = torch.einsum("...i,...id->...d", h_pre, x)
    return MhcPreForward(h_in, h_post, h_res, inv_rms, h_mix, h_pre)


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
    *,
    norm_eps: float = 1e-6,
    norm_eps_outside: bool = False,
    hc_eps: float = 1e-6,
    post_scale: float = 2.0,
    post_eps: float = 0.0,
    hf32: bool = False,
    work: torch.dtype = torch.float64,
) -> MhcPreBackward:
    n, d = x.shape[-2:]
    columns = x if gamma is None else _scaled(x, gamma, hf32, work)
    raw_phi = phi
    x, phi, alpha, grad_h_in, inv_rms = (t.to(work) for t in (x, phi, alpha, grad_h_in, inv_rms))
    grad_h_post, h_mix, h_pre, h_post = (t.to(work) for t in (grad_h_post, h_mix, h_pre, h_post))

    a, m = gate_gradients(
        x, alpha, grad_h_in, grad_h_post, None if grad_h_res is None else grad_h_res.to(work),
        h_pre, h_post, hc_eps=hc_eps, post_scale=post_scale, post_eps=post_eps,
    )  # fmt: skip
    g = m * inv_rms[..., None]
    d_inv = (m * h_mix).sum(-1)

    left, right = g, phi
    if hf32:
        left, right, columns = (to_hf32(t.float()).to(work) for t in (g, raw_phi, columns))
    u = torch.einsum("...k,kid->...id", left, right.unflatten(1, (n, d)))
    if norm_eps_outside:
        rms = 1 / inv_rms - norm_eps
        c = d_inv * inv_rms**2 / (n * d * rms)
        c = torch.where(rms == 0, torch.zeros_like(c), c)
    else:
        c = d_inv * inv_rms * inv_rms * inv_rms / (n * d)
    grad_x = torch.einsum("...d,...i->...id", grad_h_in, h_pre)
    grad_x = grad_x + (u if gamma is None else u * gamma.to(work)) - c[..., None, None] * x
    if grad_x_post is not None:
        grad_x = grad_x + grad_x_post.to(work)

    tokens = x.shape[:-2].numel()
    f = phi.shape[0]
    flat = a.reshape(tokens, f)
    terms = flat * (h_mix * inv_rms[..., None]).reshape(tokens, f)
    sizes = [n, n] if grad_h_res is None else [n, n, phi.shape[0] - 2 * n]
    g_flat, x_flat, u_flat = (
        left.reshape(tokens, f),
        x.reshape(tokens, n, d),
        u.reshape(tokens, n, d),
    )
    grad_phi = torch.einsum("tk,tid->kid", g_flat, columns.to(work).reshape(tokens, n, d))
    return MhcPreBackward(
        grad_x=grad_x,
        grad_phi=grad_phi.flatten(1),
        grad_alpha=torch.stack([part.sum() for part in terms.split(sizes, dim=1)]),
        grad_bias=flat.sum(0),
        grad_gamma=None if gamma is None else (x_flat * u_flat).sum(0),
    )


def gate_gradients(
    x: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    h_pre: Tensor,
    h_post: Tensor,
    *,
    hc_eps: float = 1e-6,
    post_scale: float = 2.0,
    post_eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """[a_pre, a_post, a_res], and the same times alpha, as [.., F]."""
    s = h_pre - hc_eps
    p = h_post - post_eps
    parts = [torch.einsum("...d,...id->...i", grad_h_in, x) * s * (1 - s)]
    parts.append(grad_h_post * p * (1 - p / post_scale))
    if grad_h_res is not None:
        parts.append(grad_h_res.flatten(x.dim() - 2))
    return torch.cat(parts, -1), torch.cat([alpha[i] * p for i, p in enumerate(parts)], -1)


def forward_scales(x, phi, alpha, bias, gamma, **numbers):
    """Largest root sum of squares behind an element of each output, or the largest output.

    A sum of terms with independent signs is about that large, and so are the partial sums that its
    rounding errors come from, even where the sum itself happens to cancel.
    """
    truth = forward(x, phi, alpha, bias, gamma, **numbers)
    n, d = x.shape[-2:]
    x = x.double()
    scaled = x if gamma is None else x * gamma.double()
    h_mix = _norm("...id,kid->...k", scaled, phi.double().unflatten(1, (n, d)))
    w = h_mix * truth.inv_rms[..., None]
    gains = torch.repeat_interleave(alpha.double(), _counts(phi, alpha, n))
    logits = _largest(w * gains)
    h_in = _norm("...i,...id->...d", truth.h_pre, x)
    known = MhcPreForward(h_in, logits, logits, truth.inv_rms, h_mix, logits)
    return MhcPreForward(*(_largest(a, b) for a, b in zip(truth, known, strict=True)))


def backward_scales(
    x, phi, alpha, grad_h_in, grad_h_post, grad_h_res, inv_rms, h_mix, h_pre, h_post, gamma,
    grad_x_post, **numbers,
):  # fmt: skip
    """The same for the gradients: every sum is replaced by the root of the sum of squares."""
    args = (x, phi, alpha, grad_h_in, grad_h_post, grad_h_res, inv_rms, h_mix, h_pre, h_post)
    truth = backward(*args, gamma, grad_x_post, **numbers)
    n, d = x.shape[-2:]
    x, phi, grad_h_in = x.double(), phi.double().unflatten(1, (n, d)), grad_h_in.double()
    inv_rms = inv_rms.double()[..., None]
    a = [_norm("...d,...id->...i", grad_h_in, x), grad_h_post.double() * h_post.double()]
    if grad_h_res is not None:
        a.append(grad_h_res.double().reshape(*x.shape[:-2], len(phi) - 2 * n))
    a = torch.cat(a, -1)
    m = a * torch.repeat_interleave(alpha.double(), _counts(phi, alpha, n))
    g = m * inv_rms
    u = _norm("...k,kid->...id", g, phi)
    c = _norm("...k,...k->...", g, h_mix.double())[..., None] * inv_rms * inv_rms / (n * d)
    scaled, gain = (x, torch.ones(())) if gamma is None else (x * gamma.double(), gamma.double())
    parts = [grad_h_in[..., None, :] * h_pre.double()[..., None], u * gain, c[..., None] * x]
    parts += [] if grad_x_post is None else [grad_x_post]
    known = MhcPreBackward(
        grad_x=_largest(*parts),
        grad_phi=_norm("tk,tid->kid", g.reshape(-1, len(phi)), scaled.reshape(-1, n, d)),
        grad_alpha=(a * h_mix.double() * inv_rms).square().sum().sqrt(),
        grad_bias=a.reshape(-1, len(phi)).square().sum(0).sqrt(),
        grad_gamma=(x * u).reshape(-1, n, d).square().sum(0).sqrt(),
    )
    return MhcPreBackward(*(_largest(a, b) for a, b in zip(truth, known, strict=True)))


def sigmoid(z: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-z))


def to_hf32(t: Tensor) -> Tensor:
    """Round float32 to 10 fraction bits, ties away from zero, by arithmetic on the significand.

    Below 2^-126 the spacing stays that of float32's subnormals times 2^13; above the largest such
    number comes infinity.
    """
    significand, exponent = torch.frexp(t.double())
    exponent = exponent.clamp(min=-125)
    units = torch.ldexp(t.double().abs(), 11 - exponent)
    rounded = torch.ldexp(torch.floor(units + 0.5), exponent - 11).copysign(t.double())
    rounded = torch.where(rounded.abs() >= 2.0**128, torch.inf * significand.sign(), rounded)
    return torch.where(t.isfinite(), rounded, t.double()).float()


def loops(x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor) -> MhcPreForward:
    """The forward of [T, N, D] with R = N*N one number at a time: the check of the einsums."""
    t_all, n, d = x.shape
    f = phi.shape[0]
    out = MhcPreForward(
        h_in=torch.zeros(t_all, d, dtype=torch.float64),
        h_post=torch.zeros(t_all, n, dtype=torch.float64),
        h_res=torch.zeros(t_all, n, n, dtype=torch.float64),
        inv_rms=torch.zeros(t_all, dtype=torch.float64),
        h_mix=torch.zeros(t_all, f, dtype=torch.float64),
        h_pre=torch.zeros(t_all, n, dtype=torch.float64),
    )
    for t in range(t_all):
        cells = [(i, j) for i in range(n) for j in range(d)]
        mean = sum(float(x[t, i, j]) ** 2 for i, j in cells) / (n * d)
        inv = 1 / math.sqrt(mean + 1e-6)
        out.inv_rms[t] = inv
        for k in range(f):
            out.h_mix[t, k] = sum(
                float(gamma[i, j] * x[t, i, j] * phi[k, i * d + j]) for i, j in cells
            )
        for i in range(n):
            z = float(out.h_mix[t, i]) * inv * float(alpha[0]) + float(bias[i])
            out.h_pre[t, i] = 1 / (1 + math.exp(-z)) + 1e-6
            z = float(out.h_mix[t, n + i]) * inv * float(alpha[1]) + float(bias[n + i])
            out.h_post[t, i] = 2 / (1 + math.exp(-z))
            for j in range(n):
                k = 2 * n + i * n + j
                out.h_res[t, i, j] = float(out.h_mix[t, k]) * inv * float(alpha[2]) + float(bias[k])
        for j in range(d):
            out.h_in[t, j] = sum(float(out.h_pre[t, i] * x[t, i, j]) for i in range(n))
    return out


def _scaled(x: Tensor, gamma: Tensor, hf32: bool, work: torch.dtype) -> Tensor:
    work = torch.float32 if hf32 else work
    return x.to(work) * gamma.to(work)


def _norm(equation: str, left: Tensor, right: Tensor) -> Tensor:
    return torch.einsum(equation, left.square(), right.square()).sqrt()


def _largest(*tensors: Tensor | float | None) -> float:
    """Largest finite magnitude in all of them."""
    sizes = [0.0]
    for t in tensors:
        if isinstance(t, float):
            sizes.append(t)
        elif t is not None and t.numel():
            sizes.append(float(t.double().abs().nan_to_num(0.0, 0.0, 0.0).max()))
    return max(sizes)


def _counts(phi: Tensor, alpha: Tensor, n: int) -> Tensor:
    return torch.tensor([n, n, len(phi) - 2 * n][: len(alpha)])
