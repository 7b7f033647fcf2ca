"""torch.compile, torch.export and the registered ops behind them; aot_eager as in pre's tests."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.flop_counter import FlopCounterMode

from mhc_ops import mhc_post_pre
from mhc_ops.ops.post_pre import dispatch
from mhc_ops.testing import make_post_pre_inputs

from ..pre.cases import assert_same_bits
from .cases import LEAVES, autograd, backward, backward_args, call, forward, leaves, weigh


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def operator(impl, **options):
    return lambda *args: call(dict(zip(LEAVES, args, strict=True)), impl, **options)


@pytest.mark.parametrize(
    ("form", "options"),
    [({}, {"num_iters": 5}), ({"batch": 2, "h_res": False, "residual": "none"}, {})],
    ids=str,
)
def test_full_graph_for_every_number_of_tokens(impl, form, options):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        operator(impl, **options), fullgraph=True, dynamic=True, backend=counter
    )
    frames = 0
    for tokens in (34, 12, 300):
        c = make_post_pre_inputs(tokens, 3, 20, **form)
        made = leaves(c)
        out = compiled(*made.values())
        outputs, upstream = weigh(out, c)
        given = {name: t for name, t in made.items() if t is not None}
        grads = torch.autograd.grad(outputs, list(given.values()), upstream)
        assert_same_bits(tuple(out), tuple(forward(impl, c, **options)[:4]))
        assert_same_bits(grads, tuple(autograd(impl, c, tuple(given), **options).values()))
        frames = frames or counter.frame_count
    assert counter.frame_count == frames


def test_inference_and_frozen_inputs(impl):
    compiled = torch.compile(operator(impl), fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (34, 0):
        c = make_post_pre_inputs(tokens, 3, 20)
        assert_same_bits(tuple(compiled(*leaves(c, ()).values())), tuple(forward(impl, c)[:4]))
        made = leaves(c, ("h_out",))
        outputs, upstream = weigh(compiled(*made.values()), c)
        (got,) = torch.autograd.grad(outputs, made["h_out"], upstream)
        assert_same_bits((got,), (backward(impl, c, forward(impl, c)).grad_h_out,))


class Block(torch.nn.Module):
    def __init__(self, c, impl):
        super().__init__()
        for name in ("phi", "alpha", "bias", "gamma", "out_bias"):
            self.register_parameter(name, torch.nn.Parameter(getattr(c, name)))
        self.impl = impl

    def forward(self, x, h_res, h_out, h_post):
        return tuple(
            mhc_post_pre(
                x, h_res, h_out, h_post, self.phi, self.alpha, self.bias, self.gamma,
                out_bias=self.out_bias, num_iters=3, impl=self.impl,
            )
        )  # fmt: skip


def test_export_with_dynamic_tokens(impl):
    c = make_post_pre_inputs(34, 3, 20)
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    program = torch.export.export(Block(c, impl), c[:4], dynamic_shapes=({0: tokens},) * 4)
    whole = make_post_pre_inputs(300, 3, 20)
    for count in (12, 300):
        other = whole.tokens(slice(0, count))
        want = forward(impl, other, num_iters=3)[:4]
        assert_same_bits(program.module()(*other[:4]), want)


def test_two_boundaries_add_nothing_large(impl):
    """The traced backward hands one boundary's grad_x to the other: no add of [T, N, D]."""
    tokens, n, d = 24, 4, 10
    c = make_post_pre_inputs(tokens, n, d, gamma=False, out_bias=False)
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    def two(x, h_res, h_out, h_post, phi, alpha, bias):
        parameters = (phi, alpha, bias)
        x, h_in, h_post, h_res = mhc_post_pre(
            x, h_res, h_out, h_post, *parameters, num_iters=3, impl=impl
        )
        return mhc_post_pre(x, h_res, torch.tanh(h_in), h_post, *parameters, num_iters=3, impl=impl)

    compiled = torch.compile(
        two,
        fullgraph=True,
        backend=aot_autograd(fw_compiler=lambda g, _: make_boxed_func(g.forward), bw_compiler=keep),
    )
    made = [t.clone().requires_grad_() for t in c[:7]]
    outputs, upstream = weigh(compiled(*made), c)
    got = torch.autograd.grad(outputs, made, upstream)
    (graph,) = graphs
    calls = [n for n in graph.graph.nodes if str(n.target) == "mhc.post_pre_backward.default"]
    assert len(calls) == 2
    assert calls[1].args[7].args == (calls[0], 0)
    large = [
        node
        for node in graph.graph.nodes
        if "add" in str(node.target) and node.meta["val"].numel() >= tokens * n * d
        and node.meta["val"].dim() == 3
    ]  # fmt: skip
    assert large == []
    outputs, upstream = weigh(two(*made), c)
    want = torch.autograd.grad(outputs, made, upstream)
    assert_same_bits(got, want)


