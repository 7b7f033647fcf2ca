"""torch.compile, torch.export and the registered ops behind them.

aot_eager runs the whole tracing and partitioning without generating code, so it covers everything
of ours that compilation touches; one inductor case shows that generated code calls the op.
"""

import shutil

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from mhc_ops import mhc_pre
from mhc_ops.testing import make_pre_inputs

from .cases import (
    LEAVES,
    assert_same_bits,
    autograd,
    backward,
    backward_args,
    forward,
    leaves,
    saved,
    weigh,
)

# Dynamo instantiates torch.autograd.Function while it traces one, and inductor still uses
# torch.jit: neither is ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def step(compiled, c):
    """Outputs and gradients of one training step through a compiled function."""
    made = leaves(c)
    out = compiled(*made.values())
    outputs, upstream = weigh(out, c)
    grads = torch.autograd.grad(outputs, [t for t in made.values() if t is not None], upstream)
    return out, grads


@pytest.mark.parametrize("residual", ["matrix", "none"])
@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_full_graph_for_every_number_of_tokens(impl, residual, layout):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda *a: mhc_pre(*a, impl=impl), fullgraph=True, dynamic=True, backend=counter
    )
    compiled_at_first = 0
    for tokens in (34, 12, 300):
        c = make_pre_inputs(tokens, 3, 20, residual=residual, layout=layout)
        out, grads = step(compiled, c)
        want = mhc_pre(*c.forward_args, impl=impl)
        assert_same_bits(tuple(out), tuple(want))
        assert_same_bits(grads, tuple(autograd(impl, c).values()))
        compiled_at_first = counter.frame_count if tokens == 34 else compiled_at_first
    assert counter.frame_count == compiled_at_first


def test_marked_tokens_do_not_recompile(impl):
    """No input needs gradients here, while gradients are enabled: plain inference."""
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda *a: mhc_pre(*a, impl=impl), fullgraph=True, backend=counter)
    for tokens in (34, 12, 300):
        c = make_pre_inputs(tokens, 3, 20)
        args = list(c.forward_args)
        torch._dynamo.mark_dynamic(args[0], 0)
        assert_same_bits(tuple(compiled(*args)), tuple(mhc_pre(*c.forward_args, impl=impl)))
    assert counter.frame_count == 1


