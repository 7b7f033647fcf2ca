"""Operators of Manifold-Constrained Hyper-Connections (mHC) for PyTorch."""

from .convention import Convention
from .errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    MhcError,
    ShapeError,
    UnsupportedError,
)
from .impls import explain
from .ops.expand.api import expand_streams, expand_streams_backward, expand_streams_forward
from .ops.head.api import stream_head, stream_head_backward, stream_head_forward
from .ops.lite.api import (
    permutation_mix,
    permutation_mix_backward,
    permutation_mix_forward,
)
from .ops.post.api import mhc_post, mhc_post_backward, mhc_post_forward
from .ops.post_pre.api import mhc_post_pre, mhc_post_pre_backward, mhc_post_pre_forward
from .ops.pre.api import mhc_pre, mhc_pre_backward, mhc_pre_forward
from .ops.pre_sinkhorn.api import (
    mhc_pre_sinkhorn,
    mhc_pre_sinkhorn_backward,
    mhc_pre_sinkhorn_forward,
)
from .ops.sinkhorn.api import sinkhorn, sinkhorn_backward, sinkhorn_forward
from .version import __version__

__all__ = [
    "ArgumentError",
    "Convention",
    "DeviceError",
    "DtypeError",
    "MhcError",
    "ShapeError",
    "UnsupportedError",
    "__version__",
    "expand_streams",
    "expand_streams_backward",
    "expand_streams_forward",
    "explain",
    "mhc_post",
    "mhc_post_backward",
    "mhc_post_forward",
    "mhc_post_pre",
    "mhc_post_pre_backward",
    "mhc_post_pre_forward",
    "mhc_pre",
    "mhc_pre_backward",
    "mhc_pre_forward",
    "mhc_pre_sinkhorn",
    "mhc_pre_sinkhorn_backward",
    "mhc_pre_sinkhorn_forward",
    "permutation_mix",
    "permutation_mix_backward",
    "permutation_mix_forward",
    "sinkhorn",
    "sinkhorn_backward",
    "sinkhorn_forward",
    "stream_head",
    "stream_head_backward",
    "stream_head_forward",
]
