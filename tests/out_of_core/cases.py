"""A case of each operator that `run` knows, of sizes that no block of tokens divides."""

import torch

from mhc_ops import mhc_pre_forward
from mhc_ops.ops.sinkhorn.iterates import sinkhorn_iterates
from mhc_ops.tensorfile import TensorSet
from mhc_ops.testing import make_post_inputs, make_pre_inputs

TOKENS, N, D = 1300, 4, 24
LAYOUTS = ("TND", "BSND")
BATCH = {"TND": None, "BSND": 2}


def pre(layout: str = "TND", tokens: int = TOKENS, dim: int = D, **options) -> TensorSet:
    inputs = make_pre_inputs(tokens, N, dim, layout=layout, **options)
    names = ("x", "phi", "alpha", "bias", "gamma")
    given = dict(zip(names, inputs.forward_args, strict=True))
    return _set("MhcPre", given, hc_eps=1e-3)


def pre_backward(layout: str = "TND", tokens: int = TOKENS, dim: int = D, **options) -> TensorSet:
    inputs = make_pre_inputs(tokens, N, dim, layout=layout, **options)
    saved = mhc_pre_forward(*inputs.forward_args)._asdict()
    tensors = inputs._asdict() | {n: saved[n] for n in ("inv_rms", "h_mix", "h_pre", "h_post")}
    del tensors["bias"]
    return _set("MhcPreBackward", tensors, hc_eps=1e-6)


def post(layout: str = "TND", h_res: bool = True) -> TensorSet:
    inputs = make_post_inputs(TOKENS, N, D, bias=False, h_res=h_res, batch=BATCH[layout])
    given = dict(zip(("x", "h_res", "h_out", "h_post"), inputs.forward_args, strict=False))
    return _set("MhcPost", given)


def post_backward(layout: str = "TND", h_res: bool = True) -> TensorSet:
    inputs = make_post_inputs(TOKENS, N, D, bias=False, h_res=h_res, batch=BATCH[layout])
    return _set("MhcPostBackward", {**post(layout, h_res).tensors, "grad_y": inputs.grad_out})


def sinkhorn(layout: str = "TND") -> TensorSet:
    return _set("MhcSinkhorn", {"h_res": _logits(layout)}, num_iters=3, out_flag=1)


def sinkhorn_backward(layout: str = "TND") -> TensorSet:
    logits = _logits(layout)
    saved = sinkhorn_iterates(logits, num_iters=3, eps=1e-6)
    norm = torch.zeros(6, N, TOKENS, 8)
    norm[..., :N] = saved.norm.reshape(6, TOKENS, N, N).transpose(1, 2)
    total = torch.zeros(6, TOKENS, 8)
    total[..., :N] = saved.sum.reshape(6, TOKENS, N)
    tensors = {"grad_y": logits.flip(0), "norm": norm.flatten(), "sum": total.flatten()}
    return _set("MhcSinkhornBackward", tensors)


def pre_sinkhorn(layout: str = "TND") -> TensorSet:
    tensors = dict(pre(layout, gamma=False).tensors)
    return _set("MhcPreSinkhorn", tensors, num_iters=3)


def pre_sinkhorn_backward(layout: str = "TND") -> TensorSet:
    inputs = make_pre_inputs(TOKENS, N, D, layout=layout, gamma=False)
    saved = mhc_pre_forward(*inputs.forward_args)
    iterates = sinkhorn_iterates(saved.h_res, num_iters=3, eps=1e-6)
    tensors = {
        **pre(layout, gamma=False).tensors,
        "grad_hin": inputs.grad_h_in,
        "grad_h_post": inputs.grad_h_post,
        "grad_h_res": inputs.grad_h_res,
        "h_pre": saved.h_pre,
        "hc_before_norm": saved.h_mix,
        "inv_rms": saved.inv_rms.unsqueeze(-1),
        "sum_out": iterates.sum,
        "norm_out": iterates.norm,
    }
    return _set("MhcPreSinkhornBackward", tensors)


ALL = {
    "pre": pre,
    "pre_backward": pre_backward,
    "post": post,
    "post_backward": post_backward,
    "sinkhorn": sinkhorn,
    "sinkhorn_backward": sinkhorn_backward,
    "pre_sinkhorn": pre_sinkhorn,
    "pre_sinkhorn_backward": pre_sinkhorn_backward,
}


def _logits(layout: str) -> torch.Tensor:
    return torch.randn(*_lead(layout), N, N, generator=torch.Generator().manual_seed(3))


def _lead(layout: str) -> tuple[int, ...]:
    return (TOKENS,) if layout == "TND" else (2, TOKENS // 2)


def _set(op: str, tensors: dict[str, torch.Tensor | None], **attrs: float) -> TensorSet:
    return TensorSet({name: t for name, t in tensors.items() if t is not None}, op, attrs)
