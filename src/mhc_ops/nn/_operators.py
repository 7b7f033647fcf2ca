"""The two fused operators, composed of the single ones."""

from typing import Any

from torch import Tensor

from ..ops.pre.api import mhc_pre
from ..ops.sinkhorn.api import sinkhorn

_SINKHORN = ("eps", "eps_mode", "order", "temperature")


def mhc_pre_sinkhorn(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    num_iters: int,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """mhc_pre with sinkhorn on its logits: h_in, h_post, h_res, x."""
    of_sinkhorn = {name: options.pop(name) for name in _SINKHORN if name in options}
    h_in, h_post, logits, x = mhc_pre(x, phi, alpha, bias, gamma, **options)
    assert logits is not None
    h_res = sinkhorn(logits, num_iters=num_iters, impl=options["impl"], **of_sinkhorn)
    assert isinstance(h_res, Tensor)
    return h_in, h_post, h_res, x
