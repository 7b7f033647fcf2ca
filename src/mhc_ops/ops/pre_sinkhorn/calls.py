"""The registered operators' arguments by name, since the dispatcher drops trailing defaults."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...types import Impl
from ..pre.checks import PreNumbers
from ..sinkhorn.checks import SinkhornNumbers
from .checks import Numbers


class PreSinkhornForwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.pre_sinkhorn_forward."""

    x: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None = None
    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    hf32: bool = False
    num_iters: int = 20
    eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0
    impl: str = "auto"

    @property
    def tensors(self) -> Any:
        return self[:5]

    @property
    def options(self) -> Any:
        return numbers_of(self[5:16]), Impl(self.impl)


class PreSinkhornBackwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.pre_sinkhorn_backward."""

    x: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    grad_h_in: Tensor
    grad_h_post: Tensor
    grad_h_res: Tensor
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor
    h_post: Tensor
    gamma: Tensor | None = None
    grad_x_post: Tensor | None = None
    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    hf32: bool = False
    num_iters: int = 20
    eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0
    impl: str = "auto"
    wanted: Sequence[bool] = (True,) * 5

    @property
    def tensors(self) -> Any:
        return self[:13]

    @property
    def numbers(self) -> Numbers:
        return numbers_of(self[13:24])

    @property
    def options(self) -> Any:
        return self.numbers, Impl(self.impl), self.computed

    @property
    def computed(self) -> tuple[bool, ...]:
        """`wanted`, less grad_gamma where there is no gamma."""
        return (*self.wanted[:4], self.wanted[4] and self.gamma is not None)


def numbers_of(values: Sequence[Any]) -> Numbers:
    """MhcPre's numbers and Sinkhorn's options from the operators' flat list."""
    return PreNumbers(*values[:6]), SinkhornNumbers(*values[6:])
