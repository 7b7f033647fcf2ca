"""Small models with hyper-connections, and a recorded run of one."""

import pytest
import torch
from torch import nn

from mhc_ops.monitor import Monitor
from mhc_ops.nn import HyperConnection, HyperConnectionStack

DIM, STREAMS = 12, 4


class Model(nn.Module):
    """Three hyper-connections, one of each kind, with gates that depend on x."""

    def __init__(self, streams=STREAMS):
        super().__init__()
        kinds = ("sinkhorn", "lite", "identity")
        self.connections = nn.ModuleList(
            HyperConnection(DIM, streams, gamma=True, residual=kind, dropout=0.2) for kind in kinds
        )
        self.sublayers = nn.ModuleList(nn.Linear(DIM, DIM) for _ in kinds)

    def forward(self, x):
        for connection, sublayer in zip(self.connections, self.sublayers, strict=True):
            x = connection(x, sublayer)
        return x


def randomized(model):
    """Parameters far from their initial values, so that maps and gates differ between tokens."""
    for module in model.modules():
        if isinstance(module, HyperConnection):
            for name, std in (("phi", 0.2), ("alpha", 1.0), ("bias", 1.0)):
                nn.init.normal_(getattr(module, name), std=std)
    return model


def make_stack(recompute_every, **options):
    sublayers = [nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh()) for _ in range(4)]
    return randomized(
        HyperConnectionStack(sublayers, DIM, STREAMS, recompute_every=recompute_every, **options)
    )


def train(model, steps, monitor=None, lr=0.05):
    """Losses and final parameters of a few steps of plain descent on fixed random targets."""
    torch.manual_seed(5)
    losses = []
    for _ in range(steps):
        x = torch.randn(3, 5, STREAMS, DIM)
        loss = (model(x) * torch.randn(3, 5, STREAMS, DIM)).mean()
        loss.backward()
        if monitor is not None:
            monitor.step(loss=loss)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= lr * parameter.grad
                parameter.grad = None
        losses.append(loss.detach())
    return losses, [p.detach().clone() for p in model.parameters()]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return randomized(Model())


@pytest.fixture
def recorded(model, tmp_path):
    """The JSONL of seven steps, every second of them recorded."""
    with Monitor(model, tmp_path / "run", every=2, tensorboard=False) as monitor:
        train(model, 7, monitor)
    return monitor.path
