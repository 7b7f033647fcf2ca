"""Inputs of the sinkhorn tests, and the three-way check of both directions."""

import torch

from mhc_ops import sinkhorn_backward, sinkhorn_forward
from mhc_ops.testing import assert_within_budget, max_error

from . import oracle

MODES = ("add", "clamp", "none")
ORDERS = ("columns_last", "rows_last")


def normal(*shape, std=1.0, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (std * torch.randn(shape, generator=generator, dtype=torch.float32)).to(dtype)


def make(tokens, n, std=1.0, seed=0, dtype=torch.float32):
    """Logits and an upstream gradient, [tokens, n, n]."""
    return (
        normal(tokens, n, n, std=std, seed=seed, dtype=dtype),
        normal(tokens, n, n, seed=seed + 1000, dtype=dtype),
    )


def check(impl, logits, grad, **options):
    """Three-way check of h_res and of the gradient.

    A step's sum of N terms enters the next step's, so the longest chain adds 2 num_iters N terms.
    exp turns the rounding of its argument into a relative error of that argument's size; below -88
    it is 0 in float32.
    float64 has no finer truth: rounding in another order stays within 1e-12 of the scale.
    """
    terms = (2 * options.get("num_iters", 20) + 1) * logits.shape[-1]
    finite = logits[logits.isfinite()]
    if finite.numel():
        terms += min(88, int(finite.max() - finite.min()))
    got = (
        sinkhorn_forward(logits, impl=impl, **options).h_res,
        sinkhorn_backward(logits, grad, impl=impl, **options),
    )
    runs = [
        (oracle.forward(logits, work=w, **options), oracle.backward(logits, grad, w, **options))
        for w in (torch.float64, torch.float32)
    ]
    for name, value, truth, eager in zip(("h_res", "grad_logits"), got, *runs, strict=True):
        assert (value.dtype, value.shape) == (logits.dtype, logits.shape), name
        if logits.dtype == torch.float64:
            assert max_error(value, truth) <= 1e-12 * max(1.0, float(truth.abs().max())), name
        else:
            assert_within_budget(name, value, eager, truth, terms=terms)
