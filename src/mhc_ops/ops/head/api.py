"""The public doors of StreamHead. It is the pre part of MhcPre, and runs on that operator."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...convention import Convention
from ...domains import check_finite, check_norm_eps
from ...errors import ArgumentError, UnsupportedError
from ...types import Impl, StreamHeadBackward, StreamHeadForward
from ..common.checking import check_out, check_streams, parse_impl, parse_wanted
from ..common.conventions import merge
from ..common.numerics import stream_sum
from ..common.outputs import hand_over, refuse_out
from ..pre.api import mhc_pre, mhc_pre_backward, mhc_pre_forward
from ..pre.checks import HC_EPS, NORM_EPS
from .checks import plan_backward, plan_forward


def stream_head_forward(
    x: Tensor,
    fn: Tensor,
    base: Tensor,
    scale: Tensor,
    *,
    norm_eps: float = NORM_EPS,
    eps: float = HC_EPS,
    convention: Convention | None = None,
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> StreamHeadForward:
    """Contract N streams into one by learned gates, as at the end of a model.

    Same as::

        inv_rms = (x.square().mean((-2, -1)) + norm_eps).rsqrt()
        h_mix = x.flatten(-2) @ fn.T
        h_pre = sigmoid(scale * h_mix * inv_rms[..., None] + base) + eps
        h = (h_pre[..., None] * x).sum(-2)

    Args:
        x: [B, S, N, D] or [T, N, D]; bfloat16, float16, float32 or float64, any strides. With
            float64 x every other tensor is float64 too; otherwise they are float32.
        fn: [N, N*D]. base: [N]. scale: [1].
        norm_eps, eps: see above. convention: another library's norm_eps (inside or outside the
            root) and hc_eps instead of these.
        impl: "auto", "reference", "torch", "cpu" or "triton"; a named one never falls back.
        out: tuple of four tensors to write into, in output order; None entries are allocated.

    Returns:
        StreamHeadForward(h, inv_rms, h_mix, h_pre); h [.., D] as x, the others are for the
        backward. Sums in float32, rounds h once.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: DeepSeek-V4's hc_head.
    """
    op = "stream_head_forward"
    numbers = head_numbers(op, norm_eps, eps, convention)
    parse_impl(op, impl)
    layout = plan_forward(op, (x, fn, base, scale))
    targets = None
    if out is not None:
        refuse_out(op, x, fn, base, scale)
        check_out(op, out, layout, x)
        h, inv_rms, _, h_pre = out
        targets = (h, None, None, inv_rms, None, h_pre)
    fwd = mhc_pre_forward(x, *as_pre(fn, base, scale), impl=impl, out=targets, **numbers)
    h_mix = fwd.h_mix[..., : x.shape[-2]].contiguous()
    result = StreamHeadForward(fwd.h_in, fwd.inv_rms, h_mix, fwd.h_pre)
    return result if out is None else StreamHeadForward(*hand_over(result, out))


def stream_head_backward(
    x: Tensor,
    fn: Tensor,
    scale: Tensor,
    grad_h: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    *,
    eps: float = HC_EPS,
    convention: Convention | None = None,
    impl: str | Impl = "auto",
    wanted: Iterable[str] | None = None,
    out: Sequence[Tensor | None] | None = None,
) -> StreamHeadBackward:
    """Gradients of the learned StreamHead from that of h; ops/head/README.md derives them.

    Args:
        x, fn, scale: as in stream_head_forward. grad_h: [.., D], dtype of x.
        inv_rms [..], h_mix [.., N], h_pre [.., N]: from stream_head_forward.
        eps, convention: those of the forward call.
        wanted: names of the gradients to compute, such as ("grad_x",); None for all.
        out: tuple of four tensors to write into, in output order; None entries are allocated.

    Returns:
        StreamHeadBackward(grad_x, grad_fn, grad_base, grad_scale); None for what is not wanted.
        grad_x as x, the others float32. Deterministic.

    Raises: as stream_head_forward.
    """
    op = "stream_head_backward"
    numbers = head_numbers(op, NORM_EPS, eps, convention)
    parse_impl(op, impl)
    flags = parse_wanted(op, wanted, StreamHeadBackward._fields)
    tensors = (x, fn, scale, grad_h, inv_rms, h_mix, h_pre)
    layout = plan_backward(op, tensors, tuple(flags))
    targets = None
    if out is not None:
        refuse_out(op, *tensors)
        check_out(op, out, layout, x)
        targets = (out[0], None, None, None, None)
    kept = [name for name, flag in zip(("x", "phi", "bias", "alpha"), flags, strict=True) if flag]
    phi, alpha, _ = as_pre(fn, fn.new_zeros(len(fn)), scale)
    none = torch.zeros_like(h_pre)
    mix = torch.cat([h_mix, none], -1)
    grads = mhc_pre_backward(
        *(x, phi, alpha, grad_h, none, None, inv_rms, mix, h_pre, none),
        hc_eps=numbers["hc_eps"],
        convention=convention,
        impl=impl,
        wanted=kept,
        out=targets,
    )
    n = x.shape[-2]
    result = StreamHeadBackward(
        grads.grad_x,
        None if grads.grad_phi is None else grads.grad_phi[:n],
        None if grads.grad_bias is None else grads.grad_bias[:n],
        None if grads.grad_alpha is None else grads.grad_alpha[:1],
    )
    return result if out is None else StreamHeadBackward(*hand_over(result, out))


def stream_head(
    x: Tensor,
    fn: Tensor | None = None,
    base: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    norm_eps: float = NORM_EPS,
    eps: float = HC_EPS,
    convention: Convention | None = None,
    impl: str | Impl = "auto",
) -> Tensor:
    """Differentiable contraction of N streams into one, learned or by the mean.

    With fn, base and scale: the h of stream_head_forward, its arguments and errors. Without all
    three: the mean of the streams, summed in float32 with stream 0 first and rounded once, in plain
    torch; it has no gates, so norm_eps, eps and convention do not enter.

    Returns: h [.., D] as x. Second derivatives are exact.
    """
    numbers = head_numbers("stream_head", norm_eps, eps, convention)
    if fn is None and base is None and scale is None:
        check_streams("stream_head", x)
        if parse_impl("stream_head", impl) in (Impl.CPU, Impl.TRITON, Impl.NPU):
            raise UnsupportedError(
                f"stream_head: the mean is plain torch and has no kernels for impl={impl!r}; "
                f"use impl='auto', 'torch' or 'reference'."
            )
        return (stream_sum(x) / x.shape[-2]).to(x.dtype)
    if fn is None or base is None or scale is None:
        given = {"fn": fn, "base": base, "scale": scale}
        missing = ", ".join(name for name, t in given.items() if t is None)
        raise ArgumentError(
            f"stream_head: fn, base and scale must be tensors together, got None for {missing}; "
            f"leave all three away for the mean."
        )
    parse_impl("stream_head", impl)
    plan_forward("stream_head", (x, fn, base, scale))
    pre: Any = mhc_pre(x, *as_pre(fn, base, scale), impl=impl, **numbers)
    h: Tensor = pre.h_in
    return h


def head_numbers(
    op: str, norm_eps: float, eps: float, convention: Convention | None
) -> dict[str, Any]:
    """The keyword arguments of mhc_pre that give these gates."""
    check_norm_eps(op, norm_eps)
    check_finite(op, eps=eps)
    norm_eps, eps = merge(
        op,
        convention,
        (("norm_eps", "norm_eps", norm_eps, NORM_EPS), ("eps", "hc_eps", eps, HC_EPS)),
    )
    return {"norm_eps": norm_eps, "hc_eps": eps, "convention": convention}


def as_pre(fn: Tensor, base: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """phi, alpha and bias of an MhcPre without residual part, whose post part is idle."""
    return (
        torch.cat([fn, torch.zeros_like(fn)]),
        torch.cat([scale, torch.zeros_like(scale)]),
        torch.cat([base, torch.zeros_like(base)]),
    )
