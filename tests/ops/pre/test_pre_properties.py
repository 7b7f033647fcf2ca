"""What holds for every input, whatever the numbers: ranges, symmetries, invariances."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mhc_ops.testing import make_pre_inputs

from ..rooms import IMPLS
from .cases import backward, forward

# These relations are checked to float64's accuracy, which the kernels do not offer.
EXACT = [name for name in IMPLS if name in ("reference", "torch")]
SIZES = {
    "tokens": st.integers(1, 9),
    "streams": st.integers(1, 6),
    "dim": st.integers(1, 20),
    "seed": st.integers(0, 2**20),
}


def close(got, want):
    scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
    return torch.allclose(got, want, rtol=1e-11, atol=1e-11 * scale)


@given(**SIZES, size=st.sampled_from([0.1, 1.0, 30.0, 1e4]))
def test_gates_stay_in_their_ranges(tokens, streams, dim, seed, size):
    """Also h_in then lies within the sum of the streams' sizes."""
    c = make_pre_inputs(tokens, streams, dim, dtype=torch.float32, seed=seed)
    c = c._replace(alpha=c.alpha * size)
    for impl in IMPLS:
        fwd = forward(impl, c)
        assert ((fwd.h_pre >= 1e-6) & (fwd.h_pre <= 1 + 2e-6)).all()
        assert ((fwd.h_post >= 0) & (fwd.h_post <= 2)).all()
        assert (fwd.h_in.abs() <= 1.00001 * c.x.abs().sum(-2) + 1e-6).all()


@given(**SIZES)
def test_relabelled_streams(tokens, streams, dim, seed):
    """Renaming the streams renames the results: rows and columns of phi move along."""
    c = make_pre_inputs(tokens, streams, dim, dtype=torch.float64, seed=seed)
    n = streams
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    square = torch.arange(n * n).view(n, n)[order][:, order].flatten()
    rows = torch.cat([order, n + order, 2 * n + square])
    columns = torch.arange(n * dim).view(n, dim)[order].flatten()
    moved = c._replace(
        x=c.x[:, order],
        phi=c.phi[rows][:, columns],
        bias=c.bias[rows],
        gamma=c.gamma[order],
        grad_h_post=c.grad_h_post[:, order],
        grad_h_res=c.grad_h_res[:, order][:, :, order],
        grad_x_post=c.grad_x_post[:, order],
    )
    for impl in EXACT:
        fwd, other = forward(impl, c), forward(impl, moved)
        assert close(other.h_in, fwd.h_in)
        assert close(other.h_res, fwd.h_res[:, order][:, :, order])
        bwd, back = backward(impl, c, fwd), backward(impl, moved, other)
        assert close(back.grad_x, bwd.grad_x[:, order])
        assert close(back.grad_phi, bwd.grad_phi[rows][:, columns])
        assert close(back.grad_alpha, bwd.grad_alpha)
        assert close(back.grad_gamma, bwd.grad_gamma[order])


@given(**SIZES, power=st.integers(-20, 20))
def test_the_gates_do_not_see_the_size_of_a_token(tokens, streams, dim, seed, power):
    """With norm_eps 0 the gates are those of x / |x|, so their gradient is orthogonal to x."""
    c = make_pre_inputs(tokens, streams, dim, dtype=torch.float64, grad_x_post=False, seed=seed)
    c = c._replace(grad_h_in=torch.zeros_like(c.grad_h_in))
    scaled = c._replace(x=c.x * 2.0**power)
    for impl in EXACT:
        fwd, other = (forward(impl, case, norm_eps=0.0) for case in (c, scaled))
        for name in ("h_pre", "h_post", "h_res"):
            assert close(getattr(other, name), getattr(fwd, name)), name
        assert close(other.h_in, fwd.h_in * 2.0**power)
        grad_x = backward(impl, c, fwd).grad_x
        along, sizes = (c.x * grad_x).sum((-1, -2)), (c.x * grad_x).abs().sum((-1, -2))
        assert (along.abs() <= 1e-12 * sizes + 1e-12).all()


@given(**SIZES)
def test_the_backward_is_linear_in_the_upstream_gradients(tokens, streams, dim, seed):
    c = make_pre_inputs(tokens, streams, dim, dtype=torch.float64, seed=seed)
    d = make_pre_inputs(tokens, streams, dim, dtype=torch.float64, seed=seed + 1)
    names = ("grad_h_in", "grad_h_post", "grad_h_res", "grad_x_post")
    other = c._replace(**{name: getattr(d, name) for name in names})
    mixed = c._replace(**{n: 2 * getattr(c, n) - 3 * getattr(d, n) for n in names})
    for impl in EXACT:
        fwd = forward(impl, c)
        first, second, both = (backward(impl, case, fwd) for case in (c, other, mixed))
        for a, b, total in zip(first, second, both, strict=True):
            assert close(total, 2 * a - 3 * b)
