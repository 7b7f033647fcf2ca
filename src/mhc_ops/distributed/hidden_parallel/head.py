"""StreamHead where each rank holds some channels of every token."""

from torch import Tensor

from ...convention import Convention
from ...ops.head.api import as_pre, head_numbers
from ...ops.pre.checks import HC_EPS, NORM_EPS
from .collectives import Group
from .read import mhc_pre


def stream_head(
    x: Tensor,
    fn: Tensor,
    base: Tensor,
    scale: Tensor,
    *,
    group: Group,
    norm_eps: float = NORM_EPS,
    eps: float = HC_EPS,
    convention: Convention | None = None,
) -> Tensor:
    """Differentiable learned contraction of N streams on this rank's share of the channels.

    Same as mhc_ops.stream_head of the whole, but that D/P channels of x, fn and the result are
    here. It is the pre part of MhcPre and runs on `hidden_parallel.mhc_pre` with F = 2N.

    Args:    x: [.., N, D/P]. fn: [N, N*D/P] (`shard_columns`). base [N], scale [1]: whole.
             group: as in `hidden_parallel.mhc_pre`. norm_eps, eps, convention: as in stream_head.
    Returns: h [.., D/P] as x.
    Raises:  as `hidden_parallel.mhc_pre`.
    """
    numbers = head_numbers("hidden_parallel.stream_head", norm_eps, eps, convention)
    return mhc_pre(x, *as_pre(fn, base, scale), group=group, **numbers).h_in
