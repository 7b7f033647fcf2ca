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
F = 2 * N + N * N


class Library(NamedTuple):
    """step: x [T, N, D], tensors, sublayer -> (x after the sublayer, h_in). shapes: of tensors."""

    step: Callable[[Tensor, Tensors, Sublayer], tuple[Tensor, Tensor]]
    shapes: dict[str, tuple[int, ...]]


def v4(
    x: Tensor, t: Tensors, sublayer: Sublayer, post_scale=2.0, iters=20, eps=1e-6, outside=False
):
    """DeepSeek-V4, and what differs from it by numbers alone: fn, scale, base; [in, out]."""
    flat = x.flatten(1)
    square = flat.square().mean(-1, keepdim=True)
    inv_rms = 1 / (square.sqrt() + 1e-6) if outside else (square + 1e-6).rsqrt()
    m = (flat @ t["fn"].T) * inv_rms
    pre = (m[:, :N] * t["scale"][0] + t["base"][:N]).sigmoid() + eps
    post = post_scale * (m[:, N : 2 * N] * t["scale"][1] + t["base"][N : 2 * N]).sigmoid()
    comb = (m[:, 2 * N :] * t["scale"][2] + t["base"][2 * N :]).reshape(-1, N, N)
    comb = comb.softmax(-1) + eps
    comb = comb / (comb.sum(-2, keepdim=True) + eps)
    for _ in range(iters - 1):
        comb = comb / (comb.sum(-1, keepdim=True) + eps)
        comb = comb / (comb.sum(-2, keepdim=True) + eps)
    h_in = (pre[:, :, None] * x).sum(1)
    mixed = sum(comb[:, i, :, None] * x[:, i, None, :] for i in range(N))
    return mixed + post[:, :, None] * sublayer(h_in)[:, None], h_in


def deepseek(x, t, sublayer):
    return v4(x, {k.removeprefix("hc_attn_"): v for k, v in t.items()}, sublayer)


def transformers(x, t, sublayer):
    return v4(x, {k.removeprefix("attn_hc."): v for k, v in t.items()}, sublayer)


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
    flat, bias = x.flatten(1), t["bias"]
    m = (flat @ t["mapping_proj.weight"].T) / (flat.square().mean(-1, keepdim=True).sqrt() + 1e-6)
    pre = (t["alpha_pre"] * m[:, :N] + bias[:N]).sigmoid()
    post = 2 * (t["alpha_post"] * m[:, N : 2 * N] + bias[N : 2 * N]).sigmoid()
    h = (t["alpha_res"] * m[:, 2 * N :] + bias[2 * N :]).reshape(-1, N, N)
    h = (h - h.detach().amax(-1, keepdim=True)).exp()
    for _ in range(20):
        h = h / h.sum(-1, keepdim=True).clamp(min=1e-6)
        h = h / h.sum(-2, keepdim=True).clamp(min=1e-6)
    h_in = (pre[:, :, None] * x).sum(1)
    return torch.bmm(h, x) + post[:, :, None] * sublayer(h_in)[:, None], h_in


def transformer_engine(x, t, sublayer):
    """The state is [T, D, n]; no eps but the one of the norm."""
    state = x.transpose(1, 2).contiguous()
    flat = state.flatten(1)
    inv_rms = (flat.square().mean(-1, keepdim=True) + 2.0**-23).rsqrt()
    m = ((flat * t["norm_weight"]) @ t["phi"].T) * inv_rms
    beta = t["beta"][0]
    pre = (t["alpha"][0] * m[:, :N] + beta[:N]).sigmoid()
    post = 2 * (t["alpha"][1] * m[:, N : 2 * N] + beta[N : 2 * N]).sigmoid()
    h = (t["alpha"][2] * m[:, 2 * N :] + beta[2 * N :]).reshape(-1, N, N).softmax(-1)
    h = h / h.sum(-2, keepdim=True)
    for _ in range(19):
        h = h / h.sum(-1, keepdim=True)
        h = h / h.sum(-2, keepdim=True)
    h_in = torch.einsum("tdn,tn->td", state, pre)
    out = torch.einsum("tdi,tio->tdo", state, h) + sublayer(h_in)[:, :, None] * post[:, None]
    return out.transpose(1, 2), h_in


