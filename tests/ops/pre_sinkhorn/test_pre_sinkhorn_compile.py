"""torch.compile, torch.export and the registered ops behind them; a whole sublayer in one graph."""

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch._functorch.aot_autograd import make_boxed_func

from mhc_ops import Convention, mhc_post, mhc_pre_sinkhorn
from mhc_ops.testing import make_pre_inputs

from ..pre.cases import LEAVES, assert_same_bits, leaves
from .cases import OTHER, autograd, backward, backward_args, chain, forward, fused, saved

# Dynamo instantiates torch.autograd.Function while it traces one.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_full_graph_for_every_number_of_tokens(impl, layout):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(fused(impl, **OTHER), fullgraph=True, dynamic=True, backend=counter)
    at_first = 0
    for tokens in (34, 12, 300):
        c = make_pre_inputs(tokens, 3, 20, layout=layout)
        want = fused(impl, **OTHER)
        assert_same_bits(tuple(compiled(*leaves(c).values())), tuple(want(*c.forward_args)))
        got = autograd(compiled, c)
        assert_same_bits(tuple(got.values()), tuple(autograd(want, c).values()))
        at_first = counter.frame_count if tokens == 34 else at_first
    assert counter.frame_count == at_first


def test_marked_tokens_do_not_recompile(impl):
    """No input needs gradients here, while gradients are enabled: plain inference."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(fused(impl), fullgraph=True, backend=counter)
    for tokens in (34, 12, 300):
        c = make_pre_inputs(tokens, 3, 20)
        args = list(c.forward_args)
        torch._dynamo.mark_dynamic(args[0], 0)
        assert_same_bits(tuple(compiled(*args)), tuple(fused(impl)(*c.forward_args)))
    assert counter.frame_count == 1


def test_one_token_none_and_a_convention(impl):
    theirs = Convention.liger()
    run = fused(impl, convention=theirs)
    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (1, 0):
        c = make_pre_inputs(tokens, 3, 20)
        want = tuple(autograd(run, c).values())
        assert_same_bits(tuple(autograd(compiled, c).values()), want)


@pytest.mark.parametrize("used", ["h_in", "h_res"])
def test_one_output_and_frozen_inputs_in_a_graph(impl, used):
    c = make_pre_inputs(33, 3, 20)
    upstream = c.grad_h_in if used == "h_in" else c.grad_h_res

    def gradients(run):
        made = leaves(c, ("x", "gamma"))
        out = getattr(run(*made.values()), used)
        return torch.autograd.grad(out, [made["x"], made["gamma"]], upstream)

    compiled = torch.compile(fused(impl), fullgraph=True, dynamic=True, backend="aot_eager")
    assert_same_bits(gradients(compiled), gradients(fused(impl)))


class Block(torch.nn.Module):
    def __init__(self, c, impl):
        super().__init__()
        for name in LEAVES[1:]:
            self.register_parameter(name, torch.nn.Parameter(getattr(c, name)))
        self.impl = impl

    def forward(self, x):
        out = mhc_pre_sinkhorn(x, self.phi, self.alpha, self.bias, self.gamma, impl=self.impl)
        return out.h_in, out.h_post, out.h_res


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_export_with_dynamic_tokens(impl, layout):
    c = make_pre_inputs(34, 3, 20, layout=layout)
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    shapes = ({1 if layout == "BSND" else 0: tokens},)
    program = torch.export.export(Block(c, impl), (c.x,), dynamic_shapes=shapes)
    for count in (12, 300):
        other = make_pre_inputs(count, 3, 20, layout=layout)
        want = forward(impl, other._replace(phi=c.phi, bias=c.bias, gamma=c.gamma))
        assert_same_bits(tuple(program.module()(other.x)), want[:3])


def test_fake_and_meta_tensors_have_the_shapes_of_real_ones(impl):
    c = make_pre_inputs(6, 3, 10, layout="BSND")
    real = mhc_pre_sinkhorn(*c.forward_args, impl=impl)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = mhc_pre_sinkhorn(*c.map(mode.from_tensor).forward_args, impl=impl)
    for a, b in zip(fake, real, strict=True):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
    meta = mhc_pre_sinkhorn(*make_pre_inputs(6, 3, 10, device="meta").forward_args)
    assert (meta.h_res.device.type, meta.h_res.shape) == ("meta", (6, 3, 3))


@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_opcheck(impl, dtype, gamma):
    c = make_pre_inputs(4, 2, 5, dtype=dtype, gamma=gamma)
    ops = torch.ops.mhc
    options = {"impl": impl, "num_iters": 3}
    torch.library.opcheck(ops.pre_sinkhorn_forward.default, tuple(leaves(c).values()), options)
    args = [t if t is None else t.clone().requires_grad_() for t in backward_args(c, saved(c))]
    torch.library.opcheck(ops.pre_sinkhorn_backward.default, tuple(args), options)


def test_the_registered_ops_are_the_public_ones(impl):
    """The bare operators record gradients too; an unwanted gradient is an empty tensor there."""
    c = make_pre_inputs(6, 3, 10, gamma=False)
    public = forward(impl, c)
    assert_same_bits(torch.ops.mhc.pre_sinkhorn_forward(*c.forward_args, impl=impl), public)
    made = leaves(c)
    recorded = forward(impl, c._replace(**made))
    assert_same_bits([t.detach() for t in recorded], public)
    grads = torch.ops.mhc.pre_sinkhorn_backward(*backward_args(c, public), impl=impl)
    assert grads[4].numel() == 0
    bare = backward(impl, c, public)
    assert_same_bits(grads[:4], bare[:4])
    upstream = (c.grad_h_in, c.grad_h_post, c.grad_h_res)
    given = [t for t in made.values() if t is not None]
    alone = backward(impl, c._replace(grad_x_post=None), public)
    assert_same_bits(torch.autograd.grad(recorded[:3], given, upstream), alone[:4])


T, N, D = 24, 4, 10


def sublayer(run, x, phi, alpha, bias, weight, out_bias, impl):
    h_in, h_post, h_res, x = run(x, phi, alpha, bias, impl=impl)
    return mhc_post(x, h_res, h_in @ weight.T, h_post, bias=out_bias, impl=impl)


def sublayer_inputs():
    """x, phi, alpha, bias, the linear layer's weight and bias; the upstream gradient."""
    c = make_pre_inputs(T, N, D, gamma=False)
    generator = torch.Generator().manual_seed(9)
    weight = (torch.randn(D, D, generator=generator) / D**0.5).to(c.x.dtype)
    made = [*c.forward_args[:4], weight, torch.randn(D, generator=generator)]
    return [t.clone().requires_grad_() for t in made], c.grad_x_post


