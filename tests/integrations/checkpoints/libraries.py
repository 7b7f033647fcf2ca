"""Each library's layer written out from its published conventions, on tensors in its own layout.

Nothing of mhc_ops is used here: layouts are read with the library's own indices, its state has its
own shape, and every sum is over the axis that the library sums over.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
Sublayer = Callable[[Tensor], Tensor]
N, D = 4, 6


class Library(NamedTuple):
    """step: x [T, N, D], tensors, sublayer -> (x after the sublayer, h_in). axes: of tensors."""

    step: Callable[[Tensor, Tensors, Sublayer], tuple[Tensor, Tensor]]
    axes: dict[str, str]

    def shapes(self, n: int = N, d: int = D) -> dict[str, tuple[int, ...]]:
        sizes = {
            "F": 2 * n + n * n,
            "2n": 2 * n,
            "nD": n * d,
            "n": n,
            "D": d,
            "1": 1,
            "3": 3,
            "2": 2,
        }
        return {k: tuple(sizes[axis] for axis in axes.split()) for k, axes in self.axes.items()}


def v4(
    x: Tensor,
    t: Tensors,
    sublayer: Sublayer,
    post_scale=2.0,
    iters=20,
    eps=1e-6,
    norm_eps=1e-6,
    outside=False,
):
    """DeepSeek-V4, and what differs from it by numbers alone: fn, scale, base; [in, out]."""
    n, flat = x.shape[1], x.flatten(1)
    square = flat.square().mean(-1, keepdim=True)
    inv_rms = 1 / (square.sqrt() + norm_eps) if outside else (square + norm_eps).rsqrt()
    m = (flat @ t["fn"].T) * inv_rms
    pre = (m[:, :n] * t["scale"][0] + t["base"][:n]).sigmoid() + eps
    post = post_scale * (m[:, n : 2 * n] * t["scale"][1] + t["base"][n : 2 * n]).sigmoid()
    comb = (m[:, 2 * n :] * t["scale"][2] + t["base"][2 * n :]).reshape(-1, n, n)
    comb = comb.softmax(-1) + eps
    comb = comb / (comb.sum(-2, keepdim=True) + eps)
    for _ in range(iters - 1):
        comb = comb / (comb.sum(-1, keepdim=True) + eps)
        comb = comb / (comb.sum(-2, keepdim=True) + eps)
    h_in = (pre[:, :, None] * x).sum(1)
    mixed = sum(comb[:, i, :, None] * x[:, i, None, :] for i in range(n))
    return mixed + post[:, :, None] * sublayer(h_in)[:, None], h_in


def deepseek(x, t, sublayer):
    return v4(x, {k.removeprefix("hc_attn_"): v for k, v in t.items()}, sublayer)


def transformers(x, t, sublayer, norm_eps=1e-6):
    own = {k.removeprefix("attn_hc."): v for k, v in t.items()}
    return v4(x, own, sublayer, norm_eps=norm_eps)


def cann(x, t, sublayer):
    gamma = t["gamma"].reshape(-1)
    return v4(x, {"fn": t["phi"] * gamma, "scale": t["alpha"], "base": t["bias"]}, sublayer)


def tilekernels(x, t, sublayer):
    """The norm's weight is folded into fn; the multiplier of post is 1 unless it is given."""
    folded = {"fn": t["mhc_fn"] * t["norm_weight"], "scale": t["scale"], "base": t["base"]}
    return v4(x, folded, sublayer, post_scale=1.0, iters=10)


def megatron_dev(x, t, sublayer):
    scale = torch.cat([t["alpha_pre"], t["alpha_post"], t["alpha_res"]])
    own = {"fn": t["mapping_proj.weight"], "scale": scale, "base": t["bias"]}
    return v4(x, own, sublayer, outside=True)


def megatron_main(x, t, sublayer):
    """No gate eps; the matrix is [out, in], starts over in, and divides by max(sum, 1e-6)."""
    n, flat, bias = x.shape[1], x.flatten(1), t["bias"]
    m = (flat @ t["mapping_proj.weight"].T) / (flat.square().mean(-1, keepdim=True).sqrt() + 1e-6)
    pre = (t["alpha_pre"] * m[:, :n] + bias[:n]).sigmoid()
    post = 2 * (t["alpha_post"] * m[:, n : 2 * n] + bias[n : 2 * n]).sigmoid()
    h = (t["alpha_res"] * m[:, 2 * n :] + bias[2 * n :]).reshape(-1, n, n)
    h = (h - h.detach().amax(-1, keepdim=True)).exp()
    for _ in range(20):
        h = h / h.sum(-1, keepdim=True).clamp(min=1e-6)
        h = h / h.sum(-2, keepdim=True).clamp(min=1e-6)
    h_in = (pre[:, :, None] * x).sum(1)
    return torch.bmm(h, x) + post[:, :, None] * sublayer(h_in)[:, None], h_in


