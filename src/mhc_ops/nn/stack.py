"""HyperConnectionStack: sublayers one after the other, each boundary in one operator."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..ops.post.api import mhc_post
from ..ops.post_pre.api import mhc_post_pre
from .connection import HyperConnection, HyperConnectionContext
from .recompute import Segment, Write, boundary, last_post


class HyperConnectionStack(nn.Module):
    """Sublayers over N residual streams, with a HyperConnection each.

    Same as::

        for connection, sublayer in zip(connections, sublayers):
            x = connection(x, sublayer, *args, **kwargs)

    but that the write of one sublayer and the read of the next are one operator, mhc_post_pre.

    Args:
        sublayers: modules that map [.., D] to [.., D], or to a tuple whose first element that is.
        dim, streams: D and N, from which the connections are made, with `options`: those of
            HyperConnection.
        connections: the connections themselves, one a sublayer, instead of dim, streams, options.
        recompute_every: k >= 1. x [.., N, D] is kept for the backward before every k-th sublayer
            alone, and rebuilt before the others from h_out [.., D], which is kept for all: k
            sublayers save (k + N) D numbers a token, not (k + k N) D, beside those per stream.
            Gradients are the same bits; no sublayer runs again. Second derivatives need k = 1.

    Raises: ArgumentError (a ValueError): the arguments do not fit.
    """

    def __init__(
        self,
        sublayers: Iterable[nn.Module],
        dim: int | None = None,
        streams: int | None = None,
        *,
        connections: Iterable[HyperConnection] | None = None,
        recompute_every: int = 1,
        **options: Any,
    ) -> None:
        super().__init__()
        self.sublayers = nn.ModuleList(sublayers)
        if connections is None:
            if dim is None or streams is None:
                raise ArgumentError(
                    "HyperConnectionStack: dim and streams must be integers where no connections "
                    f"are given, got {dim!r} and {streams!r}."
                )
            made = (HyperConnection(dim, streams, **options) for _ in self.sublayers)
            self.connections = nn.ModuleList(made)
        else:
            if dim is not None or streams is not None or options:
                raise ArgumentError(
                    "HyperConnectionStack: dim, streams and options of HyperConnection have no "
                    "effect on given connections; leave them out."
                )
            self.connections = nn.ModuleList(connections)
        if len(self.connections) != len(self.sublayers) or not len(self.sublayers):
            raise ArgumentError(
                f"HyperConnectionStack: connections must be one for each of at least one sublayer, "
                f"got {len(self.connections)} for {len(self.sublayers)}."
            )
        k = recompute_every
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ArgumentError(
                f"HyperConnectionStack: recompute_every must be an integer >= 1, got {k!r}."
            )
        self.recompute_every = k

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """x [.., N, D] after all sublayers, each called as sublayer(h_in, *args, **kwargs).

        Where sublayers return tuples: x, and for each sublayer the tuple of what it returned beside
        h_out, empty where it returned h_out alone.
        """
        connections: list[Any] = list(self.connections)
        h_in, ctx = connections[0].pre(x)
        segment = Segment(0, ctx.x)
        extras: list[tuple[Any, ...]] = []
        for number, sublayer in enumerate(self.sublayers):
            result = sublayer(h_in, *args, **kwargs)
            h_out, *rest = result if isinstance(result, tuple) else (result,)
            extras.append(tuple(rest))
            h_out, out_bias = connections[number].prepare_output(h_out, ctx.x)
            write = Write(ctx.h_res, h_out, ctx.h_post, out_bias)
            if number + 1 == len(connections):
                x = self._last(segment, ctx.x, write, connections[number])
                break
            h_in, ctx = self._boundary(segment, ctx.x, write, connections[number + 1], number + 1)
            if (number + 1) % self.recompute_every == 0:
                segment = Segment(number + 1, ctx.x)
        return (x, tuple(extras)) if any(extras) else x

    def _boundary(
        self, segment: Segment, x: Tensor, write: Write, following: HyperConnection, number: int
    ) -> tuple[Tensor, HyperConnectionContext]:
        parameters = following.operator_parameters(x)
        options = {**following.pre_options, **following.sinkhorn_options}
        mixed: Tensor | None
        if self._rebuilds(x, *write, *parameters):
            keeps_next = number % self.recompute_every == 0
            x_next, h_in, h_post, mixed = boundary(
                segment, x, write, parameters, following.flat_options(), keeps_next
            )
            mixed = following.reoriented(mixed)
        else:
            h_res, h_out, h_post, out_bias = write
            x_next, h_in, h_post, mixed = mhc_post_pre(
                x, h_res, h_out, h_post, *parameters, out_bias=out_bias, **options
            )
        if following.residual == "lite":
            mixed = following.mix_permutations(mixed)
        return h_in, following.observed(HyperConnectionContext(x_next, mixed, h_post))

    def _last(
        self, segment: Segment, x: Tensor, write: Write, connection: HyperConnection
    ) -> Tensor:
        if segment.writes and self._rebuilds(x, *write):
            return last_post(segment, x, write, connection.impl)
        h_res, h_out, h_post, out_bias = write
        return mhc_post(x, h_res, h_out, h_post, bias=out_bias, impl=connection.impl)

    def _rebuilds(self, *inputs: Tensor | None) -> bool:
        if self.recompute_every == 1 or not torch.is_grad_enabled():
            return False
        return any(t is not None and t.requires_grad for t in inputs)

    def extra_repr(self) -> str:
        return f"recompute_every={self.recompute_every}"
