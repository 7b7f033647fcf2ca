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


# Dynamo's own, where a forward of glm5_next is traced again.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.long
def test_whole_models_and_the_way_back(family, tokens):
    """With the default backend; a compiled model follows accelerate(), eval() and restore().

    Compiling alone moves the unpatched model's gradients (the bound allows for as much), and gives
    zeros to parameters that no gradient reaches.
    """
    model = random_model(family)
    eager = step(model, tokens)
    compiled = torch.compile(model)
    unpatched = step(compiled, tokens)
    accelerate(compiled)
    logits, gradients = step(compiled, tokens)
    assert distance(logits, eager[0]) <= 1e-5
    assert gradients.keys() == unpatched[1].keys() >= eager[1].keys()
    for name, gradient in eager[1].items():
        compiling = distance(unpatched[1][name], gradient)
        assert distance(gradients[name], gradient) <= 5e-5 + compiling, name
    with torch.no_grad():
        inferred = compiled.eval()(tokens).logits
        assert distance(inferred, restore(model)(tokens).logits) <= 1e-5
    assert torch.equal(step(model.train(), tokens)[0], eager[0])
    assert torch.equal(step(compiled, tokens)[0], unpatched[0])  # the first graph again


def calls(graph):
    modules = [m for m in graph.modules() if hasattr(m, "graph")]
    return [node for module in modules for node in module.graph.nodes]
