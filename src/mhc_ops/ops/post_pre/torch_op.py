"""torch.ops.mhc.post_pre_forward and post_pre_backward: schemas, fakes, autograd, vmap, flops.

An absent h_res and an unwanted gradient are empty tensors here: an operator cannot return None.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ..common.forward_mode import refuse_forward_mode
from ..common.registration import LIBRARY, empty_results, present, register
from ..post.torch_op import post_backward_flops, post_forward_flops
from ..pre.torch_op import projection_flops
from . import dispatch
from .autograd import differentiate_backward, differentiate_forward, save_backward, save_forward
from .calls import PostPreBackwardCall, PostPreForwardCall
from .checks import check_backward, check_forward, gradients_layout, outputs_layout

_OPTIONS = (
    "float norm_eps=1e-6, bool norm_eps_outside=False, float hc_eps=1e-6, float post_scale=2.0, "
    "float post_eps=0.0, bool hf32=False, int? num_iters=None, float eps=1e-6, "
    "str eps_mode='add', str order='columns_last', float temperature=1.0, str impl='auto'"
)
_INPUTS = (
    "Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post, Tensor phi, Tensor alpha, Tensor bias"
)

LIBRARY.define(
    f"post_pre_forward({_INPUTS}, Tensor? gamma=None, Tensor? out_bias=None, {_OPTIONS})"
    " -> (Tensor x_next, Tensor h_in, Tensor h_post_next, Tensor h_res_next, Tensor inv_rms, "
    "Tensor h_mix, Tensor h_pre)"
)
LIBRARY.define(
    f"post_pre_backward({_INPUTS}, Tensor? grad_x_next, Tensor grad_h_in, "
    "Tensor grad_h_post_next, Tensor? grad_h_res_next, Tensor x_next, Tensor inv_rms, "
    "Tensor h_mix, Tensor h_pre, Tensor h_post_next, Tensor? gamma=None, Tensor? out_bias=None, "
    f"{_OPTIONS}, bool[] wanted=[True, True, True, True, True, True, True, True, True])"
    " -> (Tensor grad_x, Tensor grad_h_res, Tensor grad_h_out, Tensor grad_h_post, "
    "Tensor grad_out_bias, Tensor grad_phi, Tensor grad_alpha, Tensor grad_bias, "
    "Tensor grad_gamma)"
)


def _forward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode("mhc_post_pre_forward")
    call = PostPreForwardCall(*args)
    return present(call.x, dispatch.forward(call.tensors, *call.options))


def _forward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PostPreForwardCall(*args)
    given, (_, sinkhorn, _) = call.tensors, call.options
    return empty_results(call.x, outputs_layout(check_forward(given, sinkhorn), given))


def _backward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode("mhc_post_pre_backward")
    call = PostPreBackwardCall(*args)
    return present(call.x, dispatch.backward(call.tensors, *call.options, call.computed))


def _backward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PostPreBackwardCall(*args)
    given, (_, sinkhorn, _) = call.tensors, call.options
    sizes = check_backward(given, sinkhorn)
    return empty_results(call.x, gradients_layout(sizes, given, call.computed))


register("post_pre_forward", _forward, _forward_fake, differentiate_forward, save_forward)
register("post_pre_backward", _backward, _backward_fake, differentiate_backward, save_backward)


@register_flop_formula(torch.ops.mhc.post_pre_forward)
def post_pre_forward_flops(
    x_shape: Any, h_res_shape: Any, h_out: Any, h_post: Any, phi_shape: Any, *rest: Any, **kw: Any
) -> int:
    """Flops of post's and pre's products; as torch's own formulas, matmuls alone are counted."""
    return post_forward_flops(x_shape, h_res_shape) + projection_flops(x_shape, phi_shape)


@register_flop_formula(torch.ops.mhc.post_pre_backward)
def post_pre_backward_flops(*args: Any, **kwargs: Any) -> int:
    """Flops of the products that the wanted gradients need; any of post's needs that of x_next."""
    call: Any = PostPreBackwardCall(*args)  # shapes in place of tensors
    wanted = call.wanted
    of_next = int(any(wanted[:5])) + int(wanted[5] or wanted[8])
    of_post = post_backward_flops(
        call.x, call.x, call.h_res, call.h_out, call.h_post, None, "auto", wanted[:5]
    )
    return of_next * projection_flops(call.x, call.phi) + of_post
