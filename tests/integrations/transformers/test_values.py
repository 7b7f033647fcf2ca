"""accelerate() against the unpatched models: values, gradients, bfloat16, autocast, generation."""

from copy import deepcopy
from importlib import import_module

import pytest
import torch

from mhc_ops.integrations.transformers import accelerate, restore

from .conftest import distance, draw_tokens, step
from .models import BUILDERS, random_model

SMOOTH = {"num_experts_per_tok": 4, "index_topk": 64}  # no choice that rounding could flip
FP32_MIXING = ("hy_v4", "hy_v4_vl")  # unpatched, their mixing is in float32 already


def assert_same_step(got, wanted, of_logits=1e-5, of_gradients=5e-5):
    assert distance(got[0], wanted[0]) <= of_logits
    assert got[1].keys() == wanted[1].keys()
    assert sum(".fn" in name or "hc_fn" in name for name in wanted[1]) >= 4
    for name, gradient in wanted[1].items():
        assert distance(got[1][name], gradient) <= of_gradients, name


def test_a_float32_training_step(family, tokens):
    model = random_model(family)
    wanted = step(model, tokens)
    assert_same_step(step(accelerate(model), tokens), wanted)


@pytest.mark.parametrize("changes", [{"hc_mult": 3}, {"hc_mult": 1}, {"hc_sinkhorn_iters": 0},
                                     {"hc_eps": 0.0}, {"hc_eps": 1e-2, "rms_norm_eps": 0.3},
                                     {"hidden_size": 1024, "hc_sinkhorn_iters": 5}],
                         ids=str)  # fmt: skip
def test_other_settings_of_deepseek_v4(changes, tokens):
    model = random_model("deepseek_v4", **changes)
    wanted = step(model, tokens)
    assert_same_step(step(accelerate(model), tokens), wanted)


def test_frozen_parameters_and_a_frozen_embedding(tokens):
    """LoRA-like training: the streams of the first layer need no gradient."""
    model = random_model("deepseek_v4")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("q_a_proj" in name or "layers.1.ffn_hc.base" in name)
    logits, gradients = step(model, tokens)
    accelerated, found = step(accelerate(model), tokens)
    assert len(gradients) == 4
    assert distance(accelerated, logits) <= 1e-5
    for name, gradient in gradients.items():
        assert distance(found[name], gradient) <= 5e-5, name


@pytest.mark.parametrize("how", ["loaded", "cast"])
def test_bfloat16_is_no_further_from_float32_than_unpatched(family, how, tmp_path):
    """The root of the mean square over four batches, at most 3 % above where both are rounding."""
    model = random_model(family, **SMOOTH).eval()
    if how == "loaded":
        model.save_pretrained(tmp_path)
        model = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    else:
        model = model.bfloat16()
    truth = deepcopy(model).float()
    square = {"unpatched": 0.0, "patched": 0.0}
    for seed in range(4):
        tokens = draw_tokens(seed)
        with torch.no_grad():
            wanted = truth(tokens).logits
            square["unpatched"] += distance(model(tokens).logits, wanted) ** 2
            square["patched"] += distance(accelerate(model)(tokens).logits, wanted) ** 2
            restore(model)
    margin = 1.03 if family in FP32_MIXING else 1.0
    assert square["patched"] <= margin**2 * square["unpatched"]


def test_bfloat16_gradients_are_no_further_from_float32(family):
    """Over two batches; without scale and sinks, few numbers whose sums cancel."""
    model = random_model(family, **SMOOTH).bfloat16()
    truth = deepcopy(model).float()
    square = {"unpatched": 0.0, "patched": 0.0}
    for seed in range(2):
        _, wanted = step(truth, draw_tokens(seed))
        _, unpatched = step(model, draw_tokens(seed))
        _, patched = step(accelerate(model), draw_tokens(seed))
        restore(model)
        assert {g.dtype for g in patched.values()} == {torch.bfloat16}
        for name, gradient in wanted.items():
            if gradient.any() and not name.endswith(("scale", "sinks")):
                square["unpatched"] += distance(unpatched[name], gradient) ** 2
                square["patched"] += distance(patched[name], gradient) ** 2
    margin = 1.1 if family in FP32_MIXING else 1.0
    assert square["patched"] <= margin**2 * square["unpatched"]


