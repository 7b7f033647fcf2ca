"""One call of MhcPost or MhcPostBackward on real tensors: check, choose, allocate, compute."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...impls import resolve
from ...types import Impl, MhcPostBackward
from ..common.checking import check_out, check_target
from ..common.outputs import allocate, contiguous, hand_over, without_autocast
from . import blocked, reference
from .checks import backward_layout, check_backward, check_forward


def forward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    impl: Impl,
    out: Tensor | None = None,
) -> Tensor:
    sizes = check_forward(x, h_res, h_out, h_post, bias)
    layout = (tuple(x.shape), x.dtype)
    if out is not None:
        check_target("mhc_post_forward", "out", out, layout, x)
    chosen = resolve("mhc_post_forward", impl, x)
    result: Tensor
    with without_autocast(x):
        if chosen is Impl.REFERENCE:
            (result,) = hand_over([reference.forward(x, h_res, h_out, h_post, bias)], [out])
            return result
        kernels = _kernels(chosen)
        work = allocate([layout], [out], (x, h_res, h_out, h_post, bias), kernels)
        gates = contiguous(h_res), h_out, h_post.contiguous(), contiguous(bias)
        kernels.forward(sizes, x, *gates, *work)
        (result,) = hand_over(work, [out])
        return result


def backward(
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    impl: Impl,
    wanted: Sequence[bool],
    out: Sequence[Tensor | None] | None = None,
) -> MhcPostBackward:
    sizes = check_backward(grad_out, x, h_res, h_out, h_post, bias)
    layout = backward_layout(sizes, x, h_post, wanted)
    if out is not None:
        check_out("mhc_post_backward", out, layout, x)
    chosen = resolve("mhc_post_backward", impl, x)
    with without_autocast(x):
        if chosen is Impl.REFERENCE:
            grads = reference.backward(grad_out, x, h_res, h_out, h_post, bias)
            kept = [g if w else None for g, w in zip(grads, wanted, strict=True)]
            return MhcPostBackward(*hand_over(kept, out))
        kernels = _kernels(chosen)
        work = MhcPostBackward(
            *allocate(layout, out, (grad_out, x, h_res, h_out, h_post, bias), kernels)
        )
        gates = contiguous(h_res), h_out, h_post.contiguous(), contiguous(bias)
        kernels.backward(sizes, grad_out, x, *gates, work)
        return MhcPostBackward(*hand_over(work, out))


def _kernels(impl: Impl) -> Any:
    """The module that computes into given tensors; one with native code is loaded when chosen."""
    if impl is Impl.CPU:
        from . import cpu

        return cpu
    return blocked
