"""Sinkhorn, 20 iterations, and its backward."""

import torch

from mhc_ops import sinkhorn_backward, sinkhorn_forward

from .. import baselines
from ..registry import Shape
from . import Variants, backward_of


def variants(shape: Shape, direction: str, compiled: bool) -> Variants:
    generator = torch.Generator().manual_seed(0)
    logits, grad = (
        torch.randn(shape.T, shape.N, shape.N, generator=generator) * 3 for _ in range(2)
    )
    program = torch.compile(baselines.sinkhorn, dynamic=False) if compiled else None
    if direction == "forward":
        out = torch.empty_like(logits)
        found: Variants = {
            "ours": lambda: sinkhorn_forward(logits, impl="cpu"),
            "ours, preallocated": lambda: sinkhorn_forward(
                logits, impl="cpu", out=(out, None, None)
            ),
            "torch": lambda: sinkhorn_forward(logits, impl="torch"),
            "eager": lambda: baselines.sinkhorn(logits),
        }
        if program is not None:
            found["compiled"] = lambda: program(logits)
        return found
    out = torch.empty_like(logits)
    found = {
        "ours": lambda: sinkhorn_backward(logits, grad, impl="cpu"),
        "ours, preallocated": lambda: sinkhorn_backward(logits, grad, impl="cpu", out=(out,)),
        "torch": lambda: sinkhorn_backward(logits, grad, impl="torch"),
        "eager": backward_of(baselines.sinkhorn, (logits,), (grad,)),
    }
    if program is not None:
        found["compiled autograd"] = backward_of(program, (logits,), (grad,))
    return found
