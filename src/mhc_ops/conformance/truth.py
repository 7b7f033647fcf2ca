"""The operators in float64, written from the specification's equations and nothing else.

Independent of the implementations on purpose: the kit trusts only the equations. Every function
takes the case's tensors by snake case name (None where null) and the attributes, and returns the
outputs in float64 by name. With op_impl_mode 1 the matmuls' operands are rounded as HF32 does (the
sinkhorn pair has no such attribute, but takes it here: somebody may switch the mode on by mistake).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor | None]
Attrs = Mapping[str, float]
Truth = Callable[[Tensors, Attrs], dict[str, Tensor]]


def hf32(t: Tensor) -> Tensor:
    """t rounded to float32, then to 10 fraction bits with ties away from zero, in float64."""
    bits = t.float().view(torch.int32)
    rounded = torch.where(t.isfinite(), (bits + 0x1000) & ~0x1FFF, bits)
    return rounded.view(torch.float32).double()


def _operands(attrs: Attrs) -> Callable[[Tensor], Tensor]:
    return hf32 if attrs["op_impl_mode"] == 1 else lambda t: t


def _need(tensors: Tensors, *names: str) -> list[Tensor]:
    found = [_wide(tensors[name]) for name in names]
    assert all(t is not None for t in found)
    return [t for t in found if t is not None]


def _wide(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.double()


def _scaled(x: Tensor, gamma: Tensor | None, attrs: Attrs) -> Tensor:
    """gamma*x as the matmul sees it, [.., n*D]."""
    product = x if gamma is None else x * gamma
    return _operands(attrs)(product).flatten(-2)


def mhc_pre(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    x, phi = _need(tensors, "x", "phi")
    inv_rms = (x.square().mean((-2, -1)) + attrs["norm_eps"]) ** -0.5
    h_mix = _scaled(x, _wide(tensors["gamma"]), attrs) @ _operands(attrs)(phi).T
    return gates(tensors, attrs, h_mix, inv_rms)


def gates(tensors: Tensors, attrs: Attrs, h_mix: Tensor, inv_rms: Tensor) -> dict[str, Tensor]:
    """The rest of MhcPre, from the projection and the inverse root mean square."""
    x, alpha, bias = _need(tensors, "x", "alpha", "bias")
    n, residual = x.shape[-2], len(alpha) == 3
    w = h_mix * inv_rms.unsqueeze(-1)
    h_pre = torch.sigmoid(alpha[0] * w[..., :n] + bias[:n]) + attrs["hc_eps"]
    h_post = 2 * torch.sigmoid(alpha[1] * w[..., n : 2 * n] + bias[n : 2 * n])
    outputs = {
        "hin": (h_pre.unsqueeze(-1) * x).sum(-2),
        "h_post": h_post if residual else h_post + attrs["hc_eps"],
        "inv_rms": inv_rms,
        "h_mix": h_mix,
        "h_pre": h_pre,
    }
    if residual:
        logits = alpha[2] * w[..., 2 * n :] + bias[2 * n :]
        square = logits.shape[-1] == n * n
        outputs["h_res"] = logits.unflatten(-1, (n, n)) if square else logits
    return outputs


def mhc_pre_backward(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    x, phi, alpha = _need(tensors, "x", "phi", "alpha")
    grad_h_in, grad_h_post, grad_h_res = _need(tensors, "grad_h_in", "grad_h_post", "grad_h_res")
    inv_rms, h_mix, h_pre, h_post = _need(tensors, "inv_rms", "h_mix", "h_pre", "h_post")
    gamma, grad_x_post = _wide(tensors["gamma"]), _wide(tensors["grad_x_post"])
    n, d = x.shape[-2:]
    tokens = grad_h_in.shape[:-1]
    rounded = _operands(attrs)

    s = h_pre - attrs["hc_eps"]
    a_pre = (grad_h_in.unsqueeze(-2) * x).sum(-1) * s * (1 - s)
    a_post = grad_h_post * h_post * (1 - h_post / 2)
    a_res = grad_h_res.reshape(*tokens, -1)
    a = torch.cat((a_pre, a_post, a_res), -1)
    m = torch.cat((alpha[0] * a_pre, alpha[1] * a_post, alpha[2] * a_res), -1)
    g = rounded(m * inv_rms.unsqueeze(-1))
    d_inv = (m * h_mix).sum(-1)

    u = (g @ rounded(phi)).unflatten(-1, (n, d))
    rms = d_inv * inv_rms**3 / (n * d)
    grad_x = grad_h_in.unsqueeze(-2) * h_pre.unsqueeze(-1)
    grad_x = grad_x + (u if gamma is None else u * gamma) - rms[..., None, None] * x
    if grad_x_post is not None:
        grad_x = grad_x + grad_x_post
    by_column = (a * h_mix * inv_rms.unsqueeze(-1)).flatten(0, -2).sum(0)
    return {
        "grad_x": grad_x,
        "grad_phi": g.flatten(0, -2).T @ _scaled(x, gamma, attrs).flatten(0, -2),
        "grad_alpha": torch.stack(
            [part.sum() for part in by_column.split([n, n, len(phi) - 2 * n])]
        ),
        "grad_bias": a.flatten(0, -2).sum(0),
        "grad_gamma": torch.zeros_like(x.flatten(0, -3)[0])
        if gamma is None
        else (x * u).flatten(0, -3).sum(0),
    }


def mhc_post(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    x, h_out, h_post = _need(tensors, "x", "h_out", "h_post")
    h_res = _wide(tensors["h_res"])
    mixed = x if h_res is None else torch.einsum("...ij,...id->...jd", h_res, x)
    return {"y": mixed + h_post.unsqueeze(-1) * h_out.unsqueeze(-2)}


def mhc_post_backward(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    grad_y, x, h_out, h_post = _need(tensors, "grad_y", "x", "h_out", "h_post")
    h_res = _wide(tensors["h_res"])
    return {
        "grad_x": grad_y if h_res is None else torch.einsum("...ij,...jd->...id", h_res, grad_y),
        "grad_h_res": torch.einsum("...id,...jd->...ij", x, grad_y),
        "grad_h_out": torch.einsum("...jd,...j->...d", grad_y, h_post),
        "grad_h_post": torch.einsum("...jd,...d->...j", grad_y, h_out),
    }


def iterates(logits: Tensor, num_iters: int, eps: float) -> tuple[list[Tensor], list[Tensor]]:
    """Softmax without eps, then the matrix after each step; the sums, of exponentials first."""
    e = (logits - logits.amax(-1, keepdim=True)).exp()
    sums = [e.sum(-1)]
    norms = [e / e.sum(-1, keepdim=True)]
    h = norms[0] + eps
    for step in range(1, 2 * num_iters):
        total = h.sum(-2 if step % 2 else -1) + eps
        h = h / total.unsqueeze(-2 if step % 2 else -1)
        sums.append(total)
        norms.append(h)
    return norms, sums


def mhc_sinkhorn(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    """The saved tensors are left out: their order in memory is no contract."""
    (logits,) = _need(tensors, "h_res")
    logits = logits.masked_fill(logits.isinf(), torch.nan)
    return {"y": iterates(logits, int(attrs["num_iters"]), attrs["eps"])[0][-1]}


def mhc_sinkhorn_backward(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    """Reads the saved tensors in this surface's order, one tile of all tokens."""
    grad, norm, sums = _need(tensors, "grad_y", "norm", "sum")
    n, lead = grad.shape[-1], grad.shape[:-2]
    steps = norm.numel() // (grad.numel() // n * 8)
    norm = norm.reshape(steps, n, -1, 8)[..., :n].transpose(1, 2).reshape(steps, *lead, n, n)
    sums = sums.reshape(steps, -1, 8)[..., :n].reshape(steps, *lead, n)
    return {"grad_input": _back_through(grad, list(norm), list(sums))}


