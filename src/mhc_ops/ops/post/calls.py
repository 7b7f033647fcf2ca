"""The registered operators' arguments by name, since the dispatcher drops trailing defaults."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor


class PostForwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.post_forward."""

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    bias: Tensor | None = None
    impl: str = "auto"


class PostBackwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.post_backward."""

    grad_out: Tensor
    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    bias: Tensor | None = None
    impl: str = "auto"
    wanted: Sequence[bool] = (True,) * 5
