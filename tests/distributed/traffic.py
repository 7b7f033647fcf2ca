"""What a function sends: every collective of this process, with its kind and its bytes."""

from contextlib import contextmanager
from math import prod

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

KINDS = {
    "all_reduce": "all_reduce",
    "allreduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "send": "send",
}
IGNORED = ("wait_tensor", "_wrap_tensor_autograd", "recv_", "monitored_barrier_", "barrier")


class _Counting(TorchDispatchMode):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if types and any(t.__name__ == "DTensor" for t in types):
            return NotImplemented  # its local operators and collectives come back here
        result = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional"):
            name = func._opname
            if name in KINDS:
                self.calls.append((KINDS[name], _bytes(func, name, args, result)))
            elif name not in IGNORED:
                raise AssertionError(f"a collective that is not counted: {func}")
        return result


def _bytes(func, name, args, result):
    """Bytes of the larger of what goes in and what comes out, of one rank."""
    tensors = [t for t in tree_leaves((args, result)) if isinstance(t, torch.Tensor)]
    return max(prod(t.shape) * t.element_size() for t in tensors)


@contextmanager
def counted():
    """The list of (kind, bytes) that grows while the context is open."""
    calls = []
    with _Counting(calls):
        yield calls
