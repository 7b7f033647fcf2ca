"""A module with the names and checks of torch_npu's mHC operators, computing with the reference.

Argument names, their order and which are keywords follow the published signatures to the letter;
dtypes and shapes are refused where the operators refuse them.
"""

import types

import torch
from torch import Tensor

from mhc_ops import mhc_post_backward, mhc_pre_backward, mhc_pre_forward

HALF = (torch.bfloat16, torch.float16)
calls: list[str] = []


def _check(condition: bool, words: str) -> None:
    if not condition:
        raise RuntimeError(f"stand-in: {words}")


def _check_pre(x: Tensor, phi: Tensor, others: dict[str, Tensor | None], multiple: int) -> None:
    n, d = x.shape[-2:]
    _check(x.dim() in (3, 4) and x.numel() > 0, "x dim")
    _check(x.dtype in HALF, "x dtype")
    _check(n in (4, 6, 8) and d % multiple == 0 and d <= 16384, "n or D")
    _check(phi.shape[1] == n * d, "phi")
    for name, tensor in {"phi": phi, **others}.items():
        _check(tensor is None or tensor.dtype is torch.float32, f"{name} dtype")


def npu_mhc_pre(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    *,
    gamma: Tensor | None = None,
    out_flag: int = 0,
    norm_eps: float = 1e-6,
    hc_eps: float = 1e-6,
    inner_precise: int = 0,
) -> tuple[Tensor, ...]:
    calls.append("npu_mhc_pre")
    _check_pre(x, phi, {"alpha": alpha, "bias": bias, "gamma": gamma}, 16)
    _check(type(out_flag) is int and out_flag in (0, 1), "out_flag")
    _check(type(norm_eps) is float and type(hc_eps) is float, "eps")
    _check(type(inner_precise) is int and inner_precise in (0, 1), "inner_precise")
    residual = len(alpha) == 3
    found = mhc_pre_forward(
        *(x, phi, alpha, bias, gamma),
        norm_eps=norm_eps,
        hc_eps=hc_eps,
        post_eps=0.0 if residual else hc_eps,
        precision=("fp32", "hf32")[inner_precise],
        impl="reference",
    )
    nothing = torch.empty(0)
    return tuple(nothing if t is None else t for t in found)


def npu_mhc_pre_backward(
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
    *,
    gamma: Tensor | None = None,
    hc_eps: float = 1e-6,
    grad_x_post: Tensor | None = None,
) -> tuple[Tensor, ...]:
    calls.append("npu_mhc_pre_backward")
    single = {"alpha": alpha, "grad_h_post": grad_h_post, "grad_h_res": grad_h_res}
    single |= {"inv_rms": inv_rms, "h_mix": h_mix, "h_pre": h_pre, "h_post": h_post}
    _check_pre(x, phi, {**single, "gamma": gamma}, 64)
    _check(grad_h_in.dtype is x.dtype and grad_h_in.dim() == x.dim() - 1, "grad_h_in")
    _check(grad_x_post is None or grad_x_post.dtype is x.dtype, "grad_x_post")
    _check(type(hc_eps) is float, "hc_eps")
    n = grad_h_post.shape[-1]
    _check(len(phi) == n * n + 2 * n and h_mix.shape[-1] == len(phi), "phi rows")
    found = mhc_pre_backward(
        *(x, phi, alpha, grad_h_in, grad_h_post, grad_h_res, inv_rms, h_mix, h_pre, h_post),
        *(gamma, grad_x_post),
        hc_eps=hc_eps,
        impl="reference",
    )
    return (*found[:4], x.new_zeros(n, x.shape[-1]).float() if gamma is None else found[4])


def npu_mhc_post_backward(
    grad_y: Tensor, x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor
) -> tuple[Tensor, ...]:
    calls.append("npu_mhc_post_backward")
    _check(x.dim() in (3, 4) and x.numel() > 0 and x.shape[-2] in (4, 6, 8), "x dim")
    _check(grad_y.shape == x.shape, "grad_y shape")
    _check(x.dtype in HALF and h_out.dtype in HALF and grad_y.dtype in HALF, "x dtype")
    _check(h_post.dtype is torch.float32, "h_post dtype")
    _check(h_res is None or h_res.dtype is torch.float32, "h_res shape")
    found = mhc_post_backward(grad_y, x, h_res, h_out, h_post, impl="reference")
    return tuple(found[:4])


def _mhc_post(x: Tensor, hRes: Tensor, hOut: Tensor, hPost: Tensor) -> Tensor:
    calls.append("mhc_post")
    _check(x.dtype in HALF and hOut.dtype is x.dtype, "x dtype")
    _check(hRes.dtype is torch.float32 and hPost.dtype is torch.float32, "hRes dtype")
    from mhc_ops import mhc_post_forward

    return mhc_post_forward(x, hRes, hOut, hPost, impl="reference")


def module() -> types.ModuleType:
    """The stand-in for torch_npu."""
    made = types.ModuleType("torch_npu")
    for function in (npu_mhc_pre, npu_mhc_pre_backward, npu_mhc_post_backward):
        setattr(made, function.__name__, function)
    return made


def registered() -> torch.library.Library:
    """Registers what cann_ops_transformer registers, for as long as the result lives."""
    library = torch.library.Library("cann_ops_transformer", "DEF")
    library.define("mhc_post(Tensor x, Tensor hRes, Tensor hOut, Tensor hPost) -> Tensor")
    library.impl("mhc_post", _mhc_post, "CPU")
    return library
