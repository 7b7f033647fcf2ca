"""The registered operators' arguments by name, since the dispatcher drops trailing defaults."""

from typing import Any, NamedTuple

from torch import Tensor

from ...types import Impl
from .checks import SinkhornNumbers


class SinkhornForwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.sinkhorn_forward."""

    logits: Tensor
    num_iters: int = 20
    eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0
    return_defect: bool = False
    impl: str = "auto"

    @property
    def numbers(self) -> SinkhornNumbers:
        return SinkhornNumbers(*self[1:6])

    @property
    def options(self) -> Any:
        return self.numbers, self.return_defect, Impl(self.impl)


class SinkhornBackwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.sinkhorn_backward."""

    logits: Tensor
    grad_h_res: Tensor
    num_iters: int = 20
    eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0
    impl: str = "auto"

    @property
    def numbers(self) -> SinkhornNumbers:
        return SinkhornNumbers(*self[2:7])

    @property
    def options(self) -> Any:
        return self.numbers, Impl(self.impl)
