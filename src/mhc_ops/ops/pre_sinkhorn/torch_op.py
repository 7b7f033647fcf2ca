"""torch.ops.mhc.pre_sinkhorn_forward and _backward: schemas, fakes, autograd, vmap, flop counts.

An unwanted gradient is an empty tensor here: an operator cannot return None.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ..common.forward_mode import refuse_forward_mode
from ..common.registration import LIBRARY, empty_results, present, register
from ..pre.checks import backward_layout
from ..pre.torch_op import projection_flops
from ..sinkhorn.torch_op import step_entries
from . import dispatch
from .autograd import differentiate_backward, differentiate_forward, save_backward, save_forward
from .calls import PreSinkhornBackwardCall, PreSinkhornForwardCall
from .checks import BACKWARD, FORWARD, check_backward, check_forward, forward_layout

_OPTIONS = (
    "float norm_eps=1e-6, bool norm_eps_outside=False, float hc_eps=1e-6, float post_scale=2.0, "
    "float post_eps=0.0, bool hf32=False, int num_iters=20, float eps=1e-6, str eps_mode='add', "
    "str order='columns_last', float temperature=1.0, str impl='auto'"
)

LIBRARY.define(
    "pre_sinkhorn_forward(Tensor x, Tensor phi, Tensor alpha, Tensor bias, Tensor? gamma=None, "
    f"{_OPTIONS}) -> (Tensor h_in, Tensor h_post, Tensor h_res, Tensor inv_rms, Tensor h_mix, "
    "Tensor h_pre)"
)
LIBRARY.define(
    "pre_sinkhorn_backward(Tensor x, Tensor phi, Tensor alpha, Tensor bias, Tensor grad_h_in, "
    "Tensor grad_h_post, Tensor grad_h_res, Tensor inv_rms, Tensor h_mix, Tensor h_pre, "
    f"Tensor h_post, Tensor? gamma=None, Tensor? grad_x_post=None, {_OPTIONS}, "
    "bool[] wanted=[True, True, True, True, True])"
    " -> (Tensor grad_x, Tensor grad_phi, Tensor grad_alpha, Tensor grad_bias, Tensor grad_gamma)"
)


def _forward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode(FORWARD)
    call = PreSinkhornForwardCall(*args)
    return tuple(dispatch.forward(*call.tensors, *call.options))


def _forward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PreSinkhornForwardCall(*args)
    return empty_results(call.x, forward_layout(check_forward(*call.tensors), call.x, call.phi))


def _backward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode(BACKWARD)
    call = PreSinkhornBackwardCall(*args)
    return present(call.x, dispatch.backward(*call.tensors, *call.options))


def _backward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PreSinkhornBackwardCall(*args)
    sizes = check_backward(*call.tensors)
    return empty_results(
        call.x, backward_layout(sizes, call.x, call.phi, call.alpha, call.computed)
    )


register("pre_sinkhorn_forward", _forward, _forward_fake, differentiate_forward, save_forward)
register("pre_sinkhorn_backward", _backward, _backward_fake, differentiate_backward, save_backward)


def _step_entries(x_shape: Any, num_iters: int) -> int:
    return step_entries((*x_shape[:-1], x_shape[-2]), num_iters)


@register_flop_formula(torch.ops.mhc.pre_sinkhorn_forward)
def pre_sinkhorn_forward_flops(x_shape: Any, phi_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of MhcPre's formula and of Sinkhorn's."""
    num_iters = PreSinkhornForwardCall(x_shape, phi_shape, *rest).num_iters
    return projection_flops(x_shape, phi_shape) + 2 * _step_entries(x_shape, num_iters)


@register_flop_formula(torch.ops.mhc.pre_sinkhorn_backward)
def pre_sinkhorn_backward_flops(x_shape: Any, phi_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the matmuls that the wanted gradients need, and of Sinkhorn's formula."""
    call = PreSinkhornBackwardCall(x_shape, phi_shape, *rest)
    products = int(call.wanted[0]) + int(call.wanted[1] or call.wanted[4])
    steps = 5 * _step_entries(x_shape, call.num_iters)
    return projection_flops(x_shape, phi_shape) * products + steps
