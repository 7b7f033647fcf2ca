"""Inputs of the small models, and a run that keeps the logits and every gradient."""

import pytest
import torch

from .models import BUILDERS, VOCABULARY


@pytest.fixture(params=BUILDERS)
def family(request):
    return request.param


@pytest.fixture
def tokens():
    return draw_tokens(0)


def draw_tokens(seed, batch=2, length=33):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (batch, length), generator=generator)


def step(model, tokens):
    """Logits and gradients under a random upstream gradient; model may be a compiled one."""
    model.zero_grad()
    logits = model(tokens).logits
    upstream = torch.randn(logits.shape, generator=torch.Generator().manual_seed(7))
    logits.backward(upstream.to(logits.dtype))
    reached = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), {n.removeprefix("_orig_mod."): g for n, g in reached.items()}


def distance(got, wanted):
    """Relative to the norm of `wanted`."""
    got, wanted = got.detach().double(), wanted.detach().double()
    return float((got - wanted).norm() / wanted.norm())


def state(model):
    """Everything that a change of the model would show in, but its tensors' values."""
    return [
        (name, type(module), sorted(vars(module)), [id(p) for p in module.parameters(False)],
         dict(module._forward_hooks))
        for name, module in model.named_modules()
    ]  # fmt: skip
