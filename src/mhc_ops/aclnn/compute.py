"""What each operator computes, apart from its checks, by the operator's name."""

from collections.abc import Callable, Mapping

from . import (
    mhc_post,
    mhc_post_backward,
    mhc_pre,
    mhc_pre_backward,
    mhc_pre_sinkhorn,
    mhc_pre_sinkhorn_backward,
    mhc_sinkhorn,
    mhc_sinkhorn_backward,
)
from .executor import Views

COMPUTE: dict[str, Callable[[Views, Mapping[str, float], str], None]] = {
    "MhcPre": mhc_pre.compute,
    "MhcPreBackward": mhc_pre_backward.compute,
    "MhcPost": mhc_post.compute,
    "MhcPostBackward": mhc_post_backward.compute,
    "MhcSinkhorn": mhc_sinkhorn.compute,
    "MhcSinkhornBackward": mhc_sinkhorn_backward.compute,
    "MhcPreSinkhorn": mhc_pre_sinkhorn.compute,
    "MhcPreSinkhornBackward": mhc_pre_sinkhorn_backward.compute,
}
"""(views, attributes, impl): reads the inputs among the views and writes the outputs."""
