"""The programs that are timed against each other, a module for each operator of the registry.

Each has `variants(shape, direction, compiled)`: a dict from a name to a call. "ours" allocates its
results, "ours, preallocated" writes into given ones, "eager" is plain torch, and every name that
begins with "compiled" is torch.compile of it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Variants = dict[str, Callable[[], Any]]


def leaves(inputs: Sequence[Tensor]) -> list[Tensor]:
    return [t.detach().clone().requires_grad_() for t in inputs]


def backward_of(
    program: Callable[..., Any], inputs: Sequence[Tensor], upstream: Sequence[Tensor]
) -> Callable[[], Any]:
    """The backward alone of a differentiable program."""
    sources = leaves(inputs)
    outputs = program(*sources)
    return lambda: torch.autograd.grad(outputs, sources, upstream, retain_graph=True)


def saved_bytes(program: Callable[..., Any], inputs: Sequence[Tensor]) -> int:
    """What a differentiable program keeps for its backward, beside its inputs."""
    sources = leaves(inputs)
    given = {t.untyped_storage().data_ptr() for t in sources}
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        results = program(*sources)
    del results
    return sum(kept.values())
