"""One call of MhcPre or MhcPreBackward on real tensors: check, choose, allocate, compute."""

from collections.abc import Sequence

from torch import Tensor

from ...impls import resolve
from ...types import Impl, MhcPreBackward, MhcPreForward
from ..common.checking import check_out
from ..common.implementations import kernels_of
from ..common.outputs import allocate, contiguous, hand_over, without_autocast
from . import reference
from .checks import PreNumbers, plan_backward, plan_forward


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
    tensors = (x, phi, alpha, bias, gamma)
    sizes, layout = plan_forward("mhc_pre_forward", tensors)
    if out is not None:
        check_out("mhc_pre_forward", out, layout, x)
    chosen = resolve("mhc_pre_forward", impl, x)
    with without_autocast(x):
        if chosen is Impl.REFERENCE:
            result = reference.forward(*tensors, numbers)
            return MhcPreForward(*hand_over(result, out))
        kernels = kernels_of(__package__, chosen)
        work = MhcPreForward(*allocate(layout, out, tensors, kernels))
        kernels.forward(
            sizes,
            x,
            phi.contiguous(),
            alpha.contiguous(),
            bias.contiguous(),
            contiguous(gamma),
            numbers,
            work,
        )
        return work if out is None else MhcPreForward(*hand_over(work, out))


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
    tensors = (x, phi, alpha, grad_h_in, grad_h_post, grad_h_res, *saved, gamma, grad_x_post)
    sizes, layout = plan_backward("mhc_pre_backward", tensors, tuple(wanted))
    if out is not None:
        check_out("mhc_pre_backward", out, layout, x)
    chosen = resolve("mhc_pre_backward", impl, x)
    with without_autocast(x):
        if chosen is Impl.REFERENCE:
            grads = reference.backward(*tensors, numbers)
            kept = [g if w else None for g, w in zip(grads, wanted, strict=True)]
            return MhcPreBackward(*hand_over(kept, out))
        kernels = kernels_of(__package__, chosen)
        work = MhcPreBackward(*allocate(layout, out, tensors, kernels))
        kernels.backward(
            sizes,
            x,
            phi.contiguous(),
            alpha.contiguous(),
            grad_h_in,
            grad_h_post.contiguous(),
            contiguous(grad_h_res),
            inv_rms.contiguous(),
            h_mix.contiguous(),
            h_pre.contiguous(),
            h_post.contiguous(),
            contiguous(gamma),
            grad_x_post,
            numbers,
            work,
        )
        return work if out is None else MhcPreBackward(*hand_over(work, out))
