"""The boundary of two sublayers on the CPU: hands tensors to the C++ kernels (csrc/post_pre).

Limits: x in bfloat16, float16 or float32. x, h_out, x_next, grad_x_next and grad_h_in are read in
place when their last dimension is contiguous, and copied otherwise. ctypes releases the GIL during
a call.
"""

from typing import TYPE_CHECKING

import torch

from ... import _native
from ...types import MhcPostPreBackward, MhcPostPreForward
from ..common.kernels import at, fresh, token_rows
from ..pre.cpu import native_numbers, native_sizes

if TYPE_CHECKING:
    from ..pre.checks import PreNumbers, PreSizes
    from .checks import BackwardInputs, ForwardInputs

__all__ = ["backward", "forward", "fresh"]

_post_forward_in = _native.packer(_native.PostForwardIn)
_pre_forward_in = _native.packer(_native.ForwardIn)
_pre_forward_out = _native.packer(_native.ForwardOut)
_post_backward_in = _native.packer(_native.PostBackwardIn)
_pre_backward_in = _native.packer(_native.BackwardIn)
_post_backward_out = _native.packer(_native.PostBackwardOut)
_pre_backward_out = _native.packer(_native.BackwardOut)
_NO_ROWS = (0, 0, 0, 0)


def forward(
    sizes: "PreSizes", given: "ForwardInputs", numbers: "PreNumbers", out: MhcPostPreForward
) -> None:
    """Compute `out`, contiguous tensors; h_res receives the logits and may be None."""
    x, x_rows = token_rows(sizes.lead, given.x)
    h_out, h_out_rows = token_rows(sizes.lead, given.h_out)
    given = given._replace(x=x, h_out=h_out)  # alive until the call returns
    gates = (given.h_res, given.h_post, given.out_bias)
    parameters = (given.phi, given.alpha, given.bias, given.gamma)
    status = _native.library().mhc_post_pre_forward(
        native_sizes(sizes),
        _native.DTYPES[x.dtype],
        native_numbers(numbers),
        _post_forward_in(*x_rows, *h_out_rows, *map(at, gates)),
        _pre_forward_in(*_NO_ROWS, *map(at, parameters)),
        at(out.x_next),
        _pre_forward_out(*map(at, out[1:])),
        torch.get_num_threads(),
    )
    _native.check(status, "mhc_post_pre_forward")


def backward(
    sizes: "PreSizes",
    given: "BackwardInputs",
    numbers: "PreNumbers",
    out: MhcPostPreBackward,
    *,
    accumulate: bool = False,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors).

    grad_h_res_next holds the gradient of the logits. accumulate: add to the gradients of the
    parameters and of out_bias instead of overwriting them; chunks of tokens that are multiples of
    256 long then give the bits of one call.
    """
    lead = sizes.lead
    x, x_rows = token_rows(lead, given.x)
    h_out, h_out_rows = token_rows(lead, given.h_out)
    x_next, x_next_rows = token_rows(lead, given.x_next)
    grad_h_in, grad_h_in_rows = token_rows(lead, given.grad_h_in)
    grad_x_next, grad_rows = given.grad_x_next, _NO_ROWS
    if grad_x_next is not None:
        grad_x_next, grad_rows = token_rows(lead, grad_x_next)
    given = given._replace(  # alive until the call returns
        x=x, h_out=h_out, x_next=x_next, grad_h_in=grad_h_in, grad_x_next=grad_x_next
    )
    gates = (given.h_res, given.h_post, given.out_bias)
    others = (given.phi, given.alpha, given.gamma, given.grad_h_post_next, given.grad_h_res_next)
    saved = (given.inv_rms, given.h_mix, given.h_pre, given.h_post_next)
    status = _native.library().mhc_post_pre_backward(
        native_sizes(sizes),
        _native.DTYPES[x.dtype],
        native_numbers(numbers),
        _post_backward_in(*_NO_ROWS, *x_rows, *h_out_rows, *map(at, gates)),
        _pre_backward_in(*x_next_rows, *grad_h_in_rows, *grad_rows, *map(at, others + saved)),
        _post_backward_out(*map(at, out[:5]), accumulate),
        _pre_backward_out(0, *map(at, out[5:]), accumulate),
        torch.get_num_threads(),
    )
    _native.check(status, "mhc_post_pre_backward")