def liger(x, t, sublayer):
    """phi is [n*D, F]; the matrix is [out, in] and starts with a softmax over in."""
    flat, b, eps = x.flatten(1), t["b"], 1e-6
    m = (flat @ t["phi"]) * (flat.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    pre = (m[:, :N] * t["alpha_pre"] + b[:N]).sigmoid()
    post = 2 * (m[:, N : 2 * N] * t["alpha_post"] + b[N : 2 * N]).sigmoid()
    h = (m[:, 2 * N :] * t["alpha_res"] + b[2 * N :]).reshape(-1, N, N).softmax(-1) + eps
    h = h / (h.sum(-2, keepdim=True) + eps)
    for _ in range(19):
        h = h / (h.sum(-1, keepdim=True) + eps)
        h = h / (h.sum(-2, keepdim=True) + eps)
    h_in = (pre[:, :, None] * x).sum(1)
    return torch.bmm(h, x) + post[:, :, None] * sublayer(h_in)[:, None], h_in


def hy_v4(x, t, sublayer):
    """No residual matrix; eps is added to both gates."""
    flat = x.flatten(1)
    m = (flat @ t["hc_attn_layer.hc_fn"].T) * (flat.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    scale, base = t["hc_attn_layer.hc_scale"], t["hc_attn_layer.hc_base"]
    pre = (m[:, :N] * scale[0] + base[:N]).sigmoid() + 1e-6
    post = 2 * (m[:, N:] * scale[1] + base[N:]).sigmoid() + 1e-6
    h_in = (pre[:, :, None] * x).sum(1)
    return x + post[:, :, None] * sublayer(h_in)[:, None], h_in


_SCALARS = {"alpha_pre": (1,), "alpha_post": (1,), "alpha_res": (1,)}
_MEGATRON = {"mapping_proj.weight": (F, N * D), "bias": (F,), **_SCALARS}

LIBRARIES = {
    "deepseek": Library(
        deepseek, {"hc_attn_fn": (F, N * D), "hc_attn_scale": (3,), "hc_attn_base": (F,)}
    ),
    "transformers": Library(
        transformers, {"attn_hc.fn": (F, N * D), "attn_hc.scale": (3,), "attn_hc.base": (F,)}
    ),
    "cann": Library(cann, {"phi": (F, N * D), "alpha": (3,), "bias": (F,), "gamma": (N, D)}),
    "tilekernels": Library(
        tilekernels,
        {"mhc_fn": (F, N * D), "scale": (3,), "base": (F,), "norm_weight": (N * D,)},
    ),
    "megatron_dev": Library(megatron_dev, _MEGATRON),
    "megatron_main": Library(megatron_main, _MEGATRON),
    "transformer_engine": Library(
        transformer_engine,
        {"phi": (F, D * N), "alpha": (3,), "beta": (1, F), "norm_weight": (D * N,)},
    ),
    "liger": Library(
        liger,
        {"phi": (N * D, F), "b": (F,), "alpha_pre": (), "alpha_post": (), "alpha_res": ()},
    ),
    "hy_v4": Library(
        hy_v4,
        {
            "hc_attn_layer.hc_fn": (2 * N, N * D),
            "hc_attn_layer.hc_scale": (2,),
            "hc_attn_layer.hc_base": (2 * N,),
        },
    ),
}


def draw(library: Library, std: float, seed: int = 0, dtype=torch.float64) -> Tensors:
    """Tensors of one layer whose logits have about this standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, shape in library.shapes.items():
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        ending = name.rpartition(".")[2]
        if len(shape) == 2 and 1 not in shape and "gamma" not in name:
            values /= (N * D) ** 0.5
        elif ending in ("gamma", "norm_weight"):
            values = 1 + 0.3 * values
        elif ending.startswith("alpha") or ending.endswith("scale"):
            values = std * (1 + 0.1 * values)
        drawn[name] = values.to(dtype)
    return drawn
