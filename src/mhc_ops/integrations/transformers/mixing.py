"""What the accelerated modules of all families compute: streams to sublayer input, and back."""

from typing import Any

import torch
from torch import Tensor

from ...convention import Convention
from ...ops.head.api import stream_head
from ...ops.post.api import mhc_post
from ...ops.pre.api import mhc_pre
from ...ops.pre_sinkhorn.api import mhc_pre_sinkhorn


def connect(self: Any, hidden_streams: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """post, comb, collapsed as the module's own forward, and the streams to give to `write_back`.

    The last is what the operator hands on: its gradient is added inside the operator's backward.
    """
    collapsed, post, comb, handed_on = mhc_pre_sinkhorn(
        hidden_streams,
        *_single(hidden_streams, self.fn, self.scale, self.base),
        norm_eps=self.input_norm.eps,
        hc_eps=self.hc_eps,
        # Theirs normalises the columns once before it counts iterations, so 0 of them are 1.
        num_iters=max(1, self.hc_sinkhorn_iters),
        eps=self.hc_eps,
    )
    return post, comb, collapsed, handed_on


def connect_independent(self: Any, hidden_streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for iHC, which leaves the residual streams unmixed: post, collapsed, streams."""
    collapsed, post, _, handed_on = mhc_pre(
        hidden_streams,
        *_single(hidden_streams, self.fn, self.scale, self.base),
        convention=Convention(
            norm_eps=self.input_norm.eps,
            hc_eps=self.hc_eps,
            post_scale=self.hc_post_magnitude,
            post_eps=self.hc_eps,
        ),
    )
    return post, collapsed, handed_on


def write_back(streams: Tensor, comb: Tensor | None, output: Tensor, post: Tensor) -> Tensor:
    """The streams after a sublayer; under autocast its output may be narrower than they are."""
    return mhc_post(streams, comb, output.to(streams.dtype), post)


def collapse_at_the_end(self: Any, x: Tensor) -> Tensor:
    return stream_head(
        x,
        *_single(x, self.hc_fn, self.hc_base, self.hc_scale),
        norm_eps=self.input_norm.eps,
        eps=self.eps,
    )


def _single(x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return tuple(p.to(dtype) for p in parameters)
