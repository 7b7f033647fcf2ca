"""One call of the boundary on real tensors: check, choose, allocate, compute."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...impls import resolve
from ...types import Impl, MhcPostPreBackward, MhcPostPreForward
from ..common.checking import check_out
from ..common.implementations import kernels_of
from ..common.numerics import residual_logits
from ..common.outputs import allocate, contiguous, hand_over, without_autocast
from ..pre.checks import PreNumbers
from ..sinkhorn import dispatch as sinkhorn_dispatch
from ..sinkhorn.checks import SinkhornNumbers
from . import reference
from .checks import (
    BackwardInputs,
    ForwardInputs,
    check_backward,
    check_forward,
    gradients_layout,
    outputs_layout,
)


def forward(
    given: ForwardInputs,
    numbers: PreNumbers,
    sinkhorn: SinkhornNumbers | None,
    impl: Impl,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPostPreForward:
    sizes = check_forward(given, sinkhorn)
    layout = outputs_layout(sizes, given)
    if out is not None:
        check_out("mhc_post_pre_forward", out, layout, given.x)
    chosen = resolve("mhc_post_pre_forward", impl, given.x)
    with without_autocast(given.x):
        if chosen is Impl.REFERENCE:
            result = reference.forward(given, numbers, sinkhorn)
            return MhcPostPreForward(*hand_over(result, out))
        kernels = kernels_of(__package__, chosen)
        work = MhcPostPreForward(*allocate(layout, out, given, kernels))
        if sinkhorn is None or layout.h_res is None:
            kernels.forward(sizes, _dense(given), numbers, work)
        else:
            logits = kernels.fresh(given.x, *layout.h_res)
            kernels.forward(sizes, _dense(given), numbers, work._replace(h_res=logits))
            sinkhorn_dispatch.forward(logits, sinkhorn, False, chosen, (work.h_res, None, None))
        return MhcPostPreForward(*hand_over(work, out))


def backward(
    given: BackwardInputs,
    numbers: PreNumbers,
    sinkhorn: SinkhornNumbers | None,
    impl: Impl,
    wanted: Sequence[bool],
    out: Sequence[Tensor | None] | None = None,
) -> MhcPostPreBackward:
    sizes = check_backward(given, sinkhorn)
    layout = gradients_layout(sizes, given, wanted)
    if out is not None:
        check_out("mhc_post_pre_backward", out, layout, given.x)
    chosen = resolve("mhc_post_pre_backward", impl, given.x)
    with without_autocast(given.x):
        if chosen is Impl.REFERENCE:
            grads = reference.backward(given, numbers, sinkhorn)
            kept = [g if w else None for g, w in zip(grads, wanted, strict=True)]
            return MhcPostPreBackward(*hand_over(kept, out))
        kernels = kernels_of(__package__, chosen)
        work = MhcPostPreBackward(*allocate(layout, out, given, kernels))
        if sinkhorn is not None and given.grad_h_res_next is not None:
            logits = residual_logits(given.h_mix, given.inv_rms, given.alpha, given.bias)
            grad = sinkhorn_dispatch.backward(logits, given.grad_h_res_next, sinkhorn, chosen)
            given = given._replace(grad_h_res_next=grad)
        kernels.backward(sizes, _dense(given), numbers, work)
        return MhcPostPreBackward(*hand_over(work, out))


def _dense(given: Any) -> Any:
    """The inputs with every tensor contiguous but those that kernels read by their strides."""
    strided = {"x", "h_out", "x_next", "grad_x_next", "grad_h_in"}
    return given._make(
        t if name in strided else contiguous(t)
        for name, t in zip(given._fields, given, strict=True)
    )
