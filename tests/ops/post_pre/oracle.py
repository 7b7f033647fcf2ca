"""The truth of the boundary, composed of the oracles of post, pre and sinkhorn.

`work` is the dtype of the computation: float64 is the truth, float32 the eager bar.
"""

import torch

from mhc_ops.types import MhcPostPreBackward, MhcPreForward

from ..post import oracle as post
from ..pre import oracle as pre
from ..sinkhorn import oracle as sinkhorn


def write(c, work=torch.float64):
    """x_next, not rounded."""
    return post.forward(c.x, c.h_res, c.h_out, c.h_post, c.out_bias, work=work)


def read(c, x_next, work=torch.float64, sinkhorn_options=None, **numbers):
    """What the next sublayer makes of a given x_next."""
    fwd = pre.forward(x_next, c.phi, c.alpha, c.bias, c.gamma, work=work, **numbers)
    if sinkhorn_options is None:
        return fwd
    return fwd._replace(h_res=sinkhorn.forward(fwd.h_res, work=work, **sinkhorn_options))


def forward(c, sinkhorn_options=None, **numbers):
    """Everything in one differentiable program, x_next not rounded."""
    x_next = write(c, c.h_post.dtype)
    work = c.h_post.dtype
    return x_next, read(c, x_next, work, sinkhorn_options, **numbers)


def backward(c, fwd, work=torch.float64, sinkhorn_options=None, **numbers):
    """Gradients from the tensors that a forward returned, as the operator takes them."""
    grad = c.grad_h_res_next
    if sinkhorn_options is not None:
        grad = sinkhorn.backward(logits(c, fwd, work), grad, work, **sinkhorn_options)
    of_next = pre.backward(*_pre_args(c, fwd, grad), work=work, **numbers)
    of_post = post.backward(of_next.grad_x, c.x, c.h_res, c.h_out, c.h_post, c.out_bias, work=work)
    return MhcPostPreBackward(*of_post, *of_next[1:])


def backward_scales(c, fwd, sinkhorn_options=None, **numbers):
    """The magnitude of the sums behind each gradient."""
    grad = c.grad_h_res_next
    if sinkhorn_options is not None:
        grad = sinkhorn.backward(logits(c, fwd, torch.float64), grad, **sinkhorn_options)
    of_next = pre.backward_scales(*_pre_args(c, fwd, grad), **numbers)
    size = torch.full_like(c.x, of_next.grad_x, dtype=torch.float64)
    magnitudes = (
        None if t is None else t.abs() for t in (c.x, c.h_res, c.h_out, c.h_post, c.out_bias)
    )
    of_post = post.backward(size, *magnitudes)
    largest = (None if t is None else float(t.max()) if t.numel() else 0.0 for t in of_post)
    return MhcPostPreBackward(*largest, *of_next[1:])


def logits(c, fwd, work):
    n = c.x.shape[-2]
    w = fwd.h_mix.to(work) * fwd.inv_rms.to(work)[..., None]
    z = c.alpha[2].to(work) * w[..., 2 * n :] + c.bias[2 * n :].to(work)
    return z.unflatten(-1, (n, n))


def _pre_args(c, fwd, grad_logits):
    return (
        fwd.x_next, c.phi, c.alpha, c.grad_h_in, c.grad_h_post_next, grad_logits,
        fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post, c.gamma, c.grad_x_next,
    )  # fmt: skip


def as_pre(fwd):
    """A result of mhc_post_pre_forward without its x_next."""
    return MhcPreForward(*fwd[1:])
