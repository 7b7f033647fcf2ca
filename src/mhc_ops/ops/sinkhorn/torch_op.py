"""torch.ops.mhc.sinkhorn_forward and sinkhorn_backward: schemas, fakes, autograd, vmap, flops.

A defect that is not asked for is an empty tensor here: an operator cannot return None.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ..common.forward_mode import refuse_forward_mode
from ..common.registration import LIBRARY, empty_results, present, register
from . import dispatch
from .autograd import (
    differentiate_backward,
    differentiate_forward,
    save_backward,
    save_forward,
)
from .calls import SinkhornBackwardCall, SinkhornForwardCall
from .checks import backward_layout, check_backward, check_forward, forward_layout

_OPTIONS = (
    "int num_iters=20, float eps=1e-6, str eps_mode='add', str order='columns_last', "
    "float temperature=1.0"
)

LIBRARY.define(
    f"sinkhorn_forward(Tensor logits, {_OPTIONS}, bool return_defect=False, str impl='auto')"
    " -> (Tensor h_res, Tensor row_defect, Tensor column_defect)"
)
LIBRARY.define(
    f"sinkhorn_backward(Tensor logits, Tensor grad_h_res, {_OPTIONS}, str impl='auto')"
    " -> Tensor grad_logits"
)


def _forward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode("sinkhorn_forward")
    call = SinkhornForwardCall(*args)
    return present(call.logits, dispatch.forward(call.logits, *call.options))


def _forward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = SinkhornForwardCall(*args)
    layout = forward_layout(check_forward(call.logits), call.logits, call.return_defect)
    return empty_results(call.logits, layout)


def _backward(*args: Any) -> Tensor:
    refuse_forward_mode("sinkhorn_backward")
    call = SinkhornBackwardCall(*args)
    return dispatch.backward(call.logits, call.grad_h_res, *call.options)


def _backward_fake(*args: Any) -> Tensor:
    call = SinkhornBackwardCall(*args)
    sizes = check_backward(call.logits, call.grad_h_res)
    (grad_logits,) = empty_results(call.logits, backward_layout(sizes, call.logits))
    return grad_logits


register("sinkhorn_forward", _forward, _forward_fake, differentiate_forward, save_forward)
register("sinkhorn_backward", _backward, _backward_fake, differentiate_backward, save_backward)


def step_entries(logits_shape: Any, num_iters: int) -> int:
    """Entries of all iterates: 2 * num_iters - 1 steps."""
    entries: int = prod(logits_shape)
    return entries * max(2 * num_iters - 1, 0)


@register_flop_formula(torch.ops.mhc.sinkhorn_forward)
def sinkhorn_forward_flops(logits_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the steps: an entry is added to a sum, and divided by one."""
    return 2 * step_entries(logits_shape, _num_iters(rest, kwargs))


@register_flop_formula(torch.ops.mhc.sinkhorn_backward)
def sinkhorn_backward_flops(logits_shape: Any, grad: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the recomputed forward; and a sum, a product and a difference an entry."""
    return 5 * step_entries(logits_shape, _num_iters(rest, kwargs))


def _num_iters(rest: Any, kwargs: Any) -> int:
    return int(rest[0] if rest else kwargs.get("num_iters", 20))