def test_one_token_and_none(impl):
    compiled = torch.compile(
        lambda *a: mhc_pre(*a, impl=impl), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for tokens in (1, 0):
        c = make_pre_inputs(tokens, 3, 20)
        _, grads = step(compiled, c)
        assert_same_bits(grads, tuple(autograd(impl, c).values()))


def test_surrounding_operations_join_the_graph(impl):
    """A residual block around the operator: one graph, and the handed-on gradient in it."""
    c = make_pre_inputs(33, 4, 24, dtype=torch.float32)

    def block(x, *parameters):
        h_in, h_post, _, x = mhc_pre(x * 2, *parameters, impl=impl)
        return x + h_post[..., None] * torch.tanh(h_in)[..., None, :]

    def grads(fn):
        made = list(leaves(c).values())
        return torch.autograd.grad(fn(*made).square().sum(), made)

    got = grads(torch.compile(block, fullgraph=True, backend="aot_eager"))
    for name, a, b in zip(LEAVES, got, grads(block), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, msg=name)


@pytest.mark.parametrize("needed", [("x",), ("alpha", "gamma")], ids=str)
def test_frozen_inputs_get_no_gradient_in_a_graph_either(impl, needed):
    c = make_pre_inputs(33, 3, 20)
    compiled = torch.compile(
        lambda *a: mhc_pre(*a, impl=impl), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    made = leaves(c, needed)
    out = compiled(*made.values())
    got = torch.autograd.grad(out.h_in, [made[name] for name in needed], c.grad_h_in)
    made = leaves(c, needed)
    out = mhc_pre(**made, impl=impl)
    want = torch.autograd.grad(out.h_in, [made[name] for name in needed], c.grad_h_in)
    assert_same_bits(got, want)


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler on a CPU")
def test_inductor():
    compiled = torch.compile(
        lambda *a: mhc_pre(*a, impl="torch"), fullgraph=True, dynamic=True, backend="inductor"
    )
    for tokens in (34, 12):
        c = make_pre_inputs(tokens, 4, 24)
        out, grads = step(compiled, c)
        assert_same_bits(tuple(out), tuple(mhc_pre(*c.forward_args, impl="torch")))
        assert_same_bits(grads, tuple(autograd("torch", c).values()))


class Block(torch.nn.Module):
    def __init__(self, c, impl):
        super().__init__()
        for name in ("phi", "alpha", "bias", "gamma"):
            self.register_parameter(name, torch.nn.Parameter(getattr(c, name)))
        self.impl = impl

    def forward(self, x):
        out = mhc_pre(x, self.phi, self.alpha, self.bias, self.gamma, impl=self.impl)
        return out.h_in, out.h_post, out.h_res_logits


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_export_with_dynamic_tokens(impl, layout):
    c = make_pre_inputs(34, 3, 20, layout=layout)
    block = Block(c, impl)
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    shapes = ({1 if layout == "BSND" else 0: tokens},)
    program = torch.export.export(block, (c.x,), dynamic_shapes=shapes)
    for count in (12, 300):
        other = make_pre_inputs(count, 3, 20, layout=layout)
        want = forward(impl, other._replace(phi=c.phi, bias=c.bias, gamma=c.gamma))
        got = program.module()(other.x)
        assert_same_bits(tuple(got), (want.h_in, want.h_post, want.h_res))


def test_fake_tensors_have_the_shapes_and_dtypes_of_real_ones(impl):
    for residual in ("matrix", "permutation", "none"):
        c = make_pre_inputs(6, 3, 10, residual=residual, layout="BSND")
        real = mhc_pre(*c.forward_args, impl=impl)
        with torch._subclasses.FakeTensorMode() as mode:
            faked = c.map(mode.from_tensor)
            fake = mhc_pre(*faked.forward_args, impl=impl)
        for a, b in zip(fake, real, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())


def test_meta_tensors_pass_through():
    c = make_pre_inputs(6, 3, 10, device="meta")
    out = mhc_pre(*c.forward_args)
    assert out.h_in.device.type == "meta"
    assert out.h_res_logits.shape == (6, 3, 3)


# "auto" ends in one of the named implementations; opcheck calls the op a dozen times a case.
@pytest.mark.parametrize("residual", ["matrix", "none"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_opcheck(impl, dtype, residual):
    c = make_pre_inputs(4, 2, 5, residual=residual, dtype=dtype, gamma=residual == "matrix")
    made = leaves(c)
    torch.library.opcheck(torch.ops.mhc.pre_forward.default, tuple(made.values()), {"impl": impl})
    fwd = saved(c)
    args = [t if t is None else t.clone().requires_grad_() for t in backward_args(c, fwd)]
    torch.library.opcheck(torch.ops.mhc.pre_backward.default, tuple(args), {"impl": impl})


def test_the_registered_ops_are_the_public_ones(impl):
    """An absent h_res and an unwanted gradient are empty tensors in the ops' results."""
    c = make_pre_inputs(6, 3, 10, residual="none", gamma=False)
    public = forward(impl, c)
    raw = torch.ops.mhc.pre_forward(*c.forward_args, impl=impl)
    assert raw[2].numel() == 0
    assert_same_bits([t for i, t in enumerate(raw) if i != 2], [t for t in public if t is not None])
    grads = torch.ops.mhc.pre_backward(*backward_args(c, public), impl=impl)
    assert grads[4].numel() == 0
    assert_same_bits(grads[:4], backward(impl, c, public)[:4])