def transformer_engine(x, t, sublayer):
    """The state is [T, D, n]; no eps but the one of the norm."""
    n, state = x.shape[1], x.transpose(1, 2).contiguous()
    flat = state.flatten(1)
    inv_rms = (flat.square().mean(-1, keepdim=True) + 2.0**-23).rsqrt()
    m = ((flat * t["norm_weight"]) @ t["phi"].T) * inv_rms
    beta = t["beta"][0]
    pre = (t["alpha"][0] * m[:, :n] + beta[:n]).sigmoid()
    post = 2 * (t["alpha"][1] * m[:, n : 2 * n] + beta[n : 2 * n]).sigmoid()
    h = (t["alpha"][2] * m[:, 2 * n :] + beta[2 * n :]).reshape(-1, n, n).softmax(-1)
    h = h / h.sum(-2, keepdim=True)
    for _ in range(19):
        h = h / h.sum(-1, keepdim=True)
        h = h / h.sum(-2, keepdim=True)
    h_in = torch.einsum("tdn,tn->td", state, pre)
    out = torch.einsum("tdi,tio->tdo", state, h) + sublayer(h_in)[:, :, None] * post[:, None]
    return out.transpose(1, 2), h_in


def liger(x, t, sublayer):
    """phi is [n*D, F]; the matrix is [out, in] and starts with a softmax over in."""
    n, flat, b, eps = x.shape[1], x.flatten(1), t["b"], 1e-6
    m = (flat @ t["phi"]) * (flat.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    pre = (m[:, :n] * t["alpha_pre"] + b[:n]).sigmoid()
    post = 2 * (m[:, n : 2 * n] * t["alpha_post"] + b[n : 2 * n]).sigmoid()
    h = (m[:, 2 * n :] * t["alpha_res"] + b[2 * n :]).reshape(-1, n, n).softmax(-1) + eps
    h = h / (h.sum(-2, keepdim=True) + eps)
    for _ in range(19):
        h = h / (h.sum(-1, keepdim=True) + eps)
        h = h / (h.sum(-2, keepdim=True) + eps)
    h_in = (pre[:, :, None] * x).sum(1)
    return torch.bmm(h, x) + post[:, :, None] * sublayer(h_in)[:, None], h_in


def hy_v4(x, t, sublayer, norm_eps=1e-6, magnitude=2.0):
    """No residual matrix; eps is added to both gates."""
    fn, scale, base = (t[f"hc_attn_layer.hc_{name}"] for name in ("fn", "scale", "base"))
    n, flat = x.shape[1], x.flatten(1)
    m = (flat @ fn.T) * (flat.square().mean(-1, keepdim=True) + norm_eps).rsqrt()
    pre = (m[:, :n] * scale[0] + base[:n]).sigmoid() + 1e-6
    post = magnitude * (m[:, n:] * scale[1] + base[n:]).sigmoid() + 1e-6
    h_in = (pre[:, :, None] * x).sum(1)
    return x + post[:, :, None] * sublayer(h_in)[:, None], h_in


_SCALARS = {"alpha_pre": "1", "alpha_post": "1", "alpha_res": "1"}
_MEGATRON = {"mapping_proj.weight": "F nD", "bias": "F", **_SCALARS}

LIBRARIES = {
    "deepseek": Library(
        deepseek, {"hc_attn_fn": "F nD", "hc_attn_scale": "3", "hc_attn_base": "F"}
    ),
    "transformers": Library(
        transformers, {"attn_hc.fn": "F nD", "attn_hc.scale": "3", "attn_hc.base": "F"}
    ),
    "cann": Library(cann, {"phi": "F nD", "alpha": "3", "bias": "F", "gamma": "n D"}),
    "tilekernels": Library(
        tilekernels,
        {"mhc_fn": "F nD", "scale": "3", "base": "F", "norm_weight": "nD"},
    ),
    "megatron_dev": Library(megatron_dev, _MEGATRON),
    "megatron_main": Library(megatron_main, _MEGATRON),
    "transformer_engine": Library(
        transformer_engine,
        {"phi": "F nD", "alpha": "3", "beta": "1 F", "norm_weight": "nD"},
    ),
    "liger": Library(
        liger,
        {"phi": "nD F", "b": "F", "alpha_pre": "", "alpha_post": "", "alpha_res": ""},
    ),
    "hy_v4": Library(
        hy_v4,
        {
            "hc_attn_layer.hc_fn": "2n nD",
            "hc_attn_layer.hc_scale": "2",
            "hc_attn_layer.hc_base": "2n",
        },
    ),
}


def draw(library: Library, std: float, seed: int = 0, dtype=torch.float64, n=N, d=D) -> Tensors:
    """Tensors of one layer whose logits have about this standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, shape in library.shapes(n, d).items():
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        ending = name.rpartition(".")[2]
        if ending in ("gamma", "norm_weight"):
            values = 1 + 0.3 * values
        elif "nD" in library.axes[name]:
            values /= (n * d) ** 0.5
        elif ending.startswith("alpha") or ending.endswith("scale"):
            values = std * (1 + 0.1 * values)
        drawn[name] = values.to(dtype)
    return drawn
