"""Initial values that make a fresh layer a plain residual; README.md derives the bounds."""

import math

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..convention import Convention
from ..errors import ArgumentError

LEAK = 1e-3  # what h_res lets over to the other streams, and how far a gate stays off its limit


def pre_logit(streams: int, hc_eps: float, owner: str) -> float:
    """The logit whose gate is 1/N, so that a layer reads the mean of the streams."""
    wanted = 1 / streams - hc_eps
    if wanted <= 0:
        raise ArgumentError(
            f"{owner}: a gate of 1/N needs hc_eps < 1/N = {1 / streams}, got {hc_eps}; "
            f"use a smaller hc_eps."
        )
    return _logit(min(wanted, 1 - LEAK))


def post_logit(convention: Convention) -> float:
    """The logit whose h_post is 1, so that every stream gets the sublayer's output once."""
    wanted = (1 - convention.post_eps) / convention.post_scale
    if not 0 < wanted <= 1:
        raise ArgumentError(
            f"HyperConnection: h_post = 1 needs post_scale >= 1 - post_eps > 0 for "
            f"init='residual', got {convention}; use init='paper'."
        )
    return _logit(min(wanted, 1 - LEAK))


def residual_logits(streams: int, rows: int, temperature: float) -> Tensor:
    """Logits [rows] whose h_res is the identity but for LEAK; rows is N*N, N! or 0."""
    if rows == streams * streams:
        return torch.eye(streams).flatten() * (temperature * _dominant(streams - 1))
    logits = torch.zeros(rows)
    logits[:1] = _dominant(rows - 1)  # the identity is the first permutation
    return logits


def _dominant(others: int) -> float:
    """The logit of one entry that leaves LEAK to `others` logits of 0 in a softmax."""
    return math.log((1 - LEAK) * others / LEAK) if others > 0 else 0.0


def _logit(gate: float) -> float:
    return math.log(gate / (1 - gate))


def write(parameter: Tensor, values: Tensor) -> None:
    """Set a parameter to whole plain `values`, where it is a DTensor too."""
    if is_traceable_wrapper_subclass(parameter):
        from torch.distributed.tensor import DTensor, distribute_tensor

        if isinstance(parameter, DTensor):
            mesh, placements = parameter.device_mesh, parameter.placements
            values = values.to(parameter.device)
            values = distribute_tensor(values, mesh, placements, src_data_rank=None)
    parameter.copy_(values)
