"""How the tests call the operator, and the three-way check of both directions."""

import torch

from mhc_ops import (
    mhc_post_forward,
    mhc_post_pre,
    mhc_post_pre_backward,
    mhc_post_pre_forward,
    mhc_pre_forward,
    sinkhorn_forward,
)
from mhc_ops.testing import assert_within_budget, max_error
from mhc_ops.types import MhcPostPreForward

from ..post.cases import check_output
from ..pre.cases import assert_same_bits
from . import oracle

LEAVES = ("x", "h_res", "h_out", "h_post", "out_bias", "phi", "alpha", "bias", "gamma")
GRADIENTS = tuple(f"grad_{name}" for name in LEAVES)
OUTPUTS = ("x_next", "h_in", "h_post", "h_res")
UPSTREAM = ("grad_x_next", "grad_h_in", "grad_h_post_next", "grad_h_res_next")
SINKHORN = ("num_iters", "eps", "eps_mode", "order", "temperature")


def forward(impl, c, **options):
    return mhc_post_pre_forward(*c[:8], out_bias=c.out_bias, impl=impl, **options)


def backward_args(c, fwd):
    return (
        *c[:7], c.grad_x_next, c.grad_h_in, c.grad_h_post_next, c.grad_h_res_next,
        fwd.x_next, fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post, c.gamma,
    )  # fmt: skip


def backward(impl, c, fwd, **options):
    return mhc_post_pre_backward(*backward_args(c, fwd), out_bias=c.out_bias, impl=impl, **options)


def chain(impl, c, **options):
    """The three operators one after the other, with the options of the boundary."""
    x_next = mhc_post_forward(*c[:4], bias=c.out_bias, impl=impl)
    of_pre = {k: v for k, v in options.items() if k not in SINKHORN}
    fwd = mhc_pre_forward(x_next, c.phi, c.alpha, c.bias, c.gamma, impl=impl, **of_pre)
    h_res, of_sinkhorn = fwd.h_res, {k: v for k, v in options.items() if k in SINKHORN}
    if of_sinkhorn:
        convention = options.get("convention")
        h_res = sinkhorn_forward(h_res, impl=impl, convention=convention, **of_sinkhorn).h_res
    return MhcPostPreForward(x_next, fwd.h_in, fwd.h_post, h_res, *fwd[3:])


def leaves(c, needed=LEAVES):
    """The nine inputs as fresh leaves; those named need gradients, absent ones stay None."""
    made = {}
    for name in LEAVES:
        t = getattr(c, name)
        made[name] = None if t is None else t.detach().clone().requires_grad_(name in needed)
    return made


def call(made, impl, **options):
    return mhc_post_pre(**made, impl=impl, **options)


def weigh(out, c):
    """The outputs that are there, beside their upstream gradients."""
    pairs = [
        (getattr(out, name), getattr(c, grad))
        for name, grad in zip(OUTPUTS, UPSTREAM, strict=True)
        if getattr(out, name) is not None and getattr(c, grad) is not None
    ]
    return zip(*pairs, strict=True)


def autograd(impl, c, needed=LEAVES, **options):
    """Gradients of the differentiable operator by leaf name, for the leaves that are there."""
    made = leaves(c, needed)
    pairs = zip(*weigh(call(made, impl, **options), c), strict=True)
    outputs, upstream = zip(*((t, g) for t, g in pairs if t.requires_grad), strict=True)
    wanted = [name for name in needed if made[name] is not None]
    # allow_unused: phi and what follows do not reach x_next, out_bias and h_res may reach it alone.
    found = torch.autograd.grad(outputs, [made[name] for name in wanted], upstream)
    return dict(zip(wanted, found, strict=True))


def split(options):
    """Options of the oracles: Sinkhorn's, or None, and the numbers of pre."""
    of_sinkhorn = {k: v for k, v in options.items() if k in SINKHORN}
    numbers = {k: v for k, v in options.items() if k not in SINKHORN}
    if "precision" in numbers:
        numbers["hf32"] = numbers.pop("precision") == "hf32"
    return of_sinkhorn or None, numbers


def check_forward(impl, c, **options):
    """The bits of the chain, and x_next against its truth; the rest is pinned in its own rooms."""
    got = forward(impl, c, **options)
    assert_same_bits(got, chain(impl, c, **options))
    scale = oracle.write(c.map(torch.abs))
    check_output("out", got.x_next, lambda work: oracle.write(c, work), scale, c, c.x.dtype)
    return got


def check_backward(impl, c, fwd, **options):
    """Three-way check of every gradient, from the tensors that a forward returned."""
    of_sinkhorn, numbers = split(options)
    got = backward(impl, c, fwd, **options)
    numbers.pop("norm_eps", None)
    truth = oracle.backward(c, fwd, torch.float64, of_sinkhorn, **numbers)
    small = c.phi.dtype
    eager = oracle.backward(c, fwd, small, of_sinkhorn, **numbers)
    scales = oracle.backward_scales(c, fwd, of_sinkhorn, **numbers)
    terms = 2 * c.x.shape[-1] + c.phi.shape[0] + c.x.shape[:-2].numel()
    if of_sinkhorn:
        terms += (2 * of_sinkhorn["num_iters"] + 1) * c.x.shape[-2]
    for name, value, want, bar, scale in zip(GRADIENTS, got, truth, eager, scales, strict=True):
        if want is None:
            assert value is None, name
            continue
        assert value.dtype == (c.x.dtype if name in ("grad_x", "grad_h_out") else small), name
        assert value.is_contiguous(), name
        if small == torch.float64:
            assert value.shape == want.shape, name
            assert max_error(value, want) <= 1e-12 * scale, name
        else:
            assert_within_budget(name, value, bar, want, terms=terms, scale=scale)