def test_autocast_keeps_the_mixing_in_float32(family, tokens):
    model = random_model(family, **SMOOTH)
    wanted, _ = step(model, tokens)
    with torch.autocast("cpu", torch.bfloat16):
        unpatched, gradients = step(model, tokens)
        patched, found = step(accelerate(model), tokens)
    assert distance(patched, wanted) <= 1.05 * distance(unpatched, wanted)
    assert found.keys() == gradients.keys()


def test_a_float64_model_is_mixed_in_float64(tokens):
    """Unpatched, its gates are float32 and this distance is about 1e-7."""
    model = random_model("deepseek_v4").double().eval()
    model.set_experts_implementation("eager")  # torch's grouped matmul takes no float64
    layer = accelerate(model).model.layers[0]
    x = torch.randn(2, 3, 4, 256, dtype=torch.float64)
    post, comb, collapsed, streams = layer.attn_hc(x)
    assert {t.dtype for t in (post, comb, collapsed, streams)} == {torch.float64}
    weights = (torch.sigmoid(mixing_logits(layer.attn_hc, x)[..., :4]) + 1e-6)[..., None]
    assert distance((weights * x).sum(-2), collapsed) <= 1e-14
    assert model(tokens).logits.dtype == torch.float64


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}], ids=str)
def test_generate_gives_the_same_tokens(family, options):
    model, prompt = random_model(family).eval(), draw_tokens(3, length=9)
    run = {"max_new_tokens": 20, "do_sample": False, **options}
    wanted = model.generate(prompt, **run)
    assert wanted.shape == (2, 29)
    assert len(wanted[:, 9:].unique()) > 5
    assert torch.equal(accelerate(model).generate(prompt, **run), wanted)


def test_a_cache_gives_the_same_logits(family, tokens):
    model = random_model(family).eval()

    def token_by_token():
        first = model(tokens[:, :20], use_cache=True)
        found = [first.logits]
        for i in range(20, 24):
            found.append(model(tokens[:, i : i + 1], cache=first.cache, use_cache=True).logits)
        return torch.cat(found, 1)

    with torch.no_grad():
        wanted = token_by_token()
        accelerate(model)
        assert distance(token_by_token(), wanted) <= 1e-5


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_changes_no_gradient(family, reentrant, tokens):
    model = accelerate(random_model(family))
    logits, gradients = step(model, tokens)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    calls = []
    layer = _layers(model)[0]
    layer.attn_hc.register_forward_hook(lambda *_: calls.append(1))
    again, recomputed = step(model, tokens)
    assert len(calls) == 2  # once forward, once in the backward
    assert torch.equal(again, logits)
    assert recomputed.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert torch.equal(recomputed[name], gradient), name


@pytest.mark.parametrize("name", BUILDERS)
def test_hidden_states_are_recorded(name, tokens):
    model = random_model(name).eval()
    with torch.no_grad():
        wanted = model(tokens, output_hidden_states=True).hidden_states
        got = accelerate(model)(tokens, output_hidden_states=True).hidden_states
    assert len(got) == len(wanted) >= 3
    for ours, theirs in zip(got, wanted, strict=True):
        assert distance(ours, theirs) <= 1e-5


def _layers(model):
    return next(m for m in model.modules() if hasattr(m, "embed_tokens")).layers


def mixing_logits(connection, x):
    flat = x.flatten(-2)
    z = flat * (flat.square().mean(-1, keepdim=True) + 1e-6).rsqrt() @ connection.fn.T
    n = x.shape[-2]
    return z * connection.scale.repeat_interleave(torch.tensor([n, n, n * n])) + connection.base


def test_the_streams_pass_through_every_operator_in_turn(family):
    """So the residual's gradient is added inside mhc_pre's backward, not by a node of its own."""
    layer = _layers(accelerate(random_model(family)))[0]
    (_, attention) = family_of(family).layer_kinds[0]
    layer.self_attn.forward = lambda h=None, hidden_states=None, **_: attention(
        hidden_states if h is None else h
    )
    layer.mlp.forward = lambda h, input_ids=None: h
    x = torch.randn(1, 3, 4, 256, requires_grad=True)
    out = layer(x)
    node = (out[0] if isinstance(out, tuple) else out).grad_fn
    chain = [node.name()]
    while node.next_functions:
        node = node.next_functions[0][0]
        chain.append(node.name())
    pre, post = "HandingOnFunctionBackward", "OperatorFunctionBackward"
    assert chain == [post, pre, post, pre, "torch::autograd::AccumulateGrad"]


def family_of(name):
    return import_module(f"mhc_ops.integrations.transformers.{name}").FAMILY
