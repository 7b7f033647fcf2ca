"""permutation_mix and its backward in eager torch, in the order of the equations; the truth.

float32 or float64. Plain differentiable torch operations only, so that autograd can go through it
any number of times. The derivation is in README.md.
"""

import torch
from torch import Tensor

from ..common.numerics import channel_sum, rows_matmul
from .permutations import matrices


def forward(logits: Tensor, streams: int) -> Tensor:
    weights = torch.softmax(logits.contiguous(), -1)  # [.., N!]
    table = matrices(streams, logits)  # [N!, N*N]
    mixed = rows_matmul(weights.reshape(-1, len(table)), table.T)
    return mixed.view(*logits.shape[:-1], streams, streams)


def backward(logits: Tensor, grad_h_res: Tensor, streams: int) -> Tensor:
    weights = torch.softmax(logits.contiguous(), -1)
    table = matrices(streams, logits)
    grad_weights = rows_matmul(grad_h_res.reshape(-1, streams * streams), table)
    y = weights * grad_weights.view(weights.shape)  # gradient of log weights
    return y - weights * channel_sum(y)[..., None]
