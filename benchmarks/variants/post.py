"""MhcPost and MhcPostBackward."""

import torch

from mhc_ops import mhc_post_backward, mhc_post_forward
from mhc_ops.testing import make_post_inputs

from .. import baselines
from ..registry import Shape
from . import Variants, backward_of


def variants(shape: Shape, direction: str, compiled: bool) -> Variants:
    c = make_post_inputs(shape.T, shape.N, shape.D)
    args = (c.x, c.h_res, c.h_out, c.h_post)
    program = torch.compile(baselines.post, dynamic=False) if compiled else None
    if direction == "forward":
        out = torch.empty_like(c.x)
        found: Variants = {
            "ours": lambda: mhc_post_forward(*args, impl="cpu"),
            "ours, preallocated": lambda: mhc_post_forward(*args, impl="cpu", out=out),
            "torch": lambda: mhc_post_forward(*args, impl="torch"),
            "eager": lambda: baselines.post(*args),
        }
        if program is not None:
            found["compiled"] = lambda: program(*args)
        return found
    grads = mhc_post_backward(c.grad_out, *args, impl="cpu")
    found = {
        "ours": lambda: mhc_post_backward(c.grad_out, *args, impl="cpu"),
        "ours, preallocated": lambda: mhc_post_backward(c.grad_out, *args, impl="cpu", out=grads),
        "torch": lambda: mhc_post_backward(c.grad_out, *args, impl="torch"),
        "eager": backward_of(baselines.post, args, (c.grad_out,)),
    }
    if program is not None:
        found["compiled autograd"] = backward_of(program, args, (c.grad_out,))
    return found
