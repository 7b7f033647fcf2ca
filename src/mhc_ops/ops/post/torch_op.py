"""torch.ops.mhc.post_forward and post_backward: schemas, fakes, autograd, vmap, flop counts.

An unwanted gradient is an empty tensor here: an operator cannot return None.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ...types import Impl
from ..common.forward_mode import refuse_forward_mode
from ..common.registration import LIBRARY, empty_results, present, register
from . import dispatch
from .autograd import differentiate_backward, differentiate_forward, save_backward, save_forward
from .calls import PostBackwardCall, PostForwardCall
from .checks import backward_layout, check_backward, check_forward, computed

LIBRARY.define(
    "post_forward(Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post, Tensor? bias=None, "
    "str impl='auto') -> Tensor"
)
LIBRARY.define(
    "post_backward(Tensor grad_out, Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post, "
    "Tensor? bias=None, str impl='auto', bool[] wanted=[True, True, True, True, True])"
    " -> (Tensor grad_x, Tensor grad_h_res, Tensor grad_h_out, Tensor grad_h_post, "
    "Tensor grad_bias)"
)


def _forward(*args: Any) -> Tensor:
    refuse_forward_mode("mhc_post_forward")
    call = PostForwardCall(*args)
    return dispatch.forward(*call[:5], Impl(call.impl))


def _forward_fake(*args: Any) -> Tensor:
    call = PostForwardCall(*args)
    check_forward(*call[:5])
    return call.x.new_empty(call.x.shape)


def _backward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode("mhc_post_backward")
    call = PostBackwardCall(*args)
    wanted = computed(call.wanted, call.bias)
    return present(call.x, dispatch.backward(*call[:6], Impl(call.impl), wanted))


def _backward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PostBackwardCall(*args)
    sizes = check_backward(*call[:6])
    wanted = computed(call.wanted, call.bias)
    return empty_results(call.x, backward_layout(sizes, call.x, call.h_post, wanted))


register("post_forward", _forward, _forward_fake, differentiate_forward, save_forward)
register("post_backward", _backward, _backward_fake, differentiate_backward, save_backward)


def _mixing_flops(x_shape: Sequence[int]) -> int:
    flops = 2 * x_shape[-2]
    for size in x_shape:
        flops *= size
    return flops


@register_flop_formula(torch.ops.mhc.post_forward)
def post_forward_flops(x_shape: Any, h_res_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the product of h_res and x; as torch's own formulas, matmuls alone are counted."""
    return 0 if h_res_shape is None else _mixing_flops(x_shape)


@register_flop_formula(torch.ops.mhc.post_backward)
def post_backward_flops(grad_shape: Any, x_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the products that the wanted gradients need: one for x, one for h_res."""
    call = PostBackwardCall(grad_shape, x_shape, *rest)
    products = int(call.wanted[0] and call.h_res is not None) + int(call.wanted[1])
    return products * _mixing_flops(x_shape)
