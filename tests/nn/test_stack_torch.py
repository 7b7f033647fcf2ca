"""The stack's memory, and the stack under torch's checkpoint, torch.compile and FSDP."""

import shutil
from collections import Counter

import pytest
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from mhc_ops.nn import HyperConnectionStack

from .test_stack import OPTIONS, draw, make, same_bits, with_weights
from .unfused import gradients, upstream_of

TOKENS, STREAMS, DIM, SUBLAYERS = 6, 4, 1024, 8


class Doubling(nn.Module):
    """A sublayer that saves nothing."""

    def forward(self, h):
        return 2 * h


def saved_storages(run):
    """The memory that autograd keeps for the backward of run(): storage address -> bytes."""
    kept = {}

    def pack(t):
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        holders.append(t)  # no address is given to another tensor meanwhile
        return t

    holders = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        run()
    return kept


@pytest.mark.parametrize("options", [{}, {"residual": "lite"}, {"residual": "identity"}])
@pytest.mark.parametrize("k", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_saved_bytes(dtype, k, options):
    """A sublayer saves D + N*D/k numbers a token in x's dtype, and few float32 ones a token."""
    stack = HyperConnectionStack(
        [Doubling() for _ in range(SUBLAYERS)], DIM, STREAMS, recompute_every=k, **options
    )
    x = draw(TOKENS, STREAMS, DIM, dtype=dtype)
    kept = saved_storages(lambda: stack(x))
    for p in stack.parameters():
        kept.pop(p.untyped_storage().data_ptr(), None)
    size = TOKENS * DIM * dtype.itemsize
    count = Counter(kept.values())
    assert count[STREAMS * size] == SUBLAYERS // k
    assert count[size] == SUBLAYERS
    rows = len(stack.connections[0].phi)
    # h_mix [F], h_pre and h_post [N], inv_rms, h_res and the logits behind it.
    most = 4 * TOKENS * (rows + 2 * STREAMS + 1 + 2 * max(rows - 2 * STREAMS, STREAMS**2))
    others = sum(kept.values()) - SUBLAYERS * size - SUBLAYERS // k * STREAMS * size
    assert 0 < others <= SUBLAYERS * most


def test_the_shelves_are_empty_after_the_backward(monkeypatch):
    shelves = []
    segment = HyperConnectionStack.forward.__globals__["Segment"]

    class Watched(segment):
        def __init__(self, *args):
            super().__init__(*args)
            shelves.append(self.rebuilt)

    monkeypatch.setitem(HyperConnectionStack.forward.__globals__, "Segment", Watched)
    stack, x = make(3, 8), draw(6, 4, 8, dtype=torch.float32)
    out = stack(x)
    assert len(shelves) == 3
    out.backward(torch.ones_like(out))
    assert not any(shelves)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_inside_a_checkpoint(options, k):
    x = draw(6, 4, 8, dtype=torch.float32)
    plain, stack = make(1, 7, dropout=0.2, **options), make(k, 7, dropout=0.2, **options)
    torch.manual_seed(1)
    want = plain(x)
    torch.manual_seed(1)
    got = checkpoint(stack, x, use_reentrant=False)
    assert torch.equal(got, want)
    same_bits(gradients(got, stack, x), gradients(want, plain, x))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("k", [1, 2])
def test_a_checkpoint_in_a_compiled_graph(k):
    stack, x = make(k), draw(6, 4, 8, dtype=torch.float32)
    run = torch.compile(
        lambda x: checkpoint(stack, x, use_reentrant=False), fullgraph=True, backend="aot_eager"
    )
    got, want = run(x), stack(x)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 2])
def test_a_reentrant_checkpoint_draws_the_same_dropout(k):
    stack, x = make(k, dropout=0.2), draw(6, 4, 8, dtype=torch.float32)
    torch.manual_seed(1)
    want = stack(x)
    wanted = gradients(want, stack, x)
    torch.manual_seed(1)
    got = checkpoint(stack, x, use_reentrant=True)
    assert torch.equal(got, want)
    before = torch.get_rng_state()
    got.backward(upstream_of(got))
    assert torch.equal(torch.get_rng_state(), before)
    same_bits([p.grad for p in (x, *stack.parameters())], wanted)


