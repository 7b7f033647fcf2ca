"""A training sublayer's mHC part, forward and backward: pre, sinkhorn, post around an identity."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mhc_ops import mhc_post, mhc_pre_sinkhorn
from mhc_ops.testing import make_pre_inputs

from .. import baselines
from ..registry import Shape
from . import Variants, leaves, saved_bytes


def ours(x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor) -> Tensor:
    h_in, h_post, h_res, x = mhc_pre_sinkhorn(x, phi, alpha, bias, gamma)
    return mhc_post(x, h_res, h_in, h_post)


def variants(shape: Shape, direction: str, compiled: bool) -> Variants:
    assert direction == "both"
    c = make_pre_inputs(shape.T, shape.N, shape.D)
    programs = {"ours": ours, "eager": baselines.sublayer}
    if compiled:
        programs["compiled"] = torch.compile(baselines.sublayer, dynamic=False)
    return {
        name: _step(program, c.forward_args, c.grad_x_post) for name, program in programs.items()
    }


def _step(
    program: Callable[..., Tensor], inputs: Sequence[Tensor], upstream: Tensor
) -> Callable[[], Any]:
    sources = leaves(inputs)
    return lambda: torch.autograd.grad(program(*sources), sources, upstream)


def kept_bytes(shape: Shape) -> dict[str, int]:
    """Bytes that a sublayer keeps for its backward beside its inputs, ours and eager's."""
    c = make_pre_inputs(shape.T, shape.N, shape.D)
    return {
        name: saved_bytes(program, c.forward_args)
        for name, program in (("ours", ours), ("eager", baselines.sublayer))
    }
