"""torch.compile, torch.export and the registered ops behind them."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from mhc_ops import sinkhorn, sinkhorn_backward, sinkhorn_forward

from ..pre.cases import assert_same_bits
from .cases import make

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def step(fn, logits, grad):
    leaf = logits.clone().requires_grad_()
    found = fn(leaf)
    return (*found, *torch.autograd.grad(found.h_res, leaf, grad))


@pytest.mark.parametrize("lead", [1, 2])
def test_full_graph_for_every_number_of_tokens(impl, lead):
    def fn(z):
        return sinkhorn(z, return_defect=True, impl=impl)

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(fn, fullgraph=True, dynamic=True, backend=counter)
    graphs = 0
    for tokens in (34, 12, 300):
        logits, grad = (t.view(*(2, -1)[2 - lead :], 3, 3) for t in make(tokens, 3))
        assert_same_bits(step(compiled, logits, grad), step(fn, logits, grad))
        graphs = counter.frame_count if tokens == 34 else graphs
    assert counter.frame_count == graphs
    for tokens in (1, 0):
        logits, grad = make(tokens, 3)
        assert_same_bits(step(compiled, logits, grad), step(fn, logits, grad))


def test_inference_compiles_too(impl):
    compiled = torch.compile(
        lambda z: 2 * sinkhorn(2 * z, impl=impl), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    logits, _ = make(9, 4)
    with torch.no_grad():
        assert_same_bits((compiled(logits),), (2 * sinkhorn(2 * logits, impl=impl),))


def test_export_with_dynamic_tokens(impl):
    class Block(torch.nn.Module):
        def forward(self, z):
            return sinkhorn(z, num_iters=5, order="rows_last", impl=impl)

    tokens = torch.export.Dim("tokens", min=2, max=4096)
    program = torch.export.export(Block(), (make(34, 4)[0],), dynamic_shapes=({0: tokens},))
    for count in (12, 300):
        logits, _ = make(count, 4)
        assert_same_bits((program.module()(logits),), (Block()(logits),))


def test_fake_and_meta_tensors(impl):
    logits, _ = make(6, 3)
    real = sinkhorn(logits, return_defect=True, impl=impl)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = sinkhorn(mode.from_tensor(logits), return_defect=True, impl=impl)
    for a, b in zip(fake, real, strict=True):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
    assert sinkhorn(logits.to("meta")).device.type == "meta"


def test_opcheck(impl):
    logits, grad = (t.requires_grad_() for t in make(4, 3))
    options = {"num_iters": 2, "impl": impl}
    torch.library.opcheck(
        torch.ops.mhc.sinkhorn_forward.default, (logits,), {"return_defect": True, **options}
    )
    torch.library.opcheck(torch.ops.mhc.sinkhorn_backward.default, (logits, grad), options)


def test_the_registered_ops_are_the_public_ones(impl):
    logits, grad = make(6, 3)
    h_res, row_defect, column_defect = torch.ops.mhc.sinkhorn_forward(logits, impl=impl)
    assert row_defect.numel() == column_defect.numel() == 0
    assert_same_bits((h_res,), (sinkhorn_forward(logits, impl=impl).h_res,))
    got = torch.ops.mhc.sinkhorn_backward(logits, grad, impl=impl)
    assert_same_bits((got,), (sinkhorn_backward(logits, grad, impl=impl),))
