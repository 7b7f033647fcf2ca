"""MhcPre and MhcPreBackward."""

from collections.abc import Callable
from typing import Any

import torch

from mhc_ops import mhc_pre_backward, mhc_pre_forward
from mhc_ops.testing import make_pre_inputs

from .. import baselines
from ..registry import Shape
from . import Variants, backward_of


def variants(shape: Shape, direction: str, compiled: bool) -> Variants:
    c = make_pre_inputs(shape.T, shape.N, shape.D)
    saved = mhc_pre_forward(*c.forward_args, impl="reference")
    args = (
        c.x, c.phi, c.alpha, c.grad_h_in, c.grad_h_post, c.grad_h_res, saved.inv_rms, saved.h_mix,
        saved.h_pre, saved.h_post, c.gamma, c.grad_x_post,
    )  # fmt: skip
    if direction == "forward":
        out = mhc_pre_forward(*c.forward_args, impl="cpu")
        found: Variants = {
            "ours": lambda: mhc_pre_forward(*c.forward_args, impl="cpu"),
            "ours, preallocated": lambda: mhc_pre_forward(*c.forward_args, impl="cpu", out=out),
            "torch": lambda: mhc_pre_forward(*c.forward_args, impl="torch"),
            "eager": lambda: baselines.pre(*c.forward_args),
        }
        if compiled:
            program = torch.compile(baselines.pre, dynamic=False)
            found["compiled"] = lambda: program(*c.forward_args)
        return found
    out = mhc_pre_backward(*args, impl="cpu")
    found = {
        "ours": lambda: mhc_pre_backward(*args, impl="cpu"),
        "ours, preallocated": lambda: mhc_pre_backward(*args, impl="cpu", out=out),
        "ours, grad_x alone": lambda: mhc_pre_backward(*args, impl="cpu", wanted=("x",)),
        "ours, parameters alone": lambda: mhc_pre_backward(
            *args, impl="cpu", wanted=("phi", "alpha", "bias", "gamma")
        ),
        "torch": lambda: mhc_pre_backward(*args, impl="torch"),
        "eager": _autograd(baselines.pre, c),
    }
    if compiled:
        program = torch.compile(baselines.pre_backward, dynamic=False)
        found["compiled formula"] = lambda: program(*args)
        found["compiled autograd"] = _autograd(torch.compile(baselines.pre, dynamic=False), c)
    return found


def _autograd(program: Callable[..., Any], c: Any) -> Callable[[], Any]:
    """Autograd adds post's gradient afterwards."""
    run = backward_of(program, c.forward_args, (c.grad_h_in, c.grad_h_post, c.grad_h_res))

    def with_post() -> Any:
        grad_x, *rest = run()
        return (grad_x + c.grad_x_post, *rest)

    return with_post
