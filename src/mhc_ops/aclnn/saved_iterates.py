"""The iterates of MhcSinkhorn in the memory that its two saved tensors give them.

A device orders them by core and tile, which is no contract; the sizes are. Here one tile holds all
tokens: normOut is [2*numIters][n][T][8], from before to, and sumOut [2*numIters][T][8].
"""

from __future__ import annotations

from math import prod

from torch import Tensor

from ..errors import ShapeError
from ..ops.sinkhorn.iterates import Iterates

_LANES = 8


def store(saved: Iterates, norm_out: Tensor, sum_out: Tensor) -> None:
    """Write iterates into the two flat tensors, zeros into the padding; sum[0] is not written."""
    steps, *lead, n, _ = saved.norm.shape
    norm, sums = _views(norm_out, sum_out, steps, prod(lead), n)
    norm[..., n:].zero_()
    norm[..., :n].copy_(saved.norm.reshape(steps, -1, n, n).transpose(1, 2))
    sums[1:, :, n:].zero_()
    sums[1:, :, :n].copy_(saved.sum.reshape(steps, -1, n)[1:])


def load(norm_out: Tensor, sum_out: Tensor, lead: tuple[int, ...], n: int) -> Iterates:
    """The iterates in the two flat tensors, for tokens `lead` of n streams.

    Raises ShapeError when the sizes are not those of a forward of these tokens.
    """
    tokens = prod(lead)
    steps = norm_out.numel() // (tokens * n * _LANES)
    sizes = steps * tokens * n * _LANES, steps * tokens * _LANES
    if steps < 2 or steps % 2 or norm_out.shape != sizes[:1] or sum_out.shape != sizes[1:]:
        raise ShapeError(
            f"normOut and sumOut must be [2*numIters*T*n*8] and [2*numIters*T*8] with "
            f"T = {tokens} and n = {n}, got {list(norm_out.shape)} and {list(sum_out.shape)}."
        )
    norm, sums = _views(norm_out, sum_out, steps, tokens, n)
    matrices = norm[..., :n].transpose(1, 2).reshape(steps, *lead, n, n)
    return Iterates(matrices, sums[..., :n].reshape(steps, *lead, n))


def _views(
    norm_out: Tensor, sum_out: Tensor, steps: int, tokens: int, n: int
) -> tuple[Tensor, Tensor]:
    return (
        norm_out.unflatten(0, (steps, n, tokens, _LANES)),
        sum_out.unflatten(0, (steps, tokens, _LANES)),
    )
