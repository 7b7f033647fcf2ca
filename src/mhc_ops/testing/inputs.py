"""Seeded inputs of the operators, equal on every device and, up to rounding, for every dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Residual = Literal["matrix", "permutation", "none"]
Layout = Literal["TND", "BSND"]


class PreInputs(NamedTuple):
    """Inputs of MhcPre and the upstream gradients of its outputs.

    x [*lead, N, D]; phi [F, N*D]; alpha [3] or [2]; bias [F]; gamma [N, D] or None;
    grad_h_in [*lead, D]; grad_h_post [*lead, N]; grad_h_res [*lead, N, N], [*lead, N!] or None;
    grad_x_post as x or None. lead is [T] or [B, S].
    """

    x: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None
    grad_h_in: Tensor
    grad_h_post: Tensor
    grad_h_res: Tensor | None
    grad_x_post: Tensor | None

    def map(self, fn: Callable[[Tensor], Tensor]) -> PreInputs:
        """Apply fn to every tensor that is there."""
        mapped = (None if t is None else fn(t) for t in self)
        return PreInputs(*mapped)  # type: ignore[arg-type]  # None stays where it was

    def double(self) -> PreInputs:
        """The same values in float64, for the truth of a comparison."""
        return self.map(Tensor.double)

    def tokens(self, index: slice) -> PreInputs:
        """A slice of the tokens of a [T, N, D] case; the parameters stay whole."""
        return PreInputs(
            x=self.x[index],
            phi=self.phi,
            alpha=self.alpha,
            bias=self.bias,
            gamma=self.gamma,
            grad_h_in=self.grad_h_in[index],
            grad_h_post=self.grad_h_post[index],
            grad_h_res=None if self.grad_h_res is None else self.grad_h_res[index],
            grad_x_post=None if self.grad_x_post is None else self.grad_x_post[index],
        )

    @property
    def forward_args(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """x, phi, alpha, bias, gamma: the tensors of the forward, in its order."""
        return self.x, self.phi, self.alpha, self.bias, self.gamma


def residual_rows(streams: int, residual: Residual) -> int:
    """R, the rows of phi that belong to the residual part: N*N, N! or 0."""
    if residual == "matrix":
        return streams * streams
    if residual == "permutation":
        return math.factorial(streams)
    return 0


def make_pre_inputs(
    tokens: int,
    streams: int,
    dim: int,
    *,
    residual: Residual = "matrix",
    dtype: torch.dtype = torch.bfloat16,
    gamma: bool = True,
    grad_x_post: bool = True,
    seed: int = 0,
    layout: Layout = "TND",
    batch: int | None = None,
    device: torch.device | str = "cpu",
) -> PreInputs:
    """Draw one case of MhcPre.

    x, gamma and all upstream gradients are standard normal, phi is normal / sqrt(N*D), so that the
    logits are of order 1; alpha is (1.1, 0.9, 1.05) and bias 0.1 * normal, as published tests have.
    Every tensor is drawn in float32 on the CPU from its own generator: an optional tensor that is
    left out changes no other one, float64 holds the float32 values, and 16-bit ones are rounded.

    Args:     tokens: T >= 0.  streams: N >= 1.  dim: D >= 1.
              residual: "matrix" (R = N*N), "permutation" (R = N!) or "none" (R = 0, alpha of two).
              dtype: of the x-like tensors; the others are float32, or float64 with float64 x.
              gamma, grad_x_post: whether these optional tensors are there.
              layout: "TND", or "BSND" with the same values as [batch, tokens / batch, N, D].
              batch: B of "BSND"; by default 2 where that divides tokens, else 1.
    Raises:   ValueError when batch does not divide tokens.
    """
    lead: tuple[int, ...] = (tokens,)
    if layout == "BSND":
        batch = (2 if tokens % 2 == 0 else 1) if batch is None else batch
        if tokens % batch:
            raise ValueError(f"make_pre_inputs: batch {batch} must divide tokens {tokens}")
        lead = (batch, tokens // batch)
    rows = residual_rows(streams, residual)
    width = 2 * streams + rows
    small = torch.float64 if dtype == torch.float64 else torch.float32
    n, d = streams, dim
    res = (n, n) if residual == "matrix" else (rows,)
    gains = (1.1, 0.9, 1.05) if rows else (1.1, 0.9)

    def normal(slot: int, *shape: int, to: torch.dtype, scale: float = 1.0) -> Tensor:
        generator = torch.Generator().manual_seed(1_000_003 * seed + slot)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float32).mul_(scale)
        return drawn.to(device=device, dtype=to)

    return PreInputs(
        x=normal(0, *lead, n, d, to=dtype),
        phi=normal(1, width, n * d, to=small, scale=(n * d) ** -0.5),
        alpha=torch.tensor(gains, dtype=torch.float32).to(device=device, dtype=small),
        bias=normal(2, width, to=small, scale=0.1),
        gamma=normal(3, n, d, to=small) if gamma else None,
        grad_h_in=normal(4, *lead, d, to=dtype),
        grad_h_post=normal(5, *lead, n, to=small),
        grad_h_res=normal(6, *lead, *res, to=small) if rows else None,
        grad_x_post=normal(7, *lead, n, d, to=dtype) if grad_x_post else None,
    )
