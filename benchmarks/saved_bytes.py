"""Bytes that a stack of sublayers keeps for its backward, ours beside plain torch.

    python benchmarks/saved_bytes.py [--tokens 256]

Counts, for N = 4, D = 1024, 8 sublayers and bfloat16 x, the memory that the allocator has handed
out during the forward and not got back, with the input and without the result. The sublayer is a
multiplication by a constant, which keeps nothing, so every byte belongs to the connections. The
figures are exact on every machine. Prints the table of docs/nn.md.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from mhc_ops.nn import HyperConnection, HyperConnectionStack

STREAMS, DIM, SUBLAYERS = 4, 1024, 8


class Doubling(nn.Module):
    """A sublayer that keeps nothing."""

    def forward(self, h: Tensor) -> Tensor:
        return 2 * h


def plain(connection: HyperConnection, x: Tensor, sublayer: nn.Module) -> Tensor:
    """The layer written out in torch, in float32 as the operators compute it."""
    n, wide = connection.streams, x.float()
    inv_rms = (wide.square().mean((-2, -1), keepdim=True) + 1e-6).rsqrt()
    w = (wide * inv_rms).flatten(-2) @ connection.phi.T
    alpha, bias = connection.alpha, connection.bias
    h_pre = torch.sigmoid(alpha[0] * w[..., :n] + bias[:n]) + 1e-6
    h_post = 2 * torch.sigmoid(alpha[1] * w[..., n : 2 * n] + bias[n : 2 * n])
    h_res = (alpha[2] * w[..., 2 * n :] + bias[2 * n :]).unflatten(-1, (n, n)).softmax(-1) + 1e-6
    h_res = h_res / (h_res.sum(-2, keepdim=True) + 1e-6)
    for _ in range(19):
        h_res = h_res / (h_res.sum(-1, keepdim=True) + 1e-6)
        h_res = h_res / (h_res.sum(-2, keepdim=True) + 1e-6)
    h_out = sublayer((h_pre[..., None] * wide).sum(-2).to(x.dtype))
    out = h_res.mT @ wide + h_post[..., None] * h_out[..., None, :]
    return out.to(x.dtype)


def held(run: Callable[[Tensor], Tensor], tokens: int) -> float:
    """Bytes a token and sublayer that are kept after run(x): x and what was allocated, less out."""
    x = torch.randn(tokens, STREAMS, DIM, dtype=torch.bfloat16, requires_grad=True)
    run(x)  # whatever is allocated once
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        out = run(x)
    total = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    return (x.nbytes + total - out.nbytes) / (tokens * SUBLAYERS)


def variants() -> dict[str, Callable[[Tensor], Tensor]]:
    sublayers = [Doubling() for _ in range(SUBLAYERS)]
    stack = HyperConnectionStack(sublayers, DIM, STREAMS)
    layers = list(zip(stack.connections, sublayers, strict=True))

    def in_plain_torch(x: Tensor) -> Tensor:
        for connection, sublayer in layers:
            x = plain(connection, x, sublayer)
        return x

    def in_checkpoints(every: int) -> Callable[[Tensor], Tensor]:
        def run(x: Tensor) -> Tensor:
            for start in range(0, SUBLAYERS, every):
                part = HyperConnectionStack(
                    sublayers[start : start + every],
                    connections=stack.connections[start : start + every],
                )
                x = checkpoint(part, x, use_reentrant=False)
            return x

        return run

    def ours(every: int) -> Callable[[Tensor], Tensor]:
        return HyperConnectionStack(sublayers, connections=stack.connections, recompute_every=every)

    steps = (1, 2, 4, 8)
    return {
        "plain torch, autograd | none": in_plain_torch,
        **{f"`recompute_every={k}` | {_streams(k)}": ours(k) for k in steps},
        **{f"torch checkpoint, {k} a piece | everything": in_checkpoints(k) for k in steps},
    }


def _streams(every: int) -> str:
    return "none" if every == 1 else "x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=256, help="T of the run")
    tokens = parser.parse_args().tokens
    print("| 8 sublayers | computed again | bytes a token and sublayer |\n|---|---|---|")
    for name, run in variants().items():
        print(f"| {name} | {held(run, tokens):,.0f} |")


if __name__ == "__main__":
    main()
