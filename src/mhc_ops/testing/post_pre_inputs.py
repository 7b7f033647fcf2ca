"""Seeded inputs of the boundary of two sublayers, made of those of MhcPost and MhcPre."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .inputs import Residual, make_pre_inputs
from .post_inputs import make_post_inputs

_PARAMETERS = ("phi", "alpha", "bias", "gamma", "out_bias")


class PostPreInputs(NamedTuple):
    """Inputs of the boundary and the upstream gradients of its outputs.

    x [*lead, N, D]; h_res [*lead, N, N] or None; h_out [*lead, D]; h_post [*lead, N];
    phi [F, N*D]; alpha [3] or [2]; bias [F]; gamma [N, D] or None; out_bias [D] or None;
    grad_x_next as x; grad_h_in [*lead, D]; grad_h_post_next [*lead, N]; grad_h_res_next
    [*lead, N, N], [*lead, N!] or None. lead is [T] or [B, S].
    """

    x: Tensor
    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None
    out_bias: Tensor | None
    grad_x_next: Tensor | None
    grad_h_in: Tensor
    grad_h_post_next: Tensor
    grad_h_res_next: Tensor | None

    def map(self, fn: Callable[[Tensor], Tensor]) -> PostPreInputs:
        """Apply fn to every tensor that is there."""
        mapped = (None if t is None else fn(t) for t in self)
        return PostPreInputs(*mapped)  # type: ignore[arg-type]  # None stays where it was

    def tokens(self, index: slice) -> PostPreInputs:
        """A slice of the tokens of a [T, N, D] case; the parameters stay whole."""
        whole = {name: getattr(self, name) for name in _PARAMETERS}
        return self.map(lambda t: t[index])._replace(**whole)


def make_post_pre_inputs(
    tokens: int,
    streams: int,
    dim: int,
    *,
    residual: Residual = "matrix",
    dtype: torch.dtype = torch.bfloat16,
    h_res: bool = True,
    gamma: bool = True,
    out_bias: bool = True,
    grad_x_next: bool = True,
    seed: int = 0,
    batch: int | None = None,
    device: torch.device | str = "cpu",
) -> PostPreInputs:
    """Draw one case: x, h_res, h_out, h_post and out_bias as make_post_inputs, the rest as
    make_pre_inputs. An optional tensor that is left out changes no other one.

    Args:     tokens: T >= 0.  streams: N >= 1.  dim: D >= 1.
              residual: "matrix" (R = N*N), "permutation" (R = N!) or "none" (R = 0, alpha of two).
              dtype: of the x-like tensors; the others are float32, or float64 with float64 x.
              h_res, gamma, out_bias, grad_x_next: whether these optional tensors are there.
              batch: B of [batch, tokens / batch, N, D]; by default the layout is [T, N, D].
    Raises:   ValueError when batch does not divide tokens.
    """
    post = make_post_inputs(
        tokens, streams, dim, dtype=dtype, h_res=h_res, bias=out_bias, seed=seed, batch=batch,
        device=device,
    )  # fmt: skip
    pre = make_pre_inputs(
        tokens, streams, dim, residual=residual, dtype=dtype, gamma=gamma,
        grad_x_post=grad_x_next, seed=seed, layout="TND" if batch is None else "BSND",
        batch=batch, device=device,
    )  # fmt: skip
    return PostPreInputs(
        *post.forward_args,
        *pre.forward_args[1:],
        post.bias,
        pre.grad_x_post,
        pre.grad_h_in,
        pre.grad_h_post,
        pre.grad_h_res,
    )
