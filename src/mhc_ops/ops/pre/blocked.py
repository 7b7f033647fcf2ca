"""MhcPre and its backward in torch operations over blocks of tokens, on any device.

Extra memory: a few float32 copies of one block, and two [F, N*D] buffers, whatever T is.

With raw x and G = g^T @ x, gamma needs no pass over tokens: grad_phi = gamma * G, grad_gamma =
sum_f phi * G, and the gradient that reaches x is g @ (phi * gamma). hf32 rounds gamma * x, so it
cannot fold gamma and forms gamma * x block by block instead.
"""

import torch
from torch import Tensor

from ...types import MhcPreBackward, MhcPreForward
from ..common.blocks import blocks, rows, take
from ..common.numerics import (
    TILE,
    gather_spread,
    inv_root,
    rms_slope,
    round_hf32,
    rows_matmul,
    rows_matmul_wide,
    spread,
)
from ..common.outputs import fresh as fresh
from .checks import PreNumbers, PreSizes


def forward(
    sizes: PreSizes,
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: PreNumbers,
    out: MhcPreForward,
    reduced: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Fill `out`. reduced: where x holds some of the channels, `token_sums` added up over all."""
    n, residual = sizes.N, sizes.R
    folded = _phi_operand(phi, gamma, numbers) if reduced is None else phi
    gains = spread(alpha, (sizes.N, sizes.N, sizes.R))
    flat = MhcPreForward(*(None if t is None else rows(t, sizes.T) for t in out))  # type: ignore[arg-type]  # an absent h_res
    for tokens, _ in blocks(sizes.T, x.device):
        count = tokens.stop - tokens.start
        xb = _take(x, tokens, sizes, phi.dtype)  # [rows, N, D]
        if reduced is None:
            mean_sq, h_mix = _mean_square(xb), _projection(xb, folded, gamma, numbers)
        else:
            mean_sq, h_mix = (_take(t, tokens, sizes, t.dtype) for t in reduced)
        inv_rms = inv_root(mean_sq, numbers.norm_eps, numbers.norm_eps_outside).to(phi.dtype)
        z = (h_mix * inv_rms[:, None]).mul_(gains).add_(bias)  # [rows, F]
        h_pre = torch.sigmoid(z[:, :n]).add_(numbers.hc_eps)
        h_in = h_pre[:, 0, None] * xb[:, 0]
        for i in range(1, n):
            h_in += h_pre[:, i, None] * xb[:, i]

        flat.inv_rms[tokens] = inv_rms[:count, None]
        flat.h_mix[tokens] = h_mix[:count]
        flat.h_pre[tokens] = h_pre[:count]
        flat.h_in[tokens] = h_in[:count]
        h_post = torch.sigmoid(z[:, n : 2 * n]).mul_(numbers.post_scale).add_(numbers.post_eps)
        flat.h_post[tokens] = h_post[:count]
        if flat.h_res is not None and residual:
            flat.h_res[tokens] = z[:count, 2 * n :]


def token_sums(
    sizes: PreSizes, x: Tensor, phi: Tensor, gamma: Tensor | None, numbers: PreNumbers
) -> tuple[Tensor, Tensor]:
    """What the gates need of x's channels: the mean square [..] in float64, and h_mix [.., F]."""
    folded = _phi_operand(phi, gamma, numbers)
    means = x.new_empty(sizes.T, dtype=_wide(x))
    mixes = phi.new_empty(sizes.T, sizes.F)
    for tokens, _ in blocks(sizes.T, x.device):
        count = tokens.stop - tokens.start
        xb = _take(x, tokens, sizes, phi.dtype)
        means[tokens] = _mean_square(xb)[:count]
        mixes[tokens] = _projection(xb, folded, gamma, numbers)[:count]
    return means.view(sizes.lead), mixes.view(*sizes.lead, sizes.F)


def gate_slopes(sizes: PreSizes, x: Tensor, grad_h_in: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient of h_pre [.., N] that comes through h_in, summed over the channels of x."""
    slopes = x.new_empty(sizes.T, sizes.N, dtype=dtype)
    for tokens, _ in blocks(sizes.T, x.device):
        xb = _take(x, tokens, sizes, dtype)
        grad_h = _take(grad_h_in, tokens, sizes, dtype)[:, None]
        slopes[tokens] = (xb * grad_h).sum(-1)[: tokens.stop - tokens.start]
    return slopes.view(*sizes.lead, sizes.N)


def backward(
    sizes: PreSizes,
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
    out: MhcPreBackward,
    reduced: tuple[int, Tensor] | None = None,
) -> None:
    """Fill `out`. reduced: where x holds some of the channels, the number of all of them and
    `gate_slopes` summed over all.
    """
    n, d = sizes.N, sizes.D
    channels = d if reduced is None else reduced[0]
    sums = _ParameterSums(sizes, phi, alpha, gamma, numbers, out)
    folded = _phi_operand(phi, gamma, numbers)
    gains = spread(alpha, (sizes.N, sizes.N, sizes.R))
    unfolded_gamma = gamma if numbers.hf32 else None
    need_u = out.grad_x is not None or (out.grad_gamma is not None and unfolded_gamma is not None)
    for tokens, ends_superblock in blocks(sizes.T, x.device):
        count = tokens.stop - tokens.start
        xb = _take(x, tokens, sizes, phi.dtype)  # [rows, N, D]
        grad_h = _take(grad_h_in, tokens, sizes, phi.dtype)[:, None]  # [rows, 1, D]
        inv = _take(inv_rms, tokens, sizes, phi.dtype)[:, None]
        mix = _take(h_mix, tokens, sizes, phi.dtype)
        pre = _take(h_pre, tokens, sizes, phi.dtype)
        p = _take(h_post, tokens, sizes, phi.dtype) - numbers.post_eps
        s = pre - numbers.hc_eps

        a = xb.new_zeros(len(xb), sizes.F)
        a[:, :n] = (
            (xb * grad_h).sum(-1)
            if reduced is None
            else _take(reduced[1], tokens, sizes, phi.dtype)
        )
        a[:, :n] *= s
        a[:, :n] *= 1 - s
        a[:, n : 2 * n] = _take(grad_h_post, tokens, sizes, phi.dtype) * p
        a[:, n : 2 * n] *= 1 - p / numbers.post_scale
        if grad_h_res is not None:
            a[:, 2 * n :] = _take(grad_h_res, tokens, sizes, phi.dtype).flatten(1)
        m = a * gains
        g = m * inv
        w = mix * inv
        operand = round_hf32(g) if numbers.hf32 else g
        u = rows_matmul_wide(operand, folded).unflatten(-1, (n, d)) if need_u else None

        sums.add(
            xb[:count],
            operand[:count],
            None if u is None else u[:count],
            a[:count],
            (a * w)[:count],
        )
        if ends_superblock:
            sums.close_superblock()
        if out.grad_x is None or u is None:
            continue
        if unfolded_gamma is not None:
            u = u * unfolded_gamma
        xb *= rms_slope(inv, numbers.norm_eps, numbers.norm_eps_outside)[..., None]
        of_rms = (m * w).sum(-1, keepdim=True) * inv / (n * channels)
        u = u.addcmul_(grad_h, pre[..., None]).addcmul_(xb, of_rms[..., None], value=-1)
        if grad_x_post is not None:
            u += _take(grad_x_post, tokens, sizes, phi.dtype)
        rows(out.grad_x, sizes.T)[tokens] = u[:count].flatten(1)


class _ParameterSums:
    """The gradients that sum over tokens: each superblock starts from zero, then adds to `out`."""

    def __init__(
        self,
        sizes: PreSizes,
        phi: Tensor,
        alpha: Tensor,
        gamma: Tensor | None,
        numbers: PreNumbers,
        out: MhcPreBackward,
    ) -> None:
        self.sizes, self.phi, self.hf32, self.out = sizes, phi, numbers.hf32, out
        row = None if gamma is None else gamma.flatten()
        self.operand_scale = (
            row if self.hf32 else None
        )  # gamma on x, before hf32 rounds the product
        self.product_scale = None if self.hf32 else row  # gamma folded: on G instead
        for total in out[1:]:
            if total is not None:
                total.zero_()
        direct_gamma = out.grad_gamma is not None and self.hf32
        wants_product = out.grad_phi is not None or (out.grad_gamma is not None and not self.hf32)
        self.product = phi.new_zeros(sizes.F, sizes.N * sizes.D) if wants_product else None
        self.alpha = torch.zeros_like(alpha)
        self.bias = phi.new_zeros(sizes.F)
        self.scale = phi.new_zeros(sizes.N, sizes.D) if direct_gamma else None

    def add(self, x: Tensor, g: Tensor, u: Tensor | None, a: Tensor, aw: Tensor) -> None:
        """Add a block: x [rows, N, D], g, a, a * w [rows, F], u [rows, N, D] before gamma."""
        if self.product is not None:
            operand = x.flatten(1)
            if self.hf32:
                scale = self.operand_scale
                operand = round_hf32(operand if scale is None else operand * scale)
            self.product.addmm_(g.T, operand)
        counts = (self.sizes.N, self.sizes.N, self.sizes.R)
        self.alpha += gather_spread(aw, counts, len(self.alpha)).sum(0)
        self.bias += a.sum(0)
        if self.scale is not None and u is not None:
            self.scale += (x * u).sum(0)

    def close_superblock(self) -> None:
        out, product, scale = self.out, self.product, self.product_scale
        if out.grad_phi is not None and product is not None:
            out.grad_phi.add_(product if scale is None else product * scale)
        if out.grad_alpha is not None:
            out.grad_alpha.add_(self.alpha)
        if out.grad_bias is not None:
            out.grad_bias.add_(self.bias)
        if out.grad_gamma is not None:
            if self.scale is not None:
                out.grad_gamma.add_(self.scale)
            elif product is not None:
                out.grad_gamma.add_((self.phi * product).sum(0).view_as(out.grad_gamma))
        for partial in (product, self.alpha, self.bias, self.scale):
            if partial is not None:
                partial.zero_()


def _phi_operand(phi: Tensor, gamma: Tensor | None, numbers: PreNumbers) -> Tensor:
    if numbers.hf32:
        return round_hf32(phi)
    return phi if gamma is None else phi * gamma.flatten()


def _take(t: Tensor, tokens: slice, sizes: PreSizes, dtype: torch.dtype) -> Tensor:
    return take(t, tokens, sizes.lead, dtype, TILE)


def _projection(x: Tensor, folded: Tensor, gamma: Tensor | None, numbers: PreNumbers) -> Tensor:
    """h_mix [rows, F] of a block [rows, N, D]."""
    operand = x.flatten(1)
    if numbers.hf32:
        operand = round_hf32(operand if gamma is None else operand * gamma.flatten())
    return rows_matmul(operand, folded)


def _mean_square(x: Tensor) -> Tensor:
    """Mean of x^2 over a block's [rows, N, D], in float64 unless on MPS, which has none."""
    norm: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1, dtype=_wide(x))
    return norm.square() / (x.shape[1] * x.shape[2])


def _wide(x: Tensor) -> torch.dtype:
    return torch.float32 if x.device.type == "mps" else torch.float64
