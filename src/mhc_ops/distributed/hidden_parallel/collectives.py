"""The collective of hidden-sharded mHC: one packed sum over the ranks, in flight or settled."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from ...errors import ArgumentError

Group = dist.ProcessGroup | DeviceMesh


def group_size(op: str, group: Group) -> int:
    """The number of ranks that hold parts of one token."""
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ArgumentError(
                f"{op}: group must be a process group or a mesh of one dimension, got one of "
                f"{group.ndim}; index the mesh with the name of its dimension."
            )
        return int(group.size())
    if not isinstance(group, dist.ProcessGroup):
        raise ArgumentError(
            f"{op}: group must be a process group or a DeviceMesh, got {type(group).__name__}."
        )
    return int(dist.get_world_size(group))


def refuse_dtensors(op: str, *tensors: Tensor | None) -> None:
    """Raise ArgumentError where one of the tensors is a DTensor."""
    if any(isinstance(t, DTensor) for t in tensors):
        raise ArgumentError(
            f"{op}: takes this rank's share of the channels as plain tensors, got a DTensor; pass "
            f"its .to_local()."
        )


def packed_sum(parts: Sequence[Tensor], group: Group) -> list[Tensor]:
    """Each of `parts` [.., n] summed over the ranks, by one all-reduce of all their numbers.

    Every rank gets the same bits. The all-reduce may be in flight; the first use waits for it.
    """
    lead = parts[0].shape[:-1]
    widths = [part.shape[-1] for part in parts]
    if prod(lead) == 0:
        return list(parts)
    total = functional.all_reduce(torch.cat(list(parts), -1), "sum", group)
    return list(total.split(widths, -1))


def settled(tensor: Any) -> Any:
    """The plain tensor, or None, once its collective is done: what a kernel may read by address."""
    if isinstance(tensor, functional.AsyncCollectiveTensor):
        return tensor.wait()
    return tensor
