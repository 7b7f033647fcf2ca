"""Seeded inputs of MhcPost, equal on every device and, up to rounding, for every dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class PostInputs(NamedTuple):
    """Inputs of MhcPost and the upstream gradient of its output.

    x [*lead, N, D]; h_res [*lead, N, N] as [from, to], or None; h_out [*lead, D];
    h_post [*lead, N]; bias [D] or None; grad_out as x. lead is [T] or [B, S].
    """

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    bias: Tensor | None
    grad_out: Tensor

    def map(self, fn: Callable[[Tensor], Tensor]) -> PostInputs:
        """Apply fn to every tensor that is there."""
        mapped = (None if t is None else fn(t) for t in self)
        return PostInputs(*mapped)  # type: ignore[arg-type]  # None stays where it was

    def tokens(self, index: slice) -> PostInputs:
        """A slice of the tokens of a [T, N, D] case; the bias stays whole."""
        return self.map(lambda t: t[index])._replace(bias=self.bias)

    @property
    def forward_args(self) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        """x, h_res, h_out, h_post: the positional tensors of the forward, in its order."""
        return self.x, self.h_res, self.h_out, self.h_post

    @property
    def backward_args(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor, Tensor | None]:
        """grad_out, x, h_res, h_out, h_post, bias: the tensors of the backward, in its order."""
        return self.grad_out, *self.forward_args, self.bias


def make_post_inputs(
    tokens: int,
    streams: int,
    dim: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    h_res: bool = True,
    bias: bool = True,
    seed: int = 0,
    batch: int | None = None,
    device: torch.device | str = "cpu",
) -> PostInputs:
    """Draw one case of MhcPost.

    x, h_out, bias and grad_out are standard normal, h_post uniform in [0, 2], and h_res uniform in
    [0, 2 / N], neither symmetric nor of sum 1. Every tensor is drawn in float32 on the CPU from its
    own generator: an optional tensor that is left out changes no other one.

    Args:     tokens: T >= 0.  streams: N >= 1.  dim: D >= 1.
              dtype: of the x-like tensors; the others are float32, or float64 with float64 x.
              h_res, bias: whether these optional tensors are there.
              batch: B of [batch, tokens / batch, N, D]; by default the layout is [T, N, D].
    Raises:   ValueError when batch does not divide tokens.
    """
    lead: tuple[int, ...] = (tokens,)
    if batch is not None:
        if tokens % batch:
            raise ValueError(f"make_post_inputs: batch {batch} must divide tokens {tokens}")
        lead = (batch, tokens // batch)
    small = torch.float64 if dtype == torch.float64 else torch.float32
    n, d = streams, dim

    def draw(slot: int, *shape: int, to: torch.dtype, uniform: float | None = None) -> Tensor:
        generator = torch.Generator().manual_seed(1_000_003 * seed + slot)
        if uniform is None:
            drawn = torch.randn(shape, generator=generator, dtype=torch.float32)
        else:
            drawn = torch.rand(shape, generator=generator, dtype=torch.float32).mul_(uniform)
        return drawn.to(device=device, dtype=to)

    return PostInputs(
        x=draw(10, *lead, n, d, to=dtype),
        h_res=draw(11, *lead, n, n, to=small, uniform=2 / n) if h_res else None,
        h_out=draw(12, *lead, d, to=dtype),
        h_post=draw(13, *lead, n, to=small, uniform=2.0),
        bias=draw(14, d, to=small) if bias else None,
        grad_out=draw(15, *lead, n, d, to=dtype),
    )
