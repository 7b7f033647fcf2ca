"""The registered operators' arguments by name, since the dispatcher drops trailing defaults."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ...types import Impl
from ..pre.checks import PreNumbers
from ..sinkhorn.checks import SinkhornNumbers
from .checks import BackwardInputs, ForwardInputs, computed

Options = tuple[PreNumbers, SinkhornNumbers | None, Impl]


class PostPreForwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.post_pre_forward."""

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None = None
    out_bias: Tensor | None = None
    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    hf32: bool = False
    num_iters: int | None = None
    eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0
    impl: str = "auto"

    @property
    def tensors(self) -> ForwardInputs:
        return ForwardInputs(*self[:9])

    @property
    def options(self) -> Options:
        return _options(self[9:21])


class PostPreBackwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.post_pre_backward."""

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    grad_x_next: Tensor | None
    grad_h_in: Tensor
    grad_h_post_next: Tensor
    grad_h_res_next: Tensor | None
    x_next: Tensor
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor
    h_post_next: Tensor
    gamma: Tensor | None = None
    out_bias: Tensor | None = None
    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    hf32: bool = False
    num_iters: int | None = None
    eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0
    impl: str = "auto"
    wanted: Sequence[bool] = (True,) * 9

    @property
    def tensors(self) -> BackwardInputs:
        return BackwardInputs(*self[:18])

    @property
    def options(self) -> Options:
        return _options(self[18:30])

    @property
    def computed(self) -> tuple[bool, ...]:
        """`wanted`, less the gradients of absent tensors."""
        return computed(self.wanted, self.gamma, self.out_bias)


def flat_options(numbers: PreNumbers, sinkhorn: SinkhornNumbers | None, impl: Impl) -> Any:
    """The options as the registered operators take them."""
    num_iters, *others = SinkhornNumbers() if sinkhorn is None else sinkhorn
    return (*numbers, None if sinkhorn is None else num_iters, *others, impl.value)


def _options(values: Any) -> Options:
    sinkhorn = None if values[6] is None else SinkhornNumbers(*values[6:11])
    return PreNumbers(*values[:6]), sinkhorn, Impl(values[11])
