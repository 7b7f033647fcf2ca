"""The registered operators' arguments by name, since the dispatcher drops trailing defaults."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...types import Impl
from .checks import PreNumbers

_ALL = (True,) * 5


class PreForwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.pre_forward; the dispatcher leaves out trailing defaults."""

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
    impl: str = "auto"

    @property
    def tensors(self) -> Any:
        return self[:5]

    @property
    def numbers(self) -> PreNumbers:
        return PreNumbers(*self[5:11])

    @property
    def options(self) -> Any:
        return self.numbers, Impl(self.impl)


class PreBackwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.pre_backward."""

    x: Tensor
    phi: Tensor
    alpha: Tensor
    grad_h_in: Tensor
    grad_h_post: Tensor
    grad_h_res: Tensor | None
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
    impl: str = "auto"
    wanted: Sequence[bool] = _ALL

    @property
    def tensors(self) -> Any:
        return self[:12]

    @property
    def numbers(self) -> PreNumbers:
        return PreNumbers(*self[12:18])

    @property
    def options(self) -> Any:
        return self.numbers, Impl(self.impl), self.computed

    @property
    def computed(self) -> tuple[bool, ...]:
        """`wanted`, less grad_gamma where there is no gamma."""
        return (*self.wanted[:4], self.wanted[4] and self.gamma is not None)
