"""A whole sublayer, mhc_pre -> linear -> mhc_post, and the residual's gradient in it."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from mhc_ops import mhc_post, mhc_pre
from mhc_ops.testing import make_pre_inputs

T, N, D = 24, 4, 10


def inputs(dtype):
    """x, phi, alpha, bias, gamma of mhc_pre, and the linear layer's weight and bias."""
    c = make_pre_inputs(T, N, D, dtype=dtype)
    generator = torch.Generator().manual_seed(9)
    weight = (torch.randn(D, D, generator=generator) / D**0.5).to(dtype)
    made = [*c.forward_args, weight, c.gamma[0].clone()]
    return [t.clone().requires_grad_() for t in made], c.grad_x_post


def mix(logits):
    """Some doubly used [from, to] weights: a softmax over `to`, as Sinkhorn begins."""
    return torch.softmax(logits, -1)


def sublayer(x, phi, alpha, bias, gamma, weight, out_bias, *, impl, identity=False):
    h_in, h_post, logits, x = mhc_pre(x, phi, alpha, bias, gamma, impl=impl)
    h_res = None if identity else mix(logits)
    return mhc_post(x, h_res, h_in @ weight.T, h_post, bias=out_bias, impl=impl)


def formula(x, phi, alpha, bias, gamma, weight, out_bias, *, identity=False):
    """The same sublayer written out stream by stream, from the equations alone."""
    flat = (x * gamma).flatten(1)
    inv = ((x * x).flatten(1).mean(1) + 1e-6) ** -0.5
    w = inv[:, None] * (flat @ phi.T)
    z = (
        torch.cat([a * part for a, part in zip(alpha, w.split([N, N, N * N], 1), strict=True)], 1)
        + bias
    )
    pre = 1 / (1 + torch.exp(-z[:, :N])) + 1e-6
    post = 2 / (1 + torch.exp(-z[:, N : 2 * N]))
    h_in = sum(pre[:, i, None] * x[:, i] for i in range(N))
    y = h_in @ weight.T + out_bias
    streams = []
    for j in range(N):
        carried = x[:, j]
        if not identity:
            res = torch.softmax(z[:, 2 * N :].view(-1, N, N), 2)
            carried = sum(res[:, i, j, None] * x[:, i] for i in range(N))
        streams.append(carried + post[:, j, None] * y)
    return torch.stack(streams, 1)


@pytest.mark.parametrize("identity", [False, True])
def test_values_and_gradients_equal_the_formula(impl, identity):
    dtype = torch.float64 if impl in ("reference", "torch") else torch.float32
    made, upstream = inputs(dtype)
    if identity:
        made[1], made[2], made[3] = (  # no residual part: phi [2N, N*D], alpha [2], bias [2N]
            made[1][: 2 * N].detach().requires_grad_(),
            made[2][:2].detach().requires_grad_(),
            made[3][: 2 * N].detach().requires_grad_(),
        )
    out = sublayer(*made, impl=impl, identity=identity)
    got = torch.autograd.grad(out, made, upstream)
    wide = [t.detach().double().requires_grad_() for t in made]
    if identity:
        padded = [wide[0], torch.cat([wide[1], wide[1].new_zeros(N * N, N * D)]),
                  torch.cat([wide[2], wide[2].new_ones(1)]),
                  torch.cat([wide[3], wide[3].new_zeros(N * N)]), *wide[4:]]  # fmt: skip
    else:
        padded = wide
    truth = formula(*padded, identity=identity)
    want = torch.autograd.grad(truth, wide, upstream.double())
    # float32: a few hundred roundings of terms of order 10.
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    for a, b in zip((out, *got), (truth, *want), strict=True):
        size = float(b.detach().abs().max())
        torch.testing.assert_close(a.double(), b, rtol=0, atol=tolerance * max(size, 1.0))


@pytest.mark.parametrize("identity", [False, True])
def test_the_residual_gradient_meets_no_separate_add(impl, identity):
    """The traced backward hands post's grad_x to pre's backward, and adds nothing [T, N, D]."""
    made, upstream = inputs(torch.bfloat16)
    made[4] = None  # gamma None: nothing else of that size is about
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    compiled = torch.compile(
        lambda *a: sublayer(*a, impl=impl, identity=identity),
        fullgraph=True,
        backend=aot_autograd(fw_compiler=lambda g, _: make_boxed_func(g.forward), bw_compiler=keep),
    )
    out = compiled(*made)
    leaves = [t for t in made if t is not None]
    got = torch.autograd.grad(out, leaves, upstream)
    (graph,) = graphs
    calls = {str(n.target): n for n in graph.graph.nodes if n.op == "call_function"}
    pre = calls["mhc.pre_backward.default"]
    (post,) = [n for name, n in calls.items() if name.startswith("mhc.post_backward")]
    handed = pre.args[11]
    if identity:
        assert handed.op == "placeholder"  # the upstream gradient itself
        assert handed in post.args
    else:
        assert handed.args == (post, 0)
    adds = [
        n
        for n in graph.graph.nodes
        if "add" in str(n.target) and n.meta["val"].numel() >= T * N * D
    ]
    assert adds == []
    want = torch.autograd.grad(sublayer(*made, impl=impl, identity=identity), leaves, upstream)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=2**-7, atol=1e-3)


def test_eager_adds_nothing_either(impl):
    """The handed-on gradient is rounded once with the rest: an add beside it would round twice."""
    made, upstream = inputs(torch.bfloat16)
    seen = []
    from mhc_ops.ops.pre import dispatch

    real = dispatch.backward

    def spy(*args, **options):
        seen.append(args[11])
        return real(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "backward", spy)
        out = sublayer(*made, impl=impl)
        torch.autograd.grad(out, made, upstream)
    (handed,) = seen
    assert handed is not None
    logits = mhc_pre(*[t.detach() for t in made[:5]], impl=impl).h_res_logits
    want = torch.einsum("tij,tjd->tid", mix(logits).double(), upstream.double())
    torch.testing.assert_close(handed.double(), want, rtol=2**-7, atol=1e-6)
