"""transformers' modules beside our operators on parameters that our converter brought over."""

from functools import partial

import pytest
import torch

from mhc_ops import Convention, stream_head
from mhc_ops.integrations.checkpoints import convert_state_dict

from .. import libraries
from ..libraries import LIBRARIES, draw
from ..steps import leaves, normal, our_gradients, their_gradients
from .peer import STDS, find, judge

pytest.importorskip("transformers", reason="needs the extra: pip install '.[peers]'")
deepseek = find("transformers.models.deepseek_v4.modeling_deepseek_v4")
deepseek_config = find("transformers.models.deepseek_v4.configuration_deepseek_v4")
glm = find("transformers.models.glm5_next.modeling_glm5_next")
glm_config = find("transformers.models.glm5_next.configuration_glm5_next")
hy = find("transformers.models.hy_v4.modeling_hy_v4")
hy_config = find("transformers.models.hy_v4.configuration_hy_v4")

T, N, D = 29, 4, 48
UPSTREAM = normal(0, T, N, D), normal(1, T, D)
X = normal(2, T, N, D)


def step_of(module):
    """x through a hyper-connection and the lines of its decoder layer, with the given tensors."""

    def step(x, tensors, sublayer):
        own = {k.removeprefix("attn_hc."): t for k, t in tensors.items()}
        *gates, h_in = torch.func.functional_call(module, own, (x[None],))
        post, h_out = gates[0], sublayer(h_in)
        residual = torch.matmul(gates[1].transpose(-1, -2), x[None]) if len(gates) == 2 else x[None]
        return (post.unsqueeze(-1) * h_out.unsqueeze(-2) + residual)[0], h_in[0]

    return step


def double(tensors):
    return {name: t.double() for name, t in tensors.items()}


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("model", ["deepseek_v4", "glm5_next"])
def test_hyper_connection(model, std):
    if model == "deepseek_v4":
        config = deepseek_config.DeepseekV4Config(hidden_size=D, hc_mult=N)
        module = deepseek.DeepseekV4HyperConnection(config)
    else:
        config = glm_config.Glm5NextTextConfig(hidden_size=D, hc_mult=N)
        module = glm.Glm5NextTextHyperConnection(config)
    norm_eps = config.rms_norm_eps
    tensors = draw(LIBRARIES["transformers"], std, dtype=torch.float32, n=N, d=D)
    upstream = tuple(t.double() for t in UPSTREAM)
    truth_step = partial(libraries.transformers, norm_eps=norm_eps)
    truth = their_gradients(truth_step, X.double(), double(tensors), torch.tanh, upstream)
    theirs = their_gradients(step_of(module), X, tensors, torch.tanh, UPSTREAM)
    got = our_gradients(
        X, tensors, "transformers", torch.tanh, UPSTREAM, numbers={"norm_eps": norm_eps}
    )
    judge(got, theirs, truth, terms=T * N * D)


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("magnitude", [2.0, 1.5])
def test_hy_v4(magnitude, std):
    config = hy_config.HYV4Config(hidden_size=D, hc_mult=N, hc_magnitude=magnitude)
    module = hy.HYV4HyperConnection(config)
    raw = draw(LIBRARIES["hy_v4"], std, dtype=torch.float32, n=N, d=D)
    tensors = convert_state_dict(raw, source="hy_v4", target="transformers").tensors
    numbers = {"norm_eps": config.rms_norm_eps, "post_scale": magnitude}
    truth_step = partial(libraries.hy_v4, norm_eps=config.rms_norm_eps, magnitude=magnitude)
    upstream = tuple(t.double() for t in UPSTREAM)
    truth = their_gradients(truth_step, X.double(), double(raw), torch.tanh, upstream)
    renamed = {k.replace("hc_attn_layer.hc_", "attn_hc."): t for k, t in truth.items()}
    theirs = their_gradients(step_of(module), X, tensors, torch.tanh, UPSTREAM)
    got = our_gradients(X, tensors, "transformers", torch.tanh, UPSTREAM, numbers=numbers)
    judge(got, theirs, renamed, terms=T * N * D)


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("model", ["deepseek_v4", "hy_v4"])
def test_learned_head(model, std):
    if model == "deepseek_v4":
        module = deepseek.DeepseekV4HyperHead(deepseek_config.DeepseekV4Config(hidden_size=D))
    else:
        module = hy.HYV4HyperHead(hy_config.HYV4Config(hidden_size=D, rms_norm_eps=1e-6))
    tensors = {
        "model.hc_head.hc_fn": normal(3, N, N * D) / (N * D) ** 0.5,
        "model.hc_head.hc_base": normal(4, N),
        "model.hc_head.hc_scale": torch.full((1,), float(std)),
    }
    ours = convert_state_dict(tensors, source="transformers", target="ours")
    assert sorted(ours.tensors) == [f"model.hc_head.{name}" for name in ("base", "fn", "scale")]

    def run(x, given, head):
        x, given = x.clone().requires_grad_(), leaves(given)
        h = head(x, *given.values())
        upstream = UPSTREAM[1].to(h.dtype)
        return h.detach(), *torch.autograd.grad(h, (x, *given.values()), upstream)

    def in_float64(x, fn, base, scale):
        flat = x.flatten(1)
        m = (flat @ fn.T) * (flat.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        return (((m * scale + base).sigmoid() + 1e-6)[:, :, None] * x).sum(1)

    def theirs(x, fn, base, scale):
        own = {"hc_fn": fn, "hc_base": base, "hc_scale": scale}
        return torch.func.functional_call(module, own, (x[None],))[0]

    by_name = {k.rpartition(".")[2]: t for k, t in ours.tensors.items()}
    got = run(
        X,
        {name: by_name[name] for name in ("fn", "base", "scale")},
        partial(stream_head, norm_eps=1e-6, eps=Convention.deepseek_v4().hc_eps),
    )
    results = got, run(X, tensors, theirs), run(X.double(), double(tensors), in_float64)
    names = ("h", "x", "fn", "base", "scale")
    judge(*(dict(zip(names, r, strict=True)) for r in results), terms=T * N * D)


def test_the_mean_of_glm():
    head = glm.Glm5NextTextHyperHead()
    assert torch.allclose(stream_head(X), head(X[None])[0], rtol=0, atol=2e-7)
