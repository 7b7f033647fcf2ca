"""mhc_post_pre under torch's checkpoint, which gives a saved tensor out only once."""

import torch
from torch.utils.checkpoint import checkpoint

from mhc_ops import mhc_post_pre
from mhc_ops.testing import make_post_inputs, make_pre_inputs


def test_checkpoint():
    post = make_post_inputs(5, 3, 8, dtype=torch.float32, bias=False)
    pre = make_pre_inputs(5, 3, 8, dtype=torch.float32, gamma=False)
    inputs = [t.clone().requires_grad_() for t in (*post[:4], *pre.forward_args[1:4])]
    upstream = (post.grad_out, pre.grad_h_in, pre.grad_h_post, pre.grad_h_res)
    want = torch.autograd.grad(mhc_post_pre(*inputs), inputs, upstream)
    got = torch.autograd.grad(
        checkpoint(mhc_post_pre, *inputs, use_reentrant=False), inputs, upstream
    )
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a, b)
