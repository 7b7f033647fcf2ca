"""One call of MhcPost or MhcPostBackward on real tensors: check, choose, allocate, compute."""

from collections.abc import Sequence

from torch import Tensor

from ...impls import resolve
from ...types import Impl, MhcPostBackward
from ..common.checking import check_out, check_target
from ..common.implementations import kernels_of
from ..common.outputs import allocate, contiguous, hand_over, without_autocast
from . import reference
from .checks import plan_backward, plan_forward


def forward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    impl: Impl,
    out: Tensor | None = None,
) -> Tensor:
    tensors = (x, h_res, h_out, h_post, bias)
    sizes, layout = plan_forward("mhc_post_forward", tensors)
    if out is not None:
        check_target("mhc_post_forward", "out", out, layout, x)
    chosen = resolve("mhc_post_forward", impl, x)
    result: Tensor
    with without_autocast(x):
        if chosen is Impl.REFERENCE:
            (result,) = hand_over([reference.forward(*tensors)], [out])
            return result
        kernels = kernels_of(__package__, chosen)
        work = allocate([layout], None if out is None else [out], tensors, kernels)
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
    tensors = (grad_out, x, h_res, h_out, h_post, bias)
    sizes, layout = plan_backward("mhc_post_backward", tensors, tuple(wanted))
    if out is not None:
        check_out("mhc_post_backward", out, layout, x)
    chosen = resolve("mhc_post_backward", impl, x)
    with without_autocast(x):
        if chosen is Impl.REFERENCE:
            grads = reference.backward(*tensors)
            kept = [g if w else None for g, w in zip(grads, wanted, strict=True)]
            return MhcPostBackward(*hand_over(kept, out))
        kernels = kernels_of(__package__, chosen)
        work = MhcPostBackward(*allocate(layout, out, tensors, kernels))
        gates = contiguous(h_res), h_out, h_post.contiguous(), contiguous(bias)
        kernels.backward(sizes, grad_out, x, *gates, work)
        return work if out is None else MhcPostBackward(*hand_over(work, out))