def test_a_sublayers_residual_gradient_meets_no_separate_add(impl):
    """One graph each way: post's grad_x goes into pre_sinkhorn's backward, nothing adds [T, N, D].

    And eager does the same: the bits are those of the unfused chain, which rounds grad_x once.
    """
    made, upstream = sublayer_inputs()
    graphs = {"forward": [], "backward": []}

    def keep(which):
        def compiler(graph, _):
            graphs[which].append(graph)
            return make_boxed_func(graph.forward)

        return compiler

    compiled = torch.compile(
        lambda *a: sublayer(mhc_pre_sinkhorn, *a, impl),
        fullgraph=True,
        backend=aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward")),
    )
    out = compiled(*made)
    got = torch.autograd.grad(out, made, upstream)
    (first,), (graph,) = graphs["forward"], graphs["backward"]
    assert [str(n.target) for n in first.graph.nodes if "mhc." in str(n.target)] == [
        "mhc.pre_sinkhorn_forward.default",
        "mhc.post_forward.default",
    ]
    calls = {str(n.target): n for n in graph.graph.nodes if n.op == "call_function"}
    ours = [name for name in calls if name.startswith("mhc.")]
    assert ours == ["mhc.post_backward.default", "mhc.pre_sinkhorn_backward.default"]
    post, pre = (calls[name] for name in ours)
    assert pre.args[12].args == (post, 0)  # grad_x_post
    adds = [
        n
        for n in graph.graph.nodes
        if "add" in str(n.target) and n.meta["val"].numel() >= T * N * D
    ]
    assert adds == []
    for run in (mhc_pre_sinkhorn, chain):
        eager = sublayer(run, *made, impl)
        assert_same_bits((out,), (eager,))
        assert_same_bits(got, torch.autograd.grad(eager, made, upstream))
