"""Every layout's meaning: our operators on converted parameters against the library written out."""

import pytest
import torch

from mhc_ops import Convention
from mhc_ops.integrations.checkpoints import convert_state_dict

from .libraries import LIBRARIES, D, N, draw
from .steps import normal, our_gradients, our_step, relative, their_gradients

SHAPES = (N, D), (N, D), (D,)


@pytest.mark.parametrize("std", [1, 3, 6])
@pytest.mark.parametrize("name", LIBRARIES)
def test_forward_and_every_gradient(name, std):
    """float64: what is left is rounding, which a Sinkhorn of such logits enlarges."""
    library, tensors = LIBRARIES[name], draw(LIBRARIES[name], std)
    double = torch.float64
    x, *upstream = (normal(k, 37, *dims, dtype=double) for k, dims in enumerate(SHAPES))
    want = their_gradients(library.step, x, tensors, torch.tanh, upstream)
    got = our_gradients(x, tensors, name, torch.tanh, upstream)
    assert got.keys() == want.keys()
    for key in want:
        assert got[key].shape == want[key].shape
        assert relative(got[key], want[key]) < (1e-13 if key in ("out", "h_in") else 1e-11), key


@pytest.mark.parametrize("std", [3, 6])
@pytest.mark.parametrize("name", ["megatron_main", "liger", "transformer_engine"])
def test_the_convention_is_needed(name, std):
    """The converted tensors under DeepSeek-V4's numbers are another model."""
    library, tensors = LIBRARIES[name], draw(LIBRARIES[name], std)
    x = normal(0, 200, N, D, dtype=torch.float64)
    out, _ = library.step(x, tensors, torch.tanh)
    ours = convert_state_dict(tensors, source=name, target="ours")
    parameters = {k.rpartition(".")[2]: t for k, t in ours.tensors.items()}
    wrong, _ = our_step(x, parameters, Convention.deepseek_v4(), torch.tanh)
    assert float((wrong - out).abs().max()) > (1e-4 if name == "transformer_engine" else 1e-2)
