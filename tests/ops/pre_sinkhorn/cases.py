"""How the tests call pre_sinkhorn; its truth: the oracles of pre and of sinkhorn in a row."""

import torch

from mhc_ops import (
    mhc_pre,
    mhc_pre_backward,
    mhc_pre_forward,
    mhc_pre_sinkhorn,
    mhc_pre_sinkhorn_backward,
    mhc_pre_sinkhorn_forward,
    sinkhorn,
    sinkhorn_backward,
    sinkhorn_forward,
)
from mhc_ops.types import MhcPreForward, MhcPreSinkhorn, MhcPreSinkhornForward

from ..pre import oracle as pre
from ..pre.cases import LEAVES, check_outputs, leaves
from ..sinkhorn import oracle as sink

SINKHORN = ("num_iters", "eps", "eps_mode", "order", "temperature")
# One set of options away from every default.
OTHER = {"num_iters": 7, "eps": 1e-4, "eps_mode": "clamp", "order": "rows_last", "temperature": 1.7}


def split(options):
    """Options of sinkhorn, and the rest."""
    taken = {k: v for k, v in options.items() if k in SINKHORN}
    return taken, {k: v for k, v in options.items() if k not in SINKHORN}


def forward(impl, c, **options):
    return mhc_pre_sinkhorn_forward(*c.forward_args, impl=impl, **options)


def backward_args(c, fwd):
    return (
        c.x, c.phi, c.alpha, c.bias, c.grad_h_in, c.grad_h_post, c.grad_h_res,
        fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post, c.gamma, c.grad_x_post,
    )  # fmt: skip


def backward(impl, c, fwd, **options):
    return mhc_pre_sinkhorn_backward(*backward_args(c, fwd), impl=impl, **options)


def pre_backward_args(c, fwd, grad_logits):
    return (
        c.x, c.phi, c.alpha, c.grad_h_in, c.grad_h_post, grad_logits,
        fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post, c.gamma, c.grad_x_post,
    )  # fmt: skip


def chain_forward(impl, c, **options):
    """The bare operators of the two rooms, one after the other; and the logits between them."""
    of_sinkhorn, of_pre = split(options)
    fwd = mhc_pre_forward(*c.forward_args, impl=impl, **of_pre)
    h_res = sinkhorn_forward(fwd.h_res, impl=impl, **of_sinkhorn).h_res
    return MhcPreSinkhornForward(*fwd._replace(h_res=h_res)), fwd.h_res


def chain_backward(impl, c, fwd, logits, **options):
    of_sinkhorn, of_pre = split(options)
    grad_logits = sinkhorn_backward(logits, c.grad_h_res, impl=impl, **of_sinkhorn)
    of_pre.pop("norm_eps", None)
    return mhc_pre_backward(*pre_backward_args(c, fwd, grad_logits), impl=impl, **of_pre)


def chain(*args, impl="auto", **options):
    """The differentiable operators, one after the other."""
    of_sinkhorn, of_pre = split(options)
    h_in, h_post, logits, x = mhc_pre(*args, impl=impl, **of_pre)
    return MhcPreSinkhorn(h_in, h_post, sinkhorn(logits, impl=impl, **of_sinkhorn), x)


def oracle_forward(args, work=torch.float64, **options):
    of_sinkhorn, of_pre = split(options)
    fwd = pre.forward(*args, work=work, **of_pre)
    return fwd._replace(h_res=sink.forward(fwd.h_res, work=work, **of_sinkhorn))


def oracle_backward(c, fwd, work=torch.float64, **options):
    of_sinkhorn, of_pre = split(options)
    n = c.x.shape[-2]
    scaled = fwd.h_mix.to(work) * fwd.inv_rms.to(work)[..., None]
    logits = (c.alpha[2].to(work) * scaled + c.bias.to(work))[..., 2 * n :].unflatten(-1, (n, n))
    grad_logits = sink.backward(logits, c.grad_h_res, work, **of_sinkhorn)
    return pre.backward(*pre_backward_args(c, fwd, grad_logits), work=work, **of_pre)


def saved(c, **options):
    """What a forward hands to the backward: the truth, rounded to the dtypes of the contract."""
    truth = oracle_forward(c.forward_args, **options)
    small = [t.to(c.phi.dtype) for t in truth[1:]]
    return MhcPreForward(truth.h_in.to(c.x.dtype), *small)


def steps(c, options, logits):
    """Terms of Sinkhorn's longest chain of sums, and the rounding of exp's argument."""
    n = c.x.shape[-2]
    spread = float(logits.max() - logits.min()) if logits.numel() else 0.0
    return (2 * options.get("num_iters", 20) + 1) * n + min(88, int(spread))


def check_forward(impl, c, **options):
    """Three-way check of every output.

    An error of a logit is a relative error of h_res, and a logit is a sum of N*D terms.
    """
    _, of_pre = split(options)
    scales = pre.forward_scales(*c.forward_args, **of_pre)
    logits = pre.forward(*c.forward_args, **of_pre).h_res
    check_outputs(
        c.x.dtype,
        forward(impl, c, **options),
        lambda work: oracle_forward(c.forward_args, work, **options),
        scales._replace(h_res=max(1.0, float(scales.h_res))),
        terms=c.phi.shape[1] + steps(c, options, logits),
    )


def check_backward(impl, c, fwd, **options):
    """Three-way check of every gradient, from the saved tensors in `fwd`.

    h_res is at most about 1, so grad_h_res bounds what Sinkhorn's backward adds up for the logits.
    """
    of_sinkhorn, of_pre = split(options)
    n = c.x.shape[-2]
    logits = fwd.h_mix[..., 2 * n :] * fwd.inv_rms[..., None] * c.alpha[2] + c.bias[2 * n :]
    scales = pre.backward_scales(*pre_backward_args(c, fwd, c.grad_h_res), **of_pre)
    of_pre.pop("norm_eps", None)
    check_outputs(
        c.x.dtype,
        backward(impl, c, fwd, **of_sinkhorn, **of_pre),
        lambda work: oracle_backward(c, fwd, work, **options),
        scales,
        terms=c.x.shape[-1] + len(c.phi) + c.x.shape[:-2].numel() + steps(c, options, logits),
    )


def weigh(out, c):
    """The outputs of mhc_pre_sinkhorn that a loss looks at, beside their upstream gradients."""
    pairs = [(out.h_in, c.grad_h_in), (out.h_post, c.grad_h_post), (out.h_res, c.grad_h_res)]
    if c.grad_x_post is not None:
        pairs.append((out.x, c.grad_x_post))
    return zip(*pairs, strict=True)


def autograd(run, c, needed=LEAVES):
    """Gradients by leaf name of a differentiable function of x, phi, alpha, bias, gamma."""
    made = leaves(c, needed)
    outputs, upstream = weigh(run(*made.values()), c)
    wanted = [name for name in LEAVES if made[name] is not None and name in needed]
    found = torch.autograd.grad(
        [t for t in outputs if t.requires_grad],
        [made[name] for name in wanted],
        [g for t, g in zip(outputs, upstream, strict=True) if t.requires_grad],
    )
    return dict(zip(wanted, found, strict=True))


def fused(impl, **options):
    """mhc_pre_sinkhorn with these options, as a function of the tensors."""
    return lambda *args: mhc_pre_sinkhorn(*args, impl=impl, **options)