@pytest.mark.usefixtures("fresh_dynamo")
def test_autocast_in_a_compiled_graph():
    """A sublayer in bfloat16 beside streams in float32, which stay so."""
    stack, x = make(2), draw(6, 4, 8, dtype=torch.float32)
    compiled = torch.compile(stack, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        got, want = compiled(x), stack(x)
    assert got.dtype == torch.float32
    assert not torch.equal(want, stack(x))
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("way", ["drawn anew", "assigned"])
def test_a_stack_made_on_the_meta_device(way):
    with torch.device("meta"):
        stack = HyperConnectionStack([nn.Linear(8, 8) for _ in range(5)], 8, 4, recompute_every=2)
        assert stack(torch.empty(3, 4, 8)).shape == (3, 4, 8)
    if way == "assigned":
        filled = HyperConnectionStack([nn.Linear(8, 8) for _ in range(5)], 8, 4)
        stack.load_state_dict(filled.state_dict(), strict=True, assign=True)
    else:
        stack.to_empty(device="cpu")
        for module in stack.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        filled = HyperConnectionStack(stack.sublayers, connections=stack.connections)
    x = draw(6, 4, 8, dtype=torch.float32)
    same_bits(gradients(stack(x), stack, x), gradients(filled(x), filled, x))


@pytest.mark.parametrize("k", [1, 3])
def test_around_checkpoints(k):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, h):
            return checkpoint(lambda h: torch.tanh(self.linear(h)), h, use_reentrant=False)

    x, plain = draw(6, 4, 8, dtype=torch.float32), make(1)
    stack = HyperConnectionStack([Checkpointed() for _ in range(5)], 8, 4, recompute_every=k)
    stack.load_state_dict(plain.state_dict())
    same_bits(gradients(stack(x), stack, x), gradients(plain(x), plain, x))


def graphs(found):
    """A backend that runs the graphs as they are and counts operators and saved shapes."""

    def keep(name):
        def compiler(graph, _):
            found[name] = graph
            return make_boxed_func(graph.forward)

        return compiler

    return aot_autograd(
        fw_compiler=keep("forward"),
        bw_compiler=keep("backward"),
        partition_fn=min_cut_rematerialization_partition,
    )


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_compiled_graphs_keep_and_rebuild_as_eager_does(k):
    stack = make(k, SUBLAYERS, DIM)
    x = draw(TOKENS, STREAMS, DIM, dtype=torch.float32)
    found = {}
    compiled = torch.compile(stack, fullgraph=True, backend=graphs(found))
    got, want = compiled(x), stack(x)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    (outputs,) = (n for n in found["forward"].graph.nodes if n.op == "output")
    values = [n.meta["val"] for n in outputs.args[0] if n is not None]
    streams = [v for v in values if tuple(v.shape) == (TOKENS, STREAMS, DIM)]
    assert len(streams) == SUBLAYERS // k + 1  # and the result
    calls = Counter(str(n.target) for n in found["backward"].graph.nodes)
    assert calls["mhc.post_again.default"] == SUBLAYERS - SUBLAYERS // k
    assert calls["mhc.post_forward.default"] == 0


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("name", "k"), [("plain", 1), ("gamma", 2), ("lite", 2), ("identity", 2), ("megatron", 2)]
)
def test_one_graph_for_every_number_of_tokens(name, k):
    stack = make(k, 3, **OPTIONS[name])
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(stack, fullgraph=True, dynamic=True, backend=counter)
    frames = []
    for tokens in (6, 17, 300):
        x = draw(tokens, 4, 8, dtype=torch.float32)
        got, want = compiled(x), stack(x)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
        for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)
        frames.append(counter.frame_count)
    assert frames[1:] == frames[:1] * 2
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_compiled_loss_on_the_way():
    x = draw(6, 4, 8, dtype=torch.float32)
    stack = with_weights(5)
    compiled = torch.compile(lambda x: stack(x)[1][3][0], fullgraph=True, backend="aot_eager")
    inputs = [x, stack.connections[0].phi, stack.sublayers[0].linear.weight]
    upstream = draw(6, 8, dtype=torch.float32, seed=9).detach()
    got = torch.autograd.grad(compiled(x), inputs, upstream)
    want = torch.autograd.grad(stack(x)[1][3][0], inputs, upstream)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize("k", [1, 2])
def test_inductor(k):
    stack, x = make(k, 2), draw(6, 4, 8, dtype=torch.float32)
    compiled = torch.compile(stack, fullgraph=True)
    got, want = compiled(x), stack(x)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    for a, b in zip(gradients(got, stack, x), gradients(want, stack, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 3])
def test_export(k):
    stack, x = make(k), draw(6, 4, 8, dtype=torch.float32).detach()
    exported = torch.export.export(stack, (x,))
    torch.testing.assert_close(exported.module()(x), stack(x), rtol=1e-5, atol=1e-5)


def test_fsdp_shards_the_connections_without_a_policy(one_rank):
    """docs/nn.md: sublayers first, with a policy; then the stack, whose rest is the connections."""
    plain = make(1, dtype=torch.bfloat16)
    stack = make(2)
    for sublayer in stack.sublayers:
        fully_shard(sublayer, mesh=one_rank, mp_policy=MixedPrecisionPolicy(torch.bfloat16))
    fully_shard(stack, mesh=one_rank, mp_policy=MixedPrecisionPolicy())
    x = draw(6, 4, 8, dtype=torch.bfloat16)
    got, want = stack(x), plain(x)
    assert torch.equal(got, want)
    upstream = draw(6, 4, 8, dtype=torch.bfloat16, seed=3).detach()
    got.backward(upstream)
    want.backward(upstream)
    for (name, p), q in zip(stack.named_parameters(), plain.parameters(), strict=True):
        assert torch.equal(p.grad.full_tensor(), q.grad.float()), name
