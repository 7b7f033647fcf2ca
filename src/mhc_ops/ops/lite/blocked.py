"""permutation_mix and its backward in torch operations over blocks of tokens, on any device.

Extra memory, whatever T is: a few copies of one block.
"""

import torch
from torch import Tensor

from ..common.numerics import SUPERBLOCK, channel_sum, rows_matmul
from ..common.outputs import fresh as fresh
from .checks import LiteBackward, LiteForward, LiteSizes
from .permutations import matrices

_TOKENS = 4 * SUPERBLOCK


def forward(sizes: LiteSizes, logits: Tensor, out: LiteForward) -> None:
    table = matrices(sizes.N, logits).T.contiguous()
    rows = logits.reshape(sizes.T, sizes.R)
    target = out.h_res.view(sizes.T, sizes.N * sizes.N)
    for start in range(0, sizes.T, _TOKENS):
        tokens = slice(start, start + _TOKENS)
        weights = torch.softmax(rows[tokens].contiguous(), -1)
        target[tokens] = rows_matmul(weights, table)


def backward(sizes: LiteSizes, logits: Tensor, grad_h_res: Tensor, out: LiteBackward) -> None:
    table = matrices(sizes.N, logits)
    rows = logits.reshape(sizes.T, sizes.R)
    grads = grad_h_res.reshape(sizes.T, sizes.N * sizes.N)
    target = out.grad_logits.view(sizes.T, sizes.R)
    for start in range(0, sizes.T, _TOKENS):
        tokens = slice(start, start + _TOKENS)
        weights = torch.softmax(rows[tokens].contiguous(), -1)
        y = rows_matmul(grads[tokens], table).mul_(weights)
        target[tokens] = y - weights * channel_sum(y)[..., None]
