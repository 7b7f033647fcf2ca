"""The permutation matrices of N streams, in lexicographic order."""

from functools import cache
from itertools import permutations

import torch
from torch import Tensor


def matrices(streams: int, like: Tensor) -> Tensor:
    """[N!, N*N] of 0 and 1: row k has a 1 at i * N + s(i), for the k-th permutation s."""
    eye = torch.eye(streams, dtype=like.dtype, device=like.device)
    order = torch.tensor(_orders(streams), device=like.device)
    return eye[order].flatten(1)


@cache
def _orders(streams: int) -> tuple[tuple[int, ...], ...]:
    return tuple(permutations(range(streams)))