def _back_through(grad: Tensor, norms: list[Tensor], sums: list[Tensor]) -> Tensor:
    for step in reversed(range(1, len(norms))):
        dim = -2 if step % 2 else -1
        along = (grad * norms[step]).sum(dim, keepdim=True)
        grad = (grad - along) / sums[step].unsqueeze(dim)
    return (grad - (grad * norms[0]).sum(-1, keepdim=True)) * norms[0]


def mhc_pre_sinkhorn(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    """Block by block of tokens: published cases have streams of 10^8 elements."""
    x = tensors["x"]
    assert x is not None
    lead = x.shape[:-2]
    blocks = [
        _pre_sinkhorn_block({**tensors, "x": block}, attrs)
        for block in x.flatten(0, -3).split(_BLOCK)
    ]
    return {
        name: torch.cat([block[name] for block in blocks], dim).unflatten(dim, lead)
        for name, dim in (*((name, 0) for name in _BY_TOKEN), ("sum_out", 1), ("norm_out", 1))
    }


_BLOCK = 512
_BY_TOKEN = ("hin", "h_post", "h_res", "h_pre", "hc_before_norm", "inv_rms")


def _pre_sinkhorn_block(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    pre = mhc_pre({**tensors, "gamma": None}, {"op_impl_mode": 0, **attrs})
    norms, sums = iterates(pre["h_res"], int(attrs["num_iters"]), attrs["hc_eps"])
    norm_out, sum_out = torch.stack(norms), torch.stack(sums)
    norm_out[0] += attrs["hc_eps"]
    sum_out[0] += attrs["hc_eps"]
    return {
        "hin": pre["hin"],
        "h_post": pre["h_post"],
        "h_res": norms[-1].flatten(-2),
        "h_pre": pre["h_pre"],
        "hc_before_norm": pre["h_mix"],
        "inv_rms": pre["inv_rms"].unsqueeze(-1),
        "sum_out": sum_out,
        "norm_out": norm_out,
    }


def mhc_pre_sinkhorn_backward(tensors: Tensors, attrs: Attrs) -> dict[str, Tensor]:
    """The exact gradient; of the saved iterates only their number counts."""
    x, h_mix, inv_rms = _need(tensors, "x", "hc_before_norm", "inv_rms")
    alpha, bias, sum_out = _need(tensors, "alpha", "bias", "sum_out")
    (grad_h_res,) = _need(tensors, "grad_h_res")
    n, eps = x.shape[-2], attrs["eps"]
    w = h_mix * inv_rms
    logits = (alpha[2] * w[..., 2 * n :] + bias[2 * n :]).unflatten(-1, (n, n))
    norms, sums = iterates(logits, len(sum_out) // 2, eps)
    grad = _back_through(grad_h_res.reshape(logits.shape), norms, sums)
    pre = {
        "grad_h_in": tensors["grad_hin"],
        "grad_h_res": grad,
        "inv_rms": inv_rms.squeeze(-1),
        "h_mix": h_mix,
        "h_post": 2 * torch.sigmoid(alpha[1] * w[..., n : 2 * n] + bias[n : 2 * n]),
        "gamma": None,
        "grad_x_post": None,
    }
    found = mhc_pre_backward({**tensors, **pre}, {"hc_eps": eps, "op_impl_mode": 0, **attrs})
    return {name: found[name] for name in ("grad_x", "grad_phi", "grad_alpha", "grad_bias")}


def saved_by_forward(
    op: str, tensors: Tensors, attrs: Attrs, shapes: Mapping[str, Any]
) -> dict[str, Tensor]:
    """What the forward of a backward operator saves, by the backward's names.

    tensors: inputs of the forward. attrs: of the backward. shapes: descriptions of the backward's
    inputs; the number of iterations is read from them.
    """
    if op == "MhcPreBackward":
        return mhc_pre(tensors, {"norm_eps": 1e-6, **attrs})
    if op == "MhcPreSinkhornBackward":
        num_iters = shapes["sum_out"].shape[0] // 2
        eps = attrs["eps"]
        return mhc_pre_sinkhorn(tensors, {"norm_eps": 1e-6, "hc_eps": eps, "num_iters": num_iters})
    (logits,) = _need(tensors, "h_res")
    n, tokens = logits.shape[-1], logits.shape[:-2].numel()
    num_iters = shapes["norm"].shape[0] // (2 * tokens * n * 8)
    norms, sums = iterates(logits.reshape(tokens, n, n), num_iters, 1e-6)
    pad = torch.nn.functional.pad
    return {
        "norm": pad(torch.stack(norms).transpose(1, 2), (0, 8 - n)).flatten(),
        "sum": pad(torch.stack(sums), (0, 8 - n)).flatten(),
    }


TRUTHS: dict[str, Truth] = {
    "MhcPre": mhc_pre,
    "MhcPreBackward": mhc_pre_backward,
    "MhcPost": mhc_post,
    "MhcPostBackward": mhc_post_backward,
    "MhcSinkhorn": mhc_sinkhorn,
    "MhcSinkhornBackward": mhc_sinkhorn_backward,
    "MhcPreSinkhorn": mhc_pre_sinkhorn,
    "MhcPreSinkhornBackward": mhc_pre_sinkhorn_backward,
}
