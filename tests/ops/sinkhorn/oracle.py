"""The truth of sinkhorn, written from the published equations and from nothing of ours.

Runs in the dtype of `work`: float64 is the truth, float32 the eager bar that an implementation is
measured against. Gradients are autograd's, through torch's own softmax and sums.
"""

import math

import torch


def forward(
    logits, num_iters=20, eps=1e-6, eps_mode="add", order="columns_last", temperature=1.0,
    work=torch.float64,
):  # fmt: skip
    along_to, along_from = (-1, -2) if order == "columns_last" else (-2, -1)
    h = torch.softmax(logits.to(work) / temperature, along_to)
    if eps_mode == "add":
        h = h + eps
    for i in range(num_iters):
        if i > 0:
            h = _divided(h, along_to, eps, eps_mode)
        h = _divided(h, along_from, eps, eps_mode)
    return h


def _divided(h, dim, eps, eps_mode):
    total = h.sum(dim, keepdim=True)
    if eps_mode == "add":
        return h / (total + eps)
    return h / total.clamp(min=eps) if eps_mode == "clamp" else h / total


def backward(logits, grad_h_res, work=torch.float64, **options):
    leaf = logits.detach().to(work).requires_grad_()
    h = forward(leaf, work=work, **options)
    return torch.autograd.grad(h, leaf, grad_h_res.to(work))[0]


def forward_by_loops(logits, num_iters, eps):
    """The published form for one [N][N] list of numbers, without torch."""
    n = len(logits)
    h = []
    for row in logits:
        top = max(row)
        e = [math.exp(v - top) for v in row]
        h.append([v / sum(e) + eps for v in e])
    for i in range(num_iters):
        if i > 0:
            h = [[v / (sum(row) + eps) for v in row] for row in h]
        sums = [sum(h[i][j] for i in range(n)) + eps for j in range(n)]
        h = [[row[j] / sums[j] for j in range(n)] for row in h]
    return h
