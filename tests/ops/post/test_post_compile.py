"""torch.compile, torch.export and the registered ops behind them; aot_eager as in pre's tests."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.flop_counter import FlopCounterMode

from mhc_ops import mhc_post
from mhc_ops.testing import make_post_inputs

from ..pre.cases import assert_same_bits
from .cases import autograd, backward, forward, leaves


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def operator(impl):
    return lambda x, h_res, h_out, h_post, bias: mhc_post(
        x, h_res, h_out, h_post, bias=bias, impl=impl
    )


@pytest.mark.parametrize(("batch", "h_res", "bias"), [(None, True, True), (2, False, False)])
def test_full_graph_for_every_number_of_tokens(impl, batch, h_res, bias):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(operator(impl), fullgraph=True, dynamic=True, backend=counter)
    for tokens in (34, 12, 300):
        c = make_post_inputs(tokens, 3, 20, h_res=h_res, bias=bias, batch=batch)
        made = leaves(c)
        out = compiled(*made.values())
        grads = torch.autograd.grad(out, [t for t in made.values() if t is not None], c.grad_out)
        assert_same_bits((out,), (forward(impl, c),))
        names = [name for name, t in made.items() if t is not None]
        assert_same_bits(grads, tuple(autograd(impl, c, names).values()))
    assert counter.frame_count == 1


def test_inference_and_frozen_inputs(impl):
    compiled = torch.compile(operator(impl), fullgraph=True, dynamic=True, backend="aot_eager")
    for tokens in (34, 0):
        c = make_post_inputs(tokens, 3, 20)
        assert_same_bits((compiled(*c[:5]),), (forward(impl, c),))
        made = leaves(c, ("h_out",))
        out = compiled(*made.values())
        (got,) = torch.autograd.grad(out, made["h_out"], c.grad_out)
        assert_same_bits((got,), (backward(impl, c).grad_h_out,))


@pytest.mark.parametrize("h_res", [True, False])
def test_arguments_left_at_their_defaults(h_res):
    """The dispatcher drops them from a traced call, and with them their place in the gradients."""
    c = make_post_inputs(34, 3, 20, h_res=h_res, bias=False)
    made = leaves(c)
    compiled = torch.compile(mhc_post, fullgraph=True, backend="aot_eager")
    out = compiled(*(made[name] for name in ("x", "h_res", "h_out", "h_post")))
    names = [name for name, t in made.items() if t is not None]
    grads = torch.autograd.grad(out, [made[name] for name in names], c.grad_out)
    assert_same_bits(grads, tuple(autograd("auto", c, names).values()))


class Block(torch.nn.Module):
    def __init__(self, impl):
        super().__init__()
        self.bias = torch.nn.Parameter(make_post_inputs(1, 3, 20).bias)
        self.impl = impl

    def forward(self, x, h_res, h_out, h_post):
        return mhc_post(x, h_res, h_out, h_post, bias=self.bias, impl=self.impl)


def test_export_with_dynamic_tokens(impl):
    block = Block(impl)
    tokens = torch.export.Dim("tokens", min=2, max=4096)
    c = make_post_inputs(34, 3, 20)
    program = torch.export.export(block, c[:4], dynamic_shapes=({0: tokens},) * 4)
    for count in (12, 300):
        other = make_post_inputs(count, 3, 20)._replace(bias=block.bias.detach())
        assert_same_bits((program.module()(*other[:4]),), (forward(impl, other),))


def test_fake_and_meta_tensors(impl):
    for h_res in (True, False):
        c = make_post_inputs(6, 3, 10, batch=2, h_res=h_res)
        real = (forward(impl, c), *backward(impl, c))
        with torch._subclasses.FakeTensorMode() as mode:
            faked = c.map(mode.from_tensor)
            fake = (forward(impl, faked), *backward(impl, faked))
        for a, b in zip(fake, real, strict=True):
            assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
    meta = make_post_inputs(6, 3, 10, device="meta")
    assert mhc_post(*meta.forward_args).shape == (6, 3, 10)


@pytest.mark.parametrize(
    ("dtype", "h_res", "bias"), [(torch.bfloat16, True, True), (torch.float32, False, False)]
)
def test_opcheck(impl, dtype, h_res, bias):
    c = make_post_inputs(4, 2, 5, dtype=dtype, h_res=h_res, bias=bias)
    torch.library.opcheck(
        torch.ops.mhc.post_forward.default, tuple(leaves(c).values()), {"impl": impl}
    )
    args = tuple(t if t is None else t.clone().requires_grad_() for t in c.backward_args)
    torch.library.opcheck(torch.ops.mhc.post_backward.default, args, {"impl": impl})


def test_the_registered_ops_are_the_public_ones(impl):
    """An unwanted gradient is an empty tensor in the op's result."""
    c = make_post_inputs(6, 3, 10, bias=False)
    raw = torch.ops.mhc.post_forward(*c[:5], impl=impl)
    assert_same_bits((raw,), (forward(impl, c),))
    grads = torch.ops.mhc.post_backward(*c.backward_args, impl=impl)
    assert grads[4].numel() == 0
    assert_same_bits(grads[:4], backward(impl, c)[:4])


def test_flops_are_counted_by_formula(impl):
    """2*T*N*N*D for h_res and x; backward one such product for x and one for h_res."""
    c = make_post_inputs(10, 4, 16)
    product = 2 * 10 * 4 * 4 * 16

    def count(run):
        with FlopCounterMode(display=False) as counter:
            run()
        return counter.get_total_flops()

    assert count(lambda: forward(impl, c)) == product
    assert count(lambda: backward(impl, c)) == 2 * product
    assert count(lambda: backward(impl, c, wanted=("grad_x", "grad_h_out"))) == product
    bare = c._replace(h_res=None)
    assert count(lambda: forward(impl, bare)) == 0
    assert count(lambda: backward(impl, bare, wanted=("grad_x",))) == 0