def test_fake_and_meta_tensors(impl):
    for residual, options in (("matrix", {"num_iters": 3}), ("permutation", {}), ("none", {})):
        c = make_post_pre_inputs(6, 3, 10, batch=2, residual=residual)
        fwd = forward(impl, c, **options)
        real = (*fwd, *backward(impl, c, fwd, **options))
        with torch._subclasses.FakeTensorMode() as mode:
            faked = c.map(mode.from_tensor)
            fwd = forward(impl, faked, **options)
            fake = (*fwd, *backward(impl, faked, fwd, **options))
        for a, b in zip(fake, real, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
    meta = make_post_pre_inputs(6, 3, 10, device="meta")
    assert mhc_post_pre(*meta[:8]).x_next.shape == (6, 3, 10)


@pytest.mark.parametrize(
    ("dtype", "form", "options"),
    [
        (torch.bfloat16, {}, {"num_iters": 3}),
        (torch.float32, {"h_res": False, "out_bias": False, "gamma": False}, {}),
        (torch.float64, {"residual": "none"}, {}),
    ],
    ids=str,
)
def test_opcheck(impl, dtype, form, options):
    c = make_post_pre_inputs(4, 2, 5, dtype=dtype, **form)
    made = [t if t is None else t.clone().requires_grad_() for t in c[:9]]
    options = options | {"impl": impl}
    torch.library.opcheck(torch.ops.mhc.post_pre_forward.default, tuple(made), options)
    fwd = forward(**({"c": c} | options))
    args = (*backward_args(c, fwd), c.out_bias)
    args = tuple(t if t is None else t.clone().requires_grad_() for t in args)
    torch.library.opcheck(torch.ops.mhc.post_pre_backward.default, args, options)


def test_the_registered_ops_are_the_public_ones(impl):
    """An absent h_res and an unwanted gradient are empty tensors in the ops' results."""
    c = make_post_pre_inputs(6, 3, 10, residual="none", out_bias=False)
    public = forward(impl, c)
    raw = torch.ops.mhc.post_pre_forward(*c[:9], impl=impl)
    assert raw[3].numel() == 0
    assert_same_bits([t for i, t in enumerate(raw) if i != 3], [t for t in public if t is not None])
    grads = torch.ops.mhc.post_pre_backward(*backward_args(c, public), impl=impl)
    assert grads[4].numel() == 0
    want = backward(impl, c, public)
    assert_same_bits([*grads[:4], *grads[5:]], [*want[:4], *want[5:]])


def test_the_registered_op_differentiates_without_its_trailing_defaults(impl):
    """The dispatcher drops them, and autograd sees fewer inputs."""
    c = make_post_pre_inputs(6, 3, 10, gamma=False, out_bias=False)
    made = [t.clone().requires_grad_() for t in c[:7]]
    raw = torch.ops.mhc.post_pre_forward(*made)
    upstream = (c.grad_x_next, c.grad_h_in, c.grad_h_post_next, c.grad_h_res_next)
    got = torch.autograd.grad(raw[:4], made, upstream)
    want = autograd("auto", c, ("x", "h_res", "h_out", "h_post", "phi", "alpha", "bias"))
    assert_same_bits(got, tuple(want.values()))


def test_small_calls_without_gradients_bypass_the_dispatcher(impl, monkeypatch):
    seen = []
    real = dispatch.forward
    monkeypatch.setattr(dispatch, "forward", lambda *a, **k: seen.append(1) or real(*a, **k))
    c = make_post_pre_inputs(2, 3, 4)

    def refuse(*args, **kwargs):
        raise AssertionError("went through the dispatcher")

    monkeypatch.setattr(torch.ops.mhc, "post_pre_forward", refuse)
    monkeypatch.setattr(torch.ops.mhc, "post_pre_backward", refuse)
    mhc_post_pre(*c[:8], impl=impl)
    backward(impl, c, forward(impl, c))
    assert len(seen) == 2


def test_flops_are_counted_by_formula(impl):
    """2*T*N*N*D for h_res and x, 2*T*F*N*D for the projection; each twice in the backward."""
    c = make_post_pre_inputs(10, 4, 16)
    mixing, projection = 2 * 10 * 4 * 4 * 16, 2 * 10 * 24 * 64

    def count(run):
        with FlopCounterMode(display=False) as counter:
            run()
        return counter.get_total_flops()

    assert count(lambda: forward(impl, c)) == mixing + projection
    fwd = forward(impl, c)
    assert count(lambda: backward(impl, c, fwd)) == 2 * (mixing + projection)
    assert count(lambda: backward(impl, c, fwd, wanted=("phi",))) == projection
    assert count(lambda: backward(impl, c, fwd, wanted=("h_out",))) == projection
    assert count(lambda: backward(impl, c, fwd, wanted=("x",))) == mixing + projection
