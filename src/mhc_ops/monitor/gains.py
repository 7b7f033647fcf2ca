"""Gains of the residual maps composed along depth, as the figures of the mHC paper show them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Gains(NamedTuple):
    """Largest absolute sums of residual maps; one number a layer in each tuple.

    A map h_res [from, to] acts on streams as out[to] = sum over from of h_res[from, to] x[from].
    The forward gain of a map is its largest sum over `from`: by how much it can enlarge a signal.
    The backward gain is its largest sum over `to`: the same for a gradient.

    forward:  of the map from the first layer's input to this layer's output.
    backward: of the map from this layer's input to the last layer's output.
    single_forward, single_backward: of this layer's own map.
    """

    forward: tuple[float, ...]
    backward: tuple[float, ...]
    single_forward: tuple[float, ...]
    single_backward: tuple[float, ...]


def gains_of(maps: Sequence[Tensor]) -> Gains:
    """Gains of maps [N, N], given as [from, to] in the order of depth; at least one.

    Computed in float64 on the CPU.
    """
    maps = [m.detach().to("cpu", torch.float64) for m in maps]
    up, down = [maps[0]], [maps[-1]]
    for this in maps[1:]:
        up.append(up[-1] @ this)
    for this in maps[-2::-1]:
        down.append(this @ down[-1])
    return Gains(
        tuple(map(_forward, up)),
        tuple(map(_backward, reversed(down))),
        tuple(map(_forward, maps)),
        tuple(map(_backward, maps)),
    )


def _forward(h_res: Tensor) -> float:
    return float(h_res.abs().sum(0).max())


def _backward(h_res: Tensor) -> float:
    return float(h_res.abs().sum(1).max())
