"""An accelerated model under torch.compile: one graph, as the unpatched one, and the same bits."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from mhc_ops.integrations.transformers import accelerate, restore

from .conftest import distance, step
from .models import random_model

ONE_LAYER = {
    "deepseek_v4": {"layer_types": ["sliding_attention"], "mlp_layer_types": ["moe"]},
    "hy_v4": {"mlp_layer_types": ["sparse"]},
}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("family", ONE_LAYER)
def test_a_training_step_in_one_graph(family, tokens):
    model = accelerate(random_model(family, num_hidden_layers=1, **ONE_LAYER[family]))
    wanted = step(model, tokens)
    counter = CompileCounterWithBackend("aot_eager")
    logits, gradients = step(torch.compile(model, backend=counter, fullgraph=True), tokens)
    assert counter.frame_count == 1
    assert any("mhc.pre_" in str(n.target) for g in counter.graphs for n in calls(g))
    assert any("mhc.post_forward" in str(n.target) for g in counter.graphs for n in calls(g))
    assert torch.equal(logits, wanted[0])
    assert gradients.keys() == wanted[1].keys()
    for name, gradient in wanted[1].items():
        assert distance(gradients[name], gradient) <= 1e-6, name


@pytest.mark.long
def test_whole_models_and_the_way_back(family, tokens):
    """With the default backend; a compiled model follows accelerate() and restore()."""
    model = random_model(family)
    unpatched = step(model, tokens)
    compiled = torch.compile(model)
    assert distance(step(compiled, tokens)[0], unpatched[0]) <= 1e-5
    accelerate(compiled)
    logits, gradients = step(compiled, tokens)
    assert distance(logits, unpatched[0]) <= 1e-5
    for name, gradient in unpatched[1].items():
        assert distance(gradients[name], gradient) <= 5e-5, name
    assert torch.equal(step(restore(model), tokens)[0], unpatched[0])


def calls(graph):
    modules = [m for m in graph.modules() if hasattr(m, "graph")]
    return [node for module in modules for node in module.graph.nodes]
