"""The ends of a model: where one stream becomes N, and where N become one again."""

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..ops.common.checking import parse_impl
from ..ops.expand.api import expand_streams
from ..ops.head.api import stream_head
from ..ops.pre.checks import HC_EPS, NORM_EPS, POST_EPS, pre_numbers
from . import initial
from .parameters import Float32Module


class ExpandStreams(nn.Module):
    """h [.., D] to `streams` equal residual streams [.., N, D]: the module form of expand_streams.

    Has no parameters. Raises ShapeError or DtypeError as expand_streams.
    """

    def __init__(self, streams: int) -> None:
        super().__init__()
        _check_size("ExpandStreams", "streams", streams)
        self.streams = streams

    def forward(self, h: Tensor) -> Tensor:
        return expand_streams(h, self.streams)

    def extra_repr(self) -> str:
        return f"streams={self.streams}"


class StreamHead(Float32Module):
    """N residual streams [.., N, D] to one [.., D]: the module form of stream_head.

    Args:
        dim: D. streams: N >= 1.
        learned: whether gates weigh the streams (DeepSeek-V4), or their mean is taken (GLM-5.3).
        norm_eps, eps, impl: as in stream_head; norm_eps and eps belong to learned=True.
        device: of the parameters.

    Parameters, float32 whatever the model is cast to, with learned=True alone: fn [N, N*D],
        base [N], scale [1]. A fresh head is the mean of the streams (to 1e-3 of it at N = 1,
        otherwise to rounding): fn is normal with standard deviation (N*D)^-1/2, scale 0, and base
        the logit of 1/N - eps.

    Raises: ArgumentError (a ValueError): an option is not valid, or has no effect.
    """

    fn: nn.Parameter
    base: nn.Parameter
    scale: nn.Parameter

    def __init__(
        self,
        dim: int,
        streams: int,
        learned: bool = True,
        *,
        norm_eps: float = NORM_EPS,
        eps: float = HC_EPS,
        impl: str = "auto",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        _check_size("StreamHead", "dim", dim)
        _check_size("StreamHead", "streams", streams)
        pre_numbers("StreamHead", norm_eps, eps, POST_EPS, "fp32", None)
        if not learned and (norm_eps, eps) != (NORM_EPS, HC_EPS):
            raise ArgumentError(
                "StreamHead: norm_eps and eps belong to learned=True and would have no effect on "
                "the mean; leave them out."
            )
        self.dim, self.streams, self.learned = dim, streams, learned
        self.norm_eps, self.eps = norm_eps, eps
        self.impl = parse_impl("StreamHead", impl).value
        for name, shape in (
            ("fn", (streams, streams * dim)),
            ("base", (streams,)),
            ("scale", (1,)),
        ):
            fresh = torch.empty(shape, device=device, dtype=torch.float32) if learned else None
            self.register_parameter(name, None if fresh is None else nn.Parameter(fresh))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial values again, in place; for modules built on the meta device too."""
        if self.learned:
            nn.init.normal_(self.fn, std=(self.streams * self.dim) ** -0.5)
            self.base.fill_(initial.pre_logit(self.streams, self.eps, "StreamHead"))
            self.scale.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if not self.learned:
            return stream_head(x, impl=self.impl)
        fn, base, scale = (self._at_use(p, x) for p in (self.fn, self.base, self.scale))
        return stream_head(x, fn, base, scale, norm_eps=self.norm_eps, eps=self.eps, impl=self.impl)

    def extra_repr(self) -> str:
        parts = [f"dim={self.dim}, streams={self.streams}, learned={self.learned}"]
        if self.norm_eps != NORM_EPS:
            parts.append(f"norm_eps={self.norm_eps}")
        if self.eps != HC_EPS:
            parts.append(f"eps={self.eps}")
        if self.impl != "auto":
            parts.append(f"impl={self.impl!r}")
        return ", ".join(parts)


def _check_size(owner: str, name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ArgumentError(f"{owner}: {name} must be an integer >= 1, got {value!r}.")
