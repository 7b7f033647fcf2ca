"""Every layout's meaning: our operators on converted parameters against the library written out."""

import pytest
import torch

from mhc_ops import Convention
from mhc_ops.integrations.checkpoints import convert_state_dict

from .libraries import LIBRARIES, D, N, draw
from .steps import leaves, our_gradients, our_step, relative


@pytest.mark.parametrize("std", [1, 3, 6])
@pytest.mark.parametrize("name", LIBRARIES)
def test_forward_and_every_gradient(name, std):
    """float64: what is left is rounding, which a Sinkhorn of such logits enlarges."""
    library, tensors = LIBRARIES[name], draw(LIBRARIES[name], std)
    x = torch.randn(37, N, D, dtype=torch.float64)
    upstream = torch.randn(37, N, D, dtype=torch.float64), torch.randn(37, D, dtype=torch.float64)
    theirs, their_x = leaves(tensors), x.clone().requires_grad_()
    out, h_in = library.step(their_x, theirs, torch.tanh)
    grads = torch.autograd.grad((out, h_in), (their_x, *theirs.values()), upstream)

    got_out, got_in, got_x, got = our_gradients(x, tensors, name, torch.tanh, upstream)
    assert relative(got_out, out) < 1e-13
    assert relative(got_in, h_in) < 1e-13
    assert relative(got_x, grads[0]) < 1e-11
    assert got.keys() == theirs.keys()
    for key, want in zip(theirs, grads[1:], strict=True):
        assert got[key].shape == want.shape
        assert relative(got[key], want) < 1e-11, key


@pytest.mark.parametrize("std", [3, 6])
@pytest.mark.parametrize("name", ["megatron_main", "liger", "transformer_engine"])
def test_the_convention_is_needed(name, std):
    """The converted tensors under DeepSeek-V4's numbers are another model."""
    library, tensors = LIBRARIES[name], draw(LIBRARIES[name], std)
    x = torch.randn(200, N, D, dtype=torch.float64)
    out, _ = library.step(x, tensors, torch.tanh)
    ours = convert_state_dict(tensors, source=name, target="ours")
    parameters = {k.rpartition(".")[2]: t for k, t in ours.tensors.items()}
    wrong, _ = our_step(x, parameters, Convention.deepseek_v4(), torch.tanh)
    assert float((wrong - out).abs().max()) > (1e-4 if name == "transformer_engine" else 1e-2)
