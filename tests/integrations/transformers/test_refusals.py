"""What accelerate() and restore() refuse, and that a refused model is as it was."""

import copy
from types import MethodType

import pytest
from torch import nn
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as theirs
from transformers.models.glm5_next import modeling_glm5_next
from transformers.models.hy_v4 import modeling_hy_v4

from mhc_ops.errors import ArgumentError, UnsupportedError
from mhc_ops.integrations.transformers import accelerate, agreement, deepseek_v4, restore

from .conftest import state
from .models import random_model


@pytest.fixture(autouse=True)
def _agreement_again():
    """Nothing is remembered of the classes that a test changes."""
    agreement.check_agreement.cache_clear()
    yield
    agreement.check_agreement.cache_clear()


class Wrapped(theirs.DeepseekV4DecoderLayer):
    """As FSDP makes one."""


class Foreign(nn.Module):
    def __init__(self, connection):
        super().__init__()
        self.hc = connection


def replace_forward(model):
    head = model.model.hc_head
    head.forward = MethodType(type(head).forward, head)


REFUSALS = {
    "a layer of a class made from theirs": (
        lambda m: setattr(m.model.layers[1], "__class__", Wrapped),
        "model.layers.1 is a Wrapped, which something else made from DeepseekV4DecoderLayer",
    ),
    "a connection in a layer that is not known": (
        lambda m: setattr(m, "more", Foreign(copy.deepcopy(m.model.layers[0].attn_hc))),
        "more.hc is not the attn_hc or ffn_hc of a DeepseekV4DecoderLayer",
    ),
    "a forward replaced on the instance": (
        replace_forward,
        "the forward of model.hc_head has been replaced on the instance",
    ),
    "another norm": (
        lambda m: setattr(m.model.layers[0].ffn_hc, "input_norm", nn.Identity()),
        "input_norm of model.layers.0.ffn_hc must be a DeepseekV4UnweightedRMSNorm, got Identity",
    ),
    "an unknown setting": (
        lambda m: setattr(m.config, "hc_temperature", 0.5),
        "the config of this DeepSeek-V4 has hc_temperature, which is not known here",
    ),
    "an eps out of range": (
        lambda m: setattr(m.model.layers[0].attn_hc, "hc_eps", -1e-6),
        r"hc_eps of model.layers.0.attn_hc must be in \[0, 1\), got -1e-06",
    ),
    "too many iterations": (
        lambda m: setattr(m.model.layers[0].attn_hc, "hc_sinkhorn_iters", 1001),
        "hc_sinkhorn_iters of model.layers.0.attn_hc must be at most 1000, got 1001",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_leave_the_model_as_it_was(case):
    spoil, message = REFUSALS[case]
    model = random_model("deepseek_v4")
    spoil(model)
    before = state(model)
    with pytest.raises(UnsupportedError, match=f"^accelerate: {message}"):
        accelerate(model)
    assert state(model) == before


def test_no_magnitude():
    with pytest.raises(UnsupportedError, match=r"hc_magnitude of model.layers.0.attn_hc must not"):
        accelerate(random_model("hy_v4", hc_magnitude=0.0))


def test_models_without_known_hyper_connections():
    with pytest.raises(UnsupportedError, match=r"^accelerate: Linear holds no hyper-connections"):
        accelerate(nn.Linear(2, 2))
    with pytest.raises(ArgumentError, match=r"^accelerate: model must be a torch module, got dict"):
        accelerate({})
    assert isinstance(restore(nn.Linear(2, 2)), nn.Linear)
    with pytest.raises(ArgumentError, match=r"^restore: model must be a torch module, got str"):
        restore("model")


def test_restore_refuses_what_something_wrapped_since():
    model = accelerate(random_model("deepseek_v4"))
    layer = model.model.layers[0]
    layer.__class__ = type("Wrapped", (type(layer),), {})
    with pytest.raises(UnsupportedError, match=r"^restore: model.layers.0 is a Wrapped"):
        restore(model)
    assert type(model.model.hc_head) is deepseek_v4.DeepseekV4HyperHead


def no_second_column_step(self, hidden_streams):
    post, comb, collapsed = ORIGINAL(self, hidden_streams)
    return post, comb / comb.sum(-1, keepdim=True), collapsed


def one_eps_less(self, x):
    self.eps, kept = 0.0, self.eps
    try:
        return HEAD(self, x)
    finally:
        self.eps = kept


def untransposed(self, hidden_states, input_ids=None, **kwargs):
    post, comb, collapsed = self.attn_hc(hidden_states)
    attended, _ = self.self_attn(self.input_layernorm(collapsed), **kwargs)
    streams = post[..., None] * attended.unsqueeze(-2) + comb @ hidden_states
    post, comb, collapsed = self.ffn_hc(streams)
    fed = self.mlp(self.post_attention_layernorm(collapsed), input_ids=input_ids)
    return post[..., None] * fed.unsqueeze(-2) + comb.mT @ streams


def without_ids(self, hidden_states, input_ids=None, **kwargs):
    return LAYER(self, hidden_states, None, **kwargs)


def reads_more(self, hidden_states, input_ids=None, **kwargs):
    return self.gain * LAYER(self, hidden_states, input_ids, **kwargs)


def takes_more(self, hidden_states, input_ids=None, skip=None, **kwargs):
    return LAYER(self, hidden_states, input_ids, **kwargs)


ORIGINAL = theirs.DeepseekV4HyperConnection.forward
HEAD = theirs.DeepseekV4HyperHead.forward
LAYER = theirs.DeepseekV4DecoderLayer.forward
CHANGED_SOURCES = [
    (theirs.DeepseekV4HyperConnection, no_second_column_step, "a trial run gave other values"),
    (theirs.DeepseekV4HyperHead, one_eps_less, "a trial run gave other values"),
    (theirs.DeepseekV4DecoderLayer, untransposed, "a trial run gave other values"),
    (theirs.DeepseekV4DecoderLayer, without_ids, "a trial run gave other values"),
    (theirs.DeepseekV4DecoderLayer, reads_more, "a trial run failed: AttributeError"),
    (theirs.DeepseekV4DecoderLayer, takes_more, "its arguments are not the ones known here"),
]


@pytest.mark.parametrize(
    ("cls", "changed", "why"), CHANGED_SOURCES, ids=[case[1].__name__ for case in CHANGED_SOURCES]
)
def test_another_version_of_transformers_is_refused(cls, changed, why, monkeypatch):
    model = random_model("deepseek_v4")
    before = state(model)
    monkeypatch.setattr(cls, "forward", changed)
    message = rf"^accelerate: {cls.__name__} of transformers 5\.\S+ is not the DeepSeek-V4 known"
    with pytest.raises(UnsupportedError, match=message) as refused:
        accelerate(model)
    assert why in str(refused.value)
    assert state(model) == before


def test_every_kind_of_layer_is_tried(monkeypatch):
    """A change in the linear-attention branch alone, and one in HY-V4's call of its attention."""
    for module, layer, name in (
        (modeling_glm5_next, "Glm5NextTextDecoderLayer", "glm5_next"),
        (modeling_hy_v4, "HYV4DecoderLayer", "hy_v4"),
    ):
        model, original = random_model(name), getattr(module, layer).forward

        def changed(self, hidden_states, attention_mask=None, *, _forward=original, **kwargs):
            if getattr(self, "block_type", "linear_attention") == "linear_attention":
                attention_mask = None
            return _forward(self, hidden_states, attention_mask, **kwargs)

        changed.__signature__ = agreement.signature(original)
        monkeypatch.setattr(getattr(module, layer), "forward", changed)
        agreement.check_agreement.cache_clear()
        with pytest.raises(UnsupportedError, match="a trial run gave other values"):
            accelerate(model)
