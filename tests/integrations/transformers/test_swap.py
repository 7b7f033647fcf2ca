"""accelerate() and restore() as an exchange: what changes and what comes back."""

import copy
import io
import pickle

import torch
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as theirs

from mhc_ops.integrations.transformers import accelerate, agreement, deepseek_v4, restore

from .conftest import state, step
from .models import random_model


def test_restore_gives_back_the_model_bit_for_bit(family, tokens):
    model = random_model(family)
    classes = {cls: dict(vars(cls)) for cls in {type(m) for m in model.modules()}}
    before, (logits, gradients) = state(model), step(model, tokens)
    weights = {name: p.clone() for name, p in model.state_dict().items()}
    assert accelerate(model) is model
    assert len([m for m in model.modules() if type(m).__module__.startswith("mhc_ops.")]) >= 6
    accelerated, _ = step(model, tokens)
    assert not torch.equal(accelerated, logits)  # rounding shows that something else ran
    assert restore(model) is model
    assert state(model) == before
    assert classes == {cls: dict(vars(cls)) for cls in classes}
    assert all(torch.equal(p, weights[name]) for name, p in model.state_dict().items())
    again, gradients_again = step(model, tokens)
    assert torch.equal(again, logits)
    assert all(torch.equal(gradients_again[name], g) for name, g in gradients.items())


def test_parameters_modules_and_names_stay(family):
    model = random_model(family)
    before = {name: id(p) for name, p in model.named_parameters()}
    shown = repr(model)
    accelerate(model)
    assert {name: id(p) for name, p in model.named_parameters()} == before
    assert repr(model) == shown  # names of layer classes matter to sharding policies
    assert not any("mhc" in key for key in model.state_dict())


def test_only_this_model_changes(tokens):
    model, other = random_model("deepseek_v4"), random_model("deepseek_v4")
    wanted, _ = step(other, tokens)
    accelerate(model)
    assert not any(type(m).__module__.startswith("mhc_ops.") for m in other.modules())
    assert torch.equal(step(other, tokens)[0], wanted)


def test_twice_is_once(family):
    model = random_model(family)
    untouched = state(model)
    accelerated = state(accelerate(model))
    assert state(accelerate(model)) == accelerated
    assert state(restore(restore(model))) == untouched


def test_copies_and_pickles_stay_accelerated(tokens):
    model = accelerate(random_model("deepseek_v4"))
    wanted, _ = step(model, tokens)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(step(twin, tokens)[0], wanted)
        assert type(restore(twin).model.hc_head) is theirs.DeepseekV4HyperHead
    assert type(model.model.hc_head) is deepseek_v4.DeepseekV4HyperHead


def test_checkpoints_pass_both_ways(tokens, tmp_path):
    model = random_model("deepseek_v4")
    logits, _ = step(model, tokens)
    accelerate(model).save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).train()
    assert torch.equal(step(loaded, tokens)[0], logits)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    loaded.load_state_dict(torch.load(buffer))


def test_a_part_of_a_model(tokens):
    model = random_model("deepseek_v4")
    accelerate(model.model.layers[1])
    kinds = [type(layer) for layer in model.model.layers]
    assert kinds == [theirs.DeepseekV4DecoderLayer, deepseek_v4.DeepseekV4DecoderLayer,
                     theirs.DeepseekV4DecoderLayer]  # fmt: skip
    step(model, tokens)


def test_the_random_numbers_and_modes_of_the_caller_stay():
    agreement.check_agreement.cache_clear()
    torch.manual_seed(5)
    wanted = torch.rand(3)
    model = random_model("deepseek_v4")
    torch.manual_seed(5)
    with torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
        accelerate(model)
    assert torch.equal(torch.rand(3), wanted)
