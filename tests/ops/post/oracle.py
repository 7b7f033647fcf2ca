"""The truth of MhcPost, written from the published equations and from nothing of ours.

Everything runs in the dtype of `work`: float64 is the truth, float32 the eager bar that an
implementation is measured against.
"""

import torch
from torch import Tensor

from mhc_ops.types import MhcPostBackward


def forward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None = None,
    *,
    work: torch.dtype = torch.float64,
) -> Tensor:
    x, y, h_post = x.to(work), h_out.to(work), h_post.to(work)
    if bias is not None:
        y = y + bias.to(work)
    mixed = x if h_res is None else torch.einsum("...ij,...id->...jd", h_res.to(work), x)
    return mixed + torch.einsum("...j,...d->...jd", h_post, y)


def backward(
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None = None,
    *,
    work: torch.dtype = torch.float64,
) -> MhcPostBackward:
    g, x, y, h_post = grad_out.to(work), x.to(work), h_out.to(work), h_post.to(work)
    if bias is not None:
        y = y + bias.to(work)
    grad_y = torch.einsum("...jd,...j->...d", g, h_post)
    return MhcPostBackward(
        g if h_res is None else torch.einsum("...ij,...jd->...id", h_res.to(work), g),
        torch.einsum("...id,...jd->...ij", x, g),
        grad_y,
        torch.einsum("...jd,...d->...j", g, y),
        None if bias is None else grad_y.reshape(-1, x.shape[-1]).sum(0),
    )
