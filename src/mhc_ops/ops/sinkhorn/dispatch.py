"""One call of sinkhorn or its backward on real tensors: check, choose, allocate, compute."""

from collections.abc import Sequence

from torch import Tensor

from ...impls import resolve
from ...types import Impl, Sinkhorn
from ..common.checking import check_out
from ..common.implementations import kernels_of
from ..common.outputs import allocate, hand_over, without_autocast
from . import reference
from .checks import SinkhornBackward, SinkhornNumbers, plan_backward, plan_forward


def forward(
    logits: Tensor,
    numbers: SinkhornNumbers,
    return_defect: bool,
    impl: Impl,
    out: Sequence[Tensor | None] | None = None,
) -> Sinkhorn:
    sizes, layout = plan_forward("sinkhorn_forward", (logits,), return_defect)
    if out is not None:
        check_out("sinkhorn_forward", out, layout, logits)
    chosen = resolve("sinkhorn_forward", impl, logits)
    with without_autocast(logits):
        if chosen is Impl.REFERENCE:
            result = reference.forward(logits, numbers, return_defect)
            return Sinkhorn(*hand_over(result, out))
        kernels = kernels_of(__package__, chosen)
        work = Sinkhorn(*allocate(layout, out, (logits,), kernels))
        kernels.forward(sizes, logits, numbers, work)
        return work if out is None else Sinkhorn(*hand_over(work, out))


def backward(
    logits: Tensor,
    grad_h_res: Tensor,
    numbers: SinkhornNumbers,
    impl: Impl,
    out: Sequence[Tensor | None] | None = None,
) -> Tensor:
    sizes, layout = plan_backward("sinkhorn_backward", (logits, grad_h_res))
    if out is not None:
        check_out("sinkhorn_backward", out, layout, logits)
    chosen = resolve("sinkhorn_backward", impl, logits)
    grad: Tensor
    with without_autocast(logits):
        if chosen is Impl.REFERENCE:
            (grad,) = hand_over([reference.backward(logits, grad_h_res, numbers)], out)
            return grad
        kernels = kernels_of(__package__, chosen)
        work = SinkhornBackward(*allocate(layout, out, (logits, grad_h_res), kernels))
        kernels.backward(sizes, logits, grad_h_res, numbers, work)
        (grad,) = hand_over(work, out)
        return grad
