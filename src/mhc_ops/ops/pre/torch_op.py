"""torch.ops.mhc.pre_forward and pre_backward: schemas, fakes, autograd, vmap, flop counts.

An absent h_res and an unwanted gradient are empty tensors here: an operator cannot return None.
"""

from collections.abc import Sequence
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
from .calls import PreBackwardCall, PreForwardCall
from .checks import backward_layout, check_backward, check_forward, forward_layout

_OPTIONS = (
    "float norm_eps=1e-6, bool norm_eps_outside=False, float hc_eps=1e-6, float post_scale=2.0, "
    "float post_eps=0.0, bool hf32=False, str impl='auto'"
)

LIBRARY.define(
    f"pre_forward(Tensor x, Tensor phi, Tensor alpha, Tensor bias, Tensor? gamma=None, {_OPTIONS})"
    " -> (Tensor h_in, Tensor h_post, Tensor h_res, Tensor inv_rms, Tensor h_mix, Tensor h_pre)"
)
LIBRARY.define(
    "pre_backward(Tensor x, Tensor phi, Tensor alpha, Tensor grad_h_in, Tensor grad_h_post, "
    "Tensor? grad_h_res, Tensor inv_rms, Tensor h_mix, Tensor h_pre, Tensor h_post, "
    f"Tensor? gamma=None, Tensor? grad_x_post=None, {_OPTIONS}, "
    "bool[] wanted=[True, True, True, True, True])"
    " -> (Tensor grad_x, Tensor grad_phi, Tensor grad_alpha, Tensor grad_bias, Tensor grad_gamma)"
)


def _forward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode("mhc_pre_forward")
    call = PreForwardCall(*args)
    return present(call.x, dispatch.forward(*call.tensors, *call.options))


def _forward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PreForwardCall(*args)
    return empty_results(call.x, forward_layout(check_forward(*call.tensors), call.x, call.phi))


def _backward(*args: Any) -> tuple[Tensor, ...]:
    refuse_forward_mode("mhc_pre_backward")
    call = PreBackwardCall(*args)
    grads = dispatch.backward(*call.tensors, *call.options)
    return present(call.x, grads)


def _backward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PreBackwardCall(*args)
    sizes = check_backward(*call.tensors)
    return empty_results(
        call.x, backward_layout(sizes, call.x, call.phi, call.alpha, call.computed)
    )


def projection_flops(x_shape: Sequence[int], phi_shape: Sequence[int]) -> int:
    """Flops of x @ phi^T."""
    tokens = 1
    for size in x_shape[:-2]:
        tokens *= size
    return 2 * tokens * phi_shape[0] * phi_shape[1]


register("pre_forward", _forward, _forward_fake, differentiate_forward, save_forward)
register("pre_backward", _backward, _backward_fake, differentiate_backward, save_backward)


@register_flop_formula(torch.ops.mhc.pre_forward)
def pre_forward_flops(x_shape: Any, phi_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the projection x @ phi^T; as torch's own formulas, matmuls alone are counted."""
    return projection_flops(x_shape, phi_shape)


@register_flop_formula(torch.ops.mhc.pre_backward)
def pre_backward_flops(x_shape: Any, phi_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the matmuls that the wanted gradients need: one for x, one for phi and gamma."""
    wanted = PreBackwardCall(x_shape, phi_shape, *rest).wanted
    return projection_flops(x_shape, phi_shape) * (int(wanted[0]) + int(wanted[1] or wanted[4]))
