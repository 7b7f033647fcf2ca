"""One call of MhcPre or MhcPreBackward on real tensors: check, choose, allocate, compute."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...impls import resolve
from ...types import Impl, MhcPreBackward, MhcPreForward
from . import blocked, reference
from .checks import (
    PreNumbers,
    backward_layout,
    check_backward,
    check_forward,
    check_out,
    forward_layout,
)


def forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: PreNumbers,
    impl: Impl,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreForward:
    sizes = check_forward(x, phi, alpha, bias, gamma)
    layout = forward_layout(sizes, x, phi)
    if out is not None:
        check_out("mhc_pre_forward", out, layout, x)
    chosen = resolve("mhc_pre_forward", impl, x)
    with _without_autocast(x):
        if chosen is Impl.REFERENCE:
            result = reference.forward(x, phi, alpha, bias, gamma, numbers)
            return MhcPreForward(*_hand_over(result, out))
        kernels = _kernels(chosen)
        work = MhcPreForward(*_allocate(layout, out, x, kernels))
        kernels.forward(
            sizes,
            x,
            phi.contiguous(),
            alpha.contiguous(),
            bias.contiguous(),
            _contiguous(gamma),
            numbers,
            work,
        )
        return MhcPreForward(*_hand_over(work, out))


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
    impl: Impl,
    wanted: Sequence[bool],
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreBackward:
    saved = (inv_rms, h_mix, h_pre, h_post)
    sizes = check_backward(
        x, phi, alpha, grad_h_in, grad_h_post, grad_h_res, *saved, gamma, grad_x_post
    )
    layout = backward_layout(sizes, x, phi, alpha, wanted)
    if out is not None:
        check_out("mhc_pre_backward", out, layout, x)
    chosen = resolve("mhc_pre_backward", impl, x)
    with _without_autocast(x):
        if chosen is Impl.REFERENCE:
            grads = reference.backward(
                x,
                phi,
                alpha,
                grad_h_in,
                grad_h_post,
                grad_h_res,
                *saved,
                gamma,
                grad_x_post,
                numbers,
            )
            kept = [g if w else None for g, w in zip(grads, wanted, strict=True)]
            return MhcPreBackward(*_hand_over(kept, out))
        kernels = _kernels(chosen)
        work = MhcPreBackward(*_allocate(layout, out, x, kernels))
        kernels.backward(
            sizes,
            x,
            phi.contiguous(),
            alpha.contiguous(),
            grad_h_in,
            grad_h_post.contiguous(),
            _contiguous(grad_h_res),
            inv_rms.contiguous(),
            h_mix.contiguous(),
            h_pre.contiguous(),
            h_post.contiguous(),
            _contiguous(gamma),
            grad_x_post,
            numbers,
            work,
        )
        return MhcPreBackward(*_hand_over(work, out))


def _kernels(impl: Impl) -> Any:
    """The module that computes into given tensors; one with native code is loaded when chosen."""
    if impl is Impl.CPU:
        from . import cpu

        return cpu
    return blocked


def _allocate(
    layout: Any, out: Sequence[Tensor | None] | None, x: Tensor, kernels: Any
) -> list[Any]:
    """Contiguous tensors to write into: the caller's where they fit, fresh ones otherwise."""
    given = out or (None,) * len(layout)
    return [
        None
        if spec is None
        else target
        if target is not None and target.is_contiguous()
        else kernels.fresh(x, *spec)
        for spec, target in zip(layout, given, strict=True)
    ]


def _hand_over(results: Sequence[Tensor | None], out: Sequence[Tensor | None] | None) -> list[Any]:
    """The results, copied into those `out` tensors that were not written in place."""
    if out is None:
        return list(results)
    final: list[Tensor | None] = []
    for result, target in zip(results, out, strict=True):
        if result is None or target is None or result is target:
            final.append(result)
        else:
            with torch.no_grad():
                final.append(target.copy_(result))
    return final


def _contiguous(t: Tensor | None) -> Tensor | None:
    return None if t is None else t.contiguous()


def _without_autocast(x: Tensor) -> torch.autocast:
    """The operators keep their own numerics under autocast."""
    return torch.autocast(x.device.type, enabled=False)
