"""The iterates of sinkhorn, and its backward from them: what programs of CANN save and pass on.

Eager torch, any float dtype; the form with eps added and columns last. The operators of this room
save nothing and recompute instead.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import ArgumentError, ShapeError
from ..common.numerics import ordered_sum
from .checks import EPS, NUM_ITERS, check_backward, check_forward, sinkhorn_numbers
from .reference import iterate


class Iterates(NamedTuple):
    """All matrices and divisors of a sinkhorn of K iterations.

    norm [2K, .., N, N]: 0 the softmax without eps, 2k + 1 after column step k, 2k after row step k.
    sum [2K, .., N]: 0 the sum of a row's exponentials, the others what that step divided by, eps
    included: by column for odd indices, by row for even ones.
    """

    norm: Tensor
    sum: Tensor


def sinkhorn_iterates(logits: Tensor, *, num_iters: int = NUM_ITERS, eps: float = EPS) -> Iterates:
    """The iterates of sinkhorn(logits, num_iters=num_iters, eps=eps).

    Args:     logits: [.., N, N] as [from, to], float32 or float64. num_iters: 1..1000.
              eps: in [0, 1), added to the softmax and to each sum.
    Raises:   ShapeError, DtypeError, ArgumentError (all ValueError).
    Source:   normOut and sumOut of aclnnMhcSinkhorn, in plain layout.
    """
    check_forward(logits, "sinkhorn_iterates")
    numbers = sinkhorn_numbers("sinkhorn_iterates", num_iters, eps, "add", "columns_last", 1.0)
    if num_iters == 0:
        raise ArgumentError("sinkhorn_iterates: num_iters must be at least 1, got 0.")
    weights, steps = iterate(logits, numbers)
    sums = [step.divisor.squeeze(step.dim) for step in steps]
    return Iterates(torch.stack([weights, *(step.h for step in steps[1:])]), torch.stack(sums))


def backward_from_iterates(grad_h_res: Tensor, saved: Iterates) -> Tensor:
    """Gradient of the logits from that of h_res and the iterates.

    Args:     grad_h_res: [.., N, N], dtype of saved.norm. saved: of the forward; sum[0] is unused.
    Returns:  grad_logits [.., N, N].
    Raises:   ShapeError, DtypeError (both ValueError).
    Source:   aclnnMhcSinkhornBackward. Columns of weight 0 are divided by their eps: where weights
              underflow, sinkhorn_backward is the better conditioned form.
    """
    norm, sums = saved
    check_backward(norm[0], grad_h_res, "backward_from_iterates")
    if norm.shape[:-1] != sums.shape or len(norm) % 2:
        raise ShapeError(
            f"backward_from_iterates: norm and sum must be [2K, .., N, N] and [2K, .., N], "
            f"got {list(norm.shape)} and {list(sums.shape)}."
        )
    grad = grad_h_res
    for k in reversed(range(1, len(norm))):
        dim = -2 if k % 2 else -1
        grad = (grad - ordered_sum(grad * norm[k], dim)) / sums[k].unsqueeze(dim)
    return (grad - ordered_sum(grad * norm[0], -1)) * norm[0]
