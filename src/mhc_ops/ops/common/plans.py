"""What checks found out, kept by what a call looks like, so that its like is not checked again."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

_MOST = 512  # looks that one operator remembers

Plan = TypeVar("Plan")


class Plans(Generic[Plan]):
    """An operator's checks and what follows from them, such as sizes and the layout of outputs.

    make(op, *tensors, *options) raises its errors in the name of `op`, or returns what depends on
    nothing but the options and the tensors' shapes, dtypes, devices and layouts. A call that looks
    like an earlier one gets that one's plan. Several Python threads may share it.
    """

    def __init__(self, make: Callable[..., Plan]) -> None:
        self._make = make
        self._known: dict[Any, Plan] = {}

    def __call__(self, op: str, tensors: Sequence[Tensor | None], *options: Any) -> Plan:
        if torch.compiler.is_compiling():
            return self._make(op, *tensors, *options)
        try:
            look = (
                options,
                *[None if t is None else (t.shape, t.dtype, t.device, t.layout) for t in tensors],
            )
            plan = self._known.get(look)
        except (AttributeError, RuntimeError, TypeError):  # no tensor, no shape, or symbolic sizes
            return self._make(op, *tensors, *options)
        if plan is None:
            plan = self._make(op, *tensors, *options)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[look] = plan
        return plan
