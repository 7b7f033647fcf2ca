"""How the tests call the operator: one driver for each public function, and bitwise comparison."""

import torch

from mhc_ops import mhc_pre, mhc_pre_backward, mhc_pre_forward
from mhc_ops.testing import assert_within_budget, max_error
from mhc_ops.types import MhcPreForward

from . import oracle

PARAMETERS = ("phi", "alpha", "bias", "gamma")
LEAVES = ("x", *PARAMETERS)
PER_TOKEN = ("h_in", "h_post", "h_res", "inv_rms", "h_mix", "h_pre")


def forward(impl, c, **options):
    return mhc_pre_forward(*c.forward_args, impl=impl, **options)


def saved(c, **numbers):
    """What a forward hands to the backward: the truth, rounded to the dtypes of the contract."""
    truth = oracle.forward(*c.forward_args, **numbers)
    small = c.phi.dtype
    h_res = None if truth.h_res is None else truth.h_res.to(small)
    rest = [t.to(small) for t in (truth.inv_rms, truth.h_mix, truth.h_pre)]
    return MhcPreForward(truth.h_in.to(c.x.dtype), truth.h_post.to(small), h_res, *rest)


def backward_args(c, fwd):
    return (
        c.x, c.phi, c.alpha, c.grad_h_in, c.grad_h_post, c.grad_h_res,
        fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post, c.gamma, c.grad_x_post,
    )  # fmt: skip


def backward(impl, c, fwd, **options):
    return mhc_pre_backward(*backward_args(c, fwd), impl=impl, **options)


def leaves(c, needed=LEAVES):
    """x, phi, alpha, bias, gamma as fresh leaves; those named need gradients."""
    made = {}
    for name in LEAVES:
        t = getattr(c, name)
        made[name] = None if t is None else t.detach().clone().requires_grad_(name in needed)
    return made


def weigh(out, c):
    """The outputs of mhc_pre that a loss looks at, beside their upstream gradients."""
    pairs = [(out.h_in, c.grad_h_in), (out.h_post, c.grad_h_post)]
    if out.h_res_logits is not None:
        pairs.append((out.h_res_logits, c.grad_h_res))
    if c.grad_x_post is not None:
        pairs.append((out.x, c.grad_x_post))
    return zip(*pairs, strict=True)


def autograd(impl, c, needed=LEAVES, **options):
    """Gradients of the differentiable operator by leaf name, None where the leaf needs none."""
    made = leaves(c, needed)
    out = mhc_pre(**made, impl=impl, **options)
    outputs, upstream = weigh(out, c)
    wanted = [name for name in LEAVES if made[name] is not None and name in needed]
    found = torch.autograd.grad(
        [t for t in outputs if t.requires_grad],
        [made[name] for name in wanted],
        [g for t, g in zip(outputs, upstream, strict=True) if t.requires_grad],
    )
    return dict(zip(wanted, found, strict=True))


def check_forward(impl, c, **numbers):
    """Three-way check of every output; `numbers` as the oracle takes them."""
    options = {k: v for k, v in numbers.items() if k in ("norm_eps", "hc_eps", "post_eps")}
    args = c.forward_args
    check_outputs(
        c.x.dtype,
        forward(impl, c, **options),
        lambda work: oracle.forward(*args, **numbers, work=work),
        oracle.forward_scales(*args, **numbers),
        terms=c.phi.shape[1],
    )


def check_backward(impl, c, fwd, **numbers):
    """Three-way check of every gradient, from the saved tensors in `fwd`."""
    options = {k: v for k, v in numbers.items() if k in ("hc_eps", "post_eps")}
    args = backward_args(c, fwd)
    check_outputs(
        c.x.dtype,
        backward(impl, c, fwd, **options),
        lambda work: oracle.backward(*args, **numbers, work=work),
        oracle.backward_scales(*args, **numbers),
        terms=c.x.shape[-1] + c.phi.shape[0] + c.x.shape[:-2].numel(),
    )


def check_outputs(dtype, got, run, scales, terms):
    """dtypes, shapes and values of a result; run(dtype) is the oracle in a working dtype.

    float64 has no finer truth: another order of the same sums stays within 1e-13 of the scale.
    """
    small = torch.float64 if dtype == torch.float64 else torch.float32
    truth, eager = run(torch.float64), run(small)
    for name, value, want, bar, scale in zip(truth._fields, got, truth, eager, scales, strict=True):
        if want is None:
            assert value is None, name
            continue
        assert value.dtype == (dtype if name in ("h_in", "grad_x") else small), name
        if dtype == torch.float64:
            assert max_error(value, want) <= 1e-13 * scale, name
        else:
            assert_within_budget(name, value, bar, want, terms=terms, scale=scale)


def bits(t):
    """An integer view of the bit pattern, so that NaN equals itself and -0 differs from 0."""
    size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()]
    return t.detach().contiguous().view(size)


def assert_same_bits(got, want, where=""):
    """Two tuples of tensors (or None) agree bit for bit, shapes and dtypes included."""
    fields = getattr(want, "_fields", [str(i) for i in range(len(want))])
    for name, a, b in zip(fields, got, want, strict=True):
        if a is None or b is None:
            assert a is b, f"{where}{name}: only one side is None"
            continue
        assert a.dtype == b.dtype, f"{where}{name}: {a.dtype}, expected {b.dtype}"
        assert a.shape == b.shape, f"{where}{name}: {a.shape}, expected {b.shape}"
        different = bits(a) != bits(b)
        if different.any():
            at = int(different.flatten().int().argmax())
            raise AssertionError(
                f"{where}{name}: {int(different.sum())} of {a.numel()} elements differ, at {at} "
                f"first: {a.flatten()[at].item()!r}, expected {b.flatten()[at].item()!r}"
            )
