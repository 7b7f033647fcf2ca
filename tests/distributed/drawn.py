"""Drawn inputs of the operators, and upstream gradients."""

import torch

N, D = 4, 8
F = 2 * N + N * N


def draw(*lead, dtype=torch.float32, seed=0):
    made = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=made)

    return {
        "x": normal(*lead, N, D).to(dtype),
        "phi": normal(F, N * D) / (N * D) ** 0.5,
        "alpha": normal(3),
        "bias": normal(F),
        "gamma": 1 + normal(N, D) / 4,
        "out_bias": normal(D),
        "h_out": normal(*lead, D).to(dtype),
    }


def leaves(tensors):
    return {k: v.detach().requires_grad_() for k, v in tensors.items()}


def upstream(outputs, seed=9):
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(o.shape, generator=made).to(o.dtype) for o in outputs]
