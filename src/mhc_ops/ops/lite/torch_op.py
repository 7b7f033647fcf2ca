"""torch.ops.mhc.permutation_mix_forward and _backward: schemas, fakes, autograd, vmap, flops."""

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ...types import Impl
from ..common.forward_mode import refuse_forward_mode
from ..common.registration import LIBRARY, empty_results, register
from . import dispatch
from .autograd import (
    differentiate_backward,
    differentiate_forward,
    save_backward,
    save_forward,
)
from .checks import backward_layout, check_backward, check_forward, forward_layout

LIBRARY.define("permutation_mix_forward(Tensor logits, str impl='auto') -> Tensor h_res")
LIBRARY.define(
    "permutation_mix_backward(Tensor logits, Tensor grad_h_res, str impl='auto')"
    " -> Tensor grad_logits"
)


def _forward(logits: Tensor, impl: str = "auto") -> Tensor:
    refuse_forward_mode("permutation_mix_forward")
    return dispatch.forward(logits, Impl(impl))


def _forward_fake(logits: Tensor, impl: str = "auto") -> Tensor:
    (h_res,) = empty_results(logits, forward_layout(check_forward(logits), logits))
    return h_res


def _backward(logits: Tensor, grad_h_res: Tensor, impl: str = "auto") -> Tensor:
    refuse_forward_mode("permutation_mix_backward")
    return dispatch.backward(logits, grad_h_res, Impl(impl))


def _backward_fake(logits: Tensor, grad_h_res: Tensor, impl: str = "auto") -> Tensor:
    sizes = check_backward(logits, grad_h_res)
    (grad_logits,) = empty_results(logits, backward_layout(sizes, logits))
    return grad_logits


register("permutation_mix_forward", _forward, _forward_fake, differentiate_forward, save_forward)
register(
    "permutation_mix_backward", _backward, _backward_fake, differentiate_backward, save_backward
)


@register_flop_formula(torch.ops.mhc.permutation_mix_forward)
def permutation_mix_forward_flops(
    logits_shape: Any, *rest: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Flops of the sums: each weight is added to N entries."""
    entries: int = prod(logits_shape)
    return entries * int(out_shape[-1])


@register_flop_formula(torch.ops.mhc.permutation_mix_backward)
def permutation_mix_backward_flops(
    logits_shape: Any, grad_shape: Any, *rest: Any, **kwargs: Any
) -> int:
    """Flops of the sums: each logit's gradient adds N entries."""
    entries: int = prod(logits_shape)
    return entries * int(grad_shape[-1])
