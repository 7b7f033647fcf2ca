"""Run as a program, since Triton reads TRITON_INTERPRET when it is imported: IN.pt OUT.pt.

IN: a list of (x, tensors in Liger's names, upstream of out and h_in). OUT: for each what
their_gradients returns.
"""

import sys

import torch
from liger_kernel.transformers.functional import (
    liger_mhc_coeffs,
    liger_mhc_post_res,
    liger_mhc_pre,
)

from tests.integrations.checkpoints.steps import their_gradients


def step(x, t, sublayer):
    alphas = (t["alpha_pre"], t["alpha_post"], t["alpha_res"])
    h_pre, h_post, h_res = liger_mhc_coeffs(x, t["phi"], t["b"], *alphas, allow_fp32=True)
    h_in = liger_mhc_pre(x, h_pre)
    return liger_mhc_post_res(x, sublayer(h_in), h_post, h_res), h_in


cases = torch.load(sys.argv[1])
results = [
    their_gradients(step, x, tensors, torch.tanh, upstream) for x, tensors, upstream in cases
]
torch.save(results, sys.argv[2])
