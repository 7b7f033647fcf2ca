"""MhcPre and MhcPreBackward on the CPU: hands tensors to the C++ kernels (csrc/pre).

Limits: x in bfloat16, float16 or float32. x, grad_h_in and grad_x_post are read in place when their
last dimension is contiguous, and copied otherwise. ctypes releases the GIL during a call.
"""

from typing import TYPE_CHECKING

from torch import Tensor

from ... import _native
from ...types import MhcPreBackward, MhcPreForward
from ..common.kernels import at, fresh, threads, token_rows

if TYPE_CHECKING:
    from .checks import PreNumbers, PreSizes

__all__ = ["backward", "forward", "fresh"]


def forward(
    sizes: "PreSizes",
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: "PreNumbers",
    out: MhcPreForward,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors)."""
    x, x_rows = token_rows(sizes.lead, x)
    given = _native.ForwardIn(x_rows, at(phi), at(alpha), at(bias), at(gamma))
    made = _native.ForwardOut(*(at(o) for o in out))
    status = _native.library().mhc_pre_forward(
        _sizes(sizes), _native.DTYPES[x.dtype], _numbers(numbers), given, made, threads()
    )
    _native.check(status, "mhc_pre_forward")


def backward(
    sizes: "PreSizes",
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    numbers: "PreNumbers",
    out: MhcPreBackward,
    *,
    accumulate: bool = False,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors).

    accumulate: add to the parameters' gradients instead of overwriting them; chunks of tokens that
    are multiples of 256 long then give the bits of one call.
    """
    x, x_rows = token_rows(sizes.lead, x)
    grad_h_in, grad_h_in_rows = token_rows(sizes.lead, grad_h_in)
    if grad_x_post is None:
        post_rows = _native.Rows()
    else:
        grad_x_post, post_rows = token_rows(sizes.lead, grad_x_post)
    given = _native.BackwardIn(
        x_rows,
        grad_h_in_rows,
        post_rows,
        *(at(t) for t in (phi, alpha, gamma, grad_h_post, grad_h_res)),
        *(at(t) for t in (inv_rms, h_mix, h_pre, h_post)),
    )
    made = _native.BackwardOut(*(at(o) for o in out), accumulate)
    status = _native.library().mhc_pre_backward(
        _sizes(sizes), _native.DTYPES[x.dtype], _numbers(numbers), given, made, threads()
    )
    _native.check(status, "mhc_pre_backward")


def _sizes(sizes: "PreSizes") -> _native.Sizes:
    outer = sizes.lead[0] if len(sizes.lead) == 2 else 1
    return _native.Sizes(outer, sizes.lead[-1], sizes.N, sizes.D, sizes.F)


def _numbers(numbers: "PreNumbers") -> _native.Numbers:
    return _native.Numbers(
        numbers.norm_eps,
        numbers.hc_eps,
        numbers.post_scale,
        numbers.post_eps,
        numbers.norm_eps_outside,
        numbers.hf32,
    )
