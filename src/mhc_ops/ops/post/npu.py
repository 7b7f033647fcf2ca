"""MhcPost by torch.ops.cann_ops_transformer.mhc_post, its backward by torch_npu.

Never run on an NPU. Their limits, as published: bf16 or fp16; no sublayer bias; h_res given in the
forward; in the backward (npu_mhc_post_backward) N of 4, 6 or 8 and T > 0 tokens. What a chip
refuses beyond that is its own error.
"""

from torch import Tensor

from ...types import MhcPostBackward
from ..common.npu import STREAMS, demand, of_cann_ops, of_torch_npu, store
from ..common.npu import fresh as fresh
from .checks import PostSizes

_FORWARD, _BACKWARD = "mhc_post_forward", "mhc_post_backward"


def forward(
    sizes: PostSizes,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    out: Tensor,
) -> None:
    """Compute the mixed streams."""
    demand(
        _FORWARD,
        [(bias is None, "no bias", "one"), (h_res is not None, "an h_res", "none")],
    )
    store(_FORWARD, [of_cann_ops("mhc_post")(x, h_res, h_out, h_post)], [out])


def backward(
    sizes: PostSizes,
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None,
    out: MhcPostBackward,
) -> None:
    """Compute the entries of `out` that are not None."""
    demand(
        _BACKWARD,
        [
            (bias is None, "no bias", "one"),
            (sizes.T > 0, "at least one token", "none"),
            (sizes.N in STREAMS, "N of 4, 6 or 8", sizes.N),
        ],
    )
    results = of_torch_npu("npu_mhc_post_backward")(grad_out, x, h_res, h_out, h_post)
    store(_BACKWARD, results, out[:4])
