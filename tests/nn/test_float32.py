"""Parameters stay float32 under every way of casting a model, unless asked."""

import copy

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from mhc_ops.errors import DtypeError
from mhc_ops.nn import HyperConnection, StreamHead

from .unfused import disturb


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.hc = HyperConnection(8, 4, gamma=True, out_bias=True)
        self.mlp = nn.Linear(8, 8)
        self.head = StreamHead(8, 4)

    def forward(self, x):
        return self.head(self.hc(x, self.mlp))


def ours(model):
    return {n: p for n, p in model.named_parameters() if not n.startswith("mlp")}


CASTS = {
    "bfloat16": lambda m: m.bfloat16(),
    "half": lambda m: m.half(),
    "to": lambda m: m.to(torch.bfloat16),
    "to device and dtype": lambda m: m.to("cpu", torch.float16),
    "type": lambda m: m.type(torch.bfloat16),
    "twice": lambda m: m.half().bfloat16(),
    "after double": lambda m: m.double().bfloat16(),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS)
def test_casts_leave_our_parameters(cast):
    model = disturb(Block())
    before = {n: p.detach().clone() for n, p in ours(model).items()}
    model = cast(model)
    assert model.mlp.weight.dtype in (torch.bfloat16, torch.float16)
    for name, p in ours(model).items():
        assert p.dtype == torch.float32, name
        assert torch.equal(p, before[name]), name
    x = torch.randn(3, 4, 8, dtype=model.mlp.weight.dtype)
    model(x).float().square().sum().backward()
    assert model.hc.phi.grad.dtype == torch.float32


def test_gradients_keep_their_dtype_too():
    model = Block()
    model(torch.randn(3, 4, 8)).square().sum().backward()
    want = model.hc.phi.grad.clone()
    model.bfloat16()
    assert torch.equal(model.hc.phi.grad, want)
    assert model.mlp.weight.grad.dtype == torch.bfloat16


def test_double_and_back():
    model = disturb(Block())
    want = model.hc.phi.detach().clone()
    assert all(p.dtype == torch.float64 for p in model.double().parameters())
    assert model(torch.randn(3, 4, 8, dtype=torch.float64)).dtype == torch.float64
    assert all(p.dtype == torch.float32 for p in model.float().parameters())
    assert torch.equal(model.hc.phi, want)


def test_a_default_dtype_does_not_reach_them():
    torch.set_default_dtype(torch.bfloat16)
    try:
        model = Block()
    finally:
        torch.set_default_dtype(torch.float32)
    assert model.mlp.weight.dtype == torch.bfloat16
    assert all(p.dtype == torch.float32 for p in ours(model).values())


def test_meta_device():
    for model in (Block().to("meta"), Block().to("meta", torch.bfloat16)):
        assert all(p.is_meta and p.dtype == torch.float32 for p in ours(model).values())
    with torch.device("meta"):
        model = Block().bfloat16()
    assert all(p.is_meta and p.dtype == torch.float32 for p in ours(model).values())
    model.to_empty(device="cpu")
    for module in (model.hc, model.head, model.mlp):
        module.reset_parameters()
    assert all(p.dtype == torch.float32 and not p.is_meta for p in ours(model).values())
    assert float((model.hc(torch.ones(2, 4, 8), torch.sin) - 1).detach().abs().max()) < 1
    assert HyperConnection(8, 4, device="meta").bias.is_meta
    assert StreamHead(8, 4, device="meta").fn.is_meta


