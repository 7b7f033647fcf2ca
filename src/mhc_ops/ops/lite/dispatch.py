"""One call of permutation_mix or its backward on real tensors: check, choose, compute."""

from collections.abc import Sequence

from torch import Tensor

from ...impls import resolve
from ...types import Impl
from ..common.checking import check_out
from ..common.implementations import kernels_of
from ..common.outputs import allocate, hand_over, without_autocast
from . import reference
from .checks import LiteBackward, LiteForward, plan_backward, plan_forward


def forward(logits: Tensor, impl: Impl, out: Sequence[Tensor | None] | None = None) -> Tensor:
    sizes, layout = plan_forward("permutation_mix_forward", (logits,))
    if out is not None:
        check_out("permutation_mix_forward", out, layout, logits)
    chosen = resolve("permutation_mix_forward", impl, logits)
    h_res: Tensor
    with without_autocast(logits):
        if chosen is Impl.REFERENCE:
            (h_res,) = hand_over([reference.forward(logits, sizes.N)], out)
            return h_res
        kernels = kernels_of(__package__, chosen)
        work = LiteForward(*allocate(layout, out, (logits,), kernels))
        kernels.forward(sizes, logits, work)
        (h_res,) = hand_over(work, out)
        return h_res


def backward(
    logits: Tensor, grad_h_res: Tensor, impl: Impl, out: Sequence[Tensor | None] | None = None
) -> Tensor:
    sizes, layout = plan_backward("permutation_mix_backward", (logits, grad_h_res))
    if out is not None:
        check_out("permutation_mix_backward", out, layout, logits)
    chosen = resolve("permutation_mix_backward", impl, logits)
    grad: Tensor
    with without_autocast(logits):
        if chosen is Impl.REFERENCE:
            (grad,) = hand_over([reference.backward(logits, grad_h_res, sizes.N)], out)
            return grad
        kernels = kernels_of(__package__, chosen)
        work = LiteBackward(*allocate(layout, out, (logits, grad_h_res), kernels))
        kernels.backward(sizes, logits, grad_h_res, work)
        (grad,) = hand_over(work, out)
        return grad
