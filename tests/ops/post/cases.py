"""How the tests call the operator: one driver for each public function, and the three-way check."""

import torch

from mhc_ops import mhc_post, mhc_post_backward, mhc_post_forward
from mhc_ops.testing import assert_within_budget, max_error

from . import oracle

LEAVES = ("x", "h_res", "h_out", "h_post", "bias")
GRADIENTS = tuple(f"grad_{name}" for name in LEAVES)


def forward(impl, c, **options):
    return mhc_post_forward(*c.forward_args, bias=c.bias, impl=impl, **options)


def backward(impl, c, **options):
    return mhc_post_backward(*c.backward_args, impl=impl, **options)


def leaves(c, needed=LEAVES):
    """The five inputs as fresh leaves; those named need gradients, absent ones stay None."""
    made = {}
    for name in LEAVES:
        t = getattr(c, name)
        made[name] = None if t is None else t.detach().clone().requires_grad_(name in needed)
    return made


def call(made, impl):
    return mhc_post(*list(made.values())[:4], bias=made["bias"], impl=impl)


def autograd(impl, c, needed=LEAVES):
    """Gradients of the differentiable operator by leaf name, for the leaves that are there."""
    made = leaves(c, needed)
    wanted = [name for name in needed if made[name] is not None]
    found = torch.autograd.grad(call(made, impl), [made[name] for name in wanted], c.grad_out)
    return dict(zip(wanted, found, strict=True))


def check_forward(impl, c):
    scale = oracle.forward(*c.map(torch.abs)[:5])
    check_output(
        "out", forward(impl, c), lambda work: oracle.forward(*c[:5], work=work), scale, c, c.x.dtype
    )


def check_backward(impl, c):
    got = backward(impl, c)
    scales = oracle.backward(*c.map(torch.abs).backward_args)
    small = c.h_post.dtype
    for i, name in enumerate(GRADIENTS):
        if scales[i] is None:
            assert got[i] is None, name
            continue
        dtype = c.x.dtype if name in ("grad_x", "grad_h_out") else small
        check_output(
            name,
            got[i],
            lambda work, i=i: oracle.backward(*c.backward_args, work=work)[i],
            scales[i],
            c,
            dtype,
        )


def check_output(name, got, run, scale, c, dtype):
    """dtype, shape and values of one result; run(dtype) is the oracle in a working dtype.

    float64 has no finer truth: another order of the same sums stays within 1e-13 of the scale.
    """
    assert got.dtype == dtype, name
    assert got.is_contiguous(), name
    truth = run(torch.float64)
    size = float(scale.max()) if scale.numel() else 0.0
    terms = {"grad_h_res": c.x.shape[-1], "grad_h_post": c.x.shape[-1] + 1,
             "grad_bias": c.x.shape[:-1].numel()}.get(name, c.x.shape[-2] + 2)  # fmt: skip
    if dtype == torch.float64:
        assert got.shape == truth.shape, name
        assert max_error(got, truth) <= 1e-13 * size, name
    else:
        eager = run(torch.float32)
        assert_within_budget(name, got, eager, truth, terms=terms, scale=size)