def test_asked_casts():
    model = disturb(Block())
    want = model.hc.phi.detach().bfloat16()
    assert model.hc.cast_parameters(torch.bfloat16) is model.hc
    assert all(p.dtype == torch.bfloat16 for p in model.hc.parameters())
    assert all(p.dtype == torch.float32 for p in model.head.parameters())
    assert torch.equal(model.hc.phi, want)
    for cast in (*CASTS.values(), nn.Module.float, copy.deepcopy):
        model = cast(model)
        assert all(p.dtype == torch.bfloat16 for p in model.hc.parameters())
        assert all(p.dtype == torch.float32 for p in model.head.parameters())
    # Each use widens: bit for bit what float32 parameters of these values give.
    x = torch.randn(3, 4, 8)
    twin = HyperConnection(8, 4, gamma=True, out_bias=True)
    twin.load_state_dict(model.hc.state_dict())
    got = model.hc(x, torch.tanh)
    assert torch.equal(got, twin(x, torch.tanh))
    got.square().sum().backward()
    assert model.hc.phi.grad.dtype == torch.bfloat16
    model.hc.cast_parameters(torch.float32)
    assert all(p.dtype == torch.float32 for p in model.bfloat16().hc.parameters())
    with pytest.raises(DtypeError, match=r"^HyperConnection.cast_parameters: dtype must be"):
        model.hc.cast_parameters(torch.float64)


@pytest.mark.parametrize("assign", [False, True])
def test_a_16_bit_checkpoint_is_widened(assign):
    source = disturb(Block())
    checkpoint = {n: p.bfloat16() for n, p in source.state_dict().items()}
    model = Block()
    model.load_state_dict(checkpoint, assign=assign)
    for name, p in ours(model).items():
        assert p.dtype == torch.float32, name
        assert torch.equal(p, checkpoint[name].float()), name
    assert model.mlp.weight.dtype == (torch.bfloat16 if assign else torch.float32)
    assert all(t.dtype == torch.bfloat16 for t in checkpoint.values())


def test_a_child_that_a_subclass_adds_is_cast_as_usual():
    class WithSublayer(HyperConnection):
        def __init__(self):
            super().__init__(8, 4)
            self.mlp = nn.Linear(8, 8)

    model = WithSublayer().bfloat16()
    assert model.mlp.weight.dtype == torch.bfloat16
    assert model.phi.dtype == torch.float32
    model.float().cast_parameters(torch.float16)
    assert model.mlp.weight.dtype == torch.float32
    assert model.phi.dtype == torch.float16


def test_autocast_leaves_the_layer_in_its_own_precision():
    hc = disturb(HyperConnection(8, 4))
    x = torch.randn(3, 4, 8)
    want = hc(x, lambda h: torch.tanh(h).bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        got = hc(x, lambda h: torch.tanh(h).bfloat16())
    assert got.dtype == torch.float32
    assert torch.equal(got, want)


def test_a_policy_that_casts_them_behind_our_back_is_refused():
    hc = HyperConnection(8, 4)
    hc.phi.data = hc.phi.data.bfloat16()
    with pytest.raises(DtypeError, match=r"phi must be torch.float32.*mixed-precision policy"):
        hc(torch.zeros(2, 4, 8), torch.tanh)


def test_fsdp_with_a_policy_of_their_own(one_rank):
    """docs/nn.md: shard these modules first, without a policy; then the model, with one."""
    reference = disturb(Block())
    model = copy.deepcopy(reference)
    for module in model.modules():
        if isinstance(module, (HyperConnection, StreamHead)):
            fully_shard(module, mesh=one_rank, mp_policy=MixedPrecisionPolicy())
    policy = MixedPrecisionPolicy(torch.bfloat16, cast_forward_inputs=False)
    fully_shard(model, mesh=one_rank, mp_policy=policy)
    reference.mlp.bfloat16()
    x = torch.randn(3, 4, 8, dtype=torch.bfloat16)
    got, want = model(x), reference(x)
    assert torch.equal(got, want)
    got.float().square().sum().backward()
    want.float().square().sum().backward()
    for (name, p), q in zip(model.named_parameters(), reference.parameters(), strict=True):
        assert p.dtype == torch.float32
        assert torch.equal(p.grad.full_tensor(), q.grad.float()), name


def test_fsdp_with_one_policy_for_all_is_refused(one_rank):
    model = fully_shard(
        Block(), mesh=one_rank, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    )
    with pytest.raises(DtypeError, match=r"phi must be torch.float32.*mixed-precision policy"):
        model(torch.zeros(3, 4, 8))
