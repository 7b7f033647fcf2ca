"""A small mHC language model, one training step of it, and what is compared."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from mhc_ops.nn import ExpandStreams, HyperConnection, StreamHead

VOCABULARY, DIM, STREAMS, HEADS, LAYERS = 48, 16, 4, 4, 2
BATCH, LENGTH, STEPS = 4, 12, 5
RATE, MOMENTUM = 0.3, 0.9


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(DIM, eps=1e-6)
        self.q, self.k, self.v = (nn.Linear(DIM, DIM, bias=False) for _ in range(3))
        self.out = nn.Linear(DIM, DIM, bias=False)

    def forward(self, h):
        h = self.norm(h)
        q, k, v = (p(h).unflatten(-1, (-1, DIM // HEADS)) for p in (self.q, self.k, self.v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(DIM, eps=1e-6)
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, h):
        return self.down(torch.nn.functional.silu(self.up(self.norm(h))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.hc1 = HyperConnection(DIM, STREAMS, gamma=True, init="paper")
        self.attention = Attention()
        self.hc2 = HyperConnection(DIM, STREAMS, init="paper")
        self.mlp = Mlp()

    def forward(self, x):
        return self.hc2(self.hc1(x, self.attention), self.mlp)


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, DIM)
        self.expand = ExpandStreams(STREAMS)

    def forward(self, tokens):
        return self.expand(self.embed(tokens))


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = StreamHead(DIM, STREAMS)
        self.norm = nn.RMSNorm(DIM, eps=1e-6)
        self.lm = nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, x):
        return self.lm(self.norm(self.head(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = First()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = Last()

    def forward(self, tokens):
        x = self.first(tokens)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def make_model():
    """The model with drawn weights, the same in every process; no gate at its initial value."""
    torch.manual_seed(7)
    model = Model()
    for name, p in model.named_parameters():
        if name.endswith(("alpha", "scale")):
            nn.init.uniform_(p, 0.5, 1.0)
        if name.endswith(("bias", "base")):
            nn.init.normal_(p)
    return model


def tokens(step):
    """Inputs and targets of one step, [BATCH, LENGTH] each."""
    made = torch.Generator().manual_seed(100 + step)
    drawn = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=made)
    return drawn[:, :-1], drawn[:, 1:]


def loss_of(logits, targets):
    return cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def optimizer_of(model, **options):
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, **options)


def train(step_of, model, parts=lambda t: t, steps=STEPS):
    """Losses of the steps, the first step's gradients and the last parameters, by name.

    step_of(model, inputs, targets): runs forward and backward, gives the loss of the whole batch.
    parts: the whole of a sharded tensor.
    """
    optimizer = optimizer_of(model)
    losses, gradients = [], {}
    for step in range(steps):
        losses.append(float(step_of(model, *tokens(step))))
        if step == 0:
            gradients = {k: parts(p.grad).clone() for k, p in model.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
    final = {k: parts(p.detach()).clone() for k, p in model.named_parameters()}
    return losses, gradients, final


def plain_step(model, inputs, targets):
    loss = loss_of(model(inputs), targets)
    loss.backward()
    return loss.detach()
