"""The boundary of two sublayers in one operator, against our two operators one after the other."""

from mhc_ops import (
    mhc_post_backward,
    mhc_post_forward,
    mhc_post_pre_backward,
    mhc_post_pre_forward,
    mhc_pre_backward,
    mhc_pre_forward,
)
from mhc_ops.testing import make_post_inputs, make_pre_inputs

from .. import baselines
from ..registry import Shape
from . import Variants, backward_of


def variants(shape: Shape, direction: str, compiled: bool) -> Variants:
    del compiled  # the two operators' own rows have it
    post = make_post_inputs(shape.T, shape.N, shape.D)
    pre = make_pre_inputs(shape.T, shape.N, shape.D)
    ends = (post.x, post.h_res, post.h_out, post.h_post)
    begins = (pre.phi, pre.alpha, pre.bias, pre.gamma)
    kept = mhc_post_pre_forward(*ends, *begins, impl="cpu")
    x_next = kept.x_next
    if direction == "forward":
        pre_out = mhc_pre_forward(x_next, *begins, impl="cpu")
        next_out = mhc_post_forward(*ends, impl="cpu")

        def chain() -> object:
            mhc_post_forward(*ends, impl="cpu", out=next_out)
            return mhc_pre_forward(next_out, *begins, impl="cpu", out=pre_out)

        def plain() -> object:
            return baselines.pre(baselines.post(*ends), *begins)

        return {
            "ours": lambda: mhc_post_pre_forward(*ends, *begins, impl="cpu"),
            "ours, preallocated": lambda: mhc_post_pre_forward(
                *ends, *begins, impl="cpu", out=kept
            ),
            "ours, one after the other": chain,
            "torch": lambda: mhc_post_pre_forward(*ends, *begins, impl="torch"),
            "eager": plain,
        }
    upstream = (pre.grad_x_post, pre.grad_h_in, pre.grad_h_post, pre.grad_h_res)
    saved = (kept.inv_rms, kept.h_mix, kept.h_pre, kept.h_post)
    fused = (*ends, pre.phi, pre.alpha, pre.bias, *upstream, x_next, *saved, pre.gamma)
    apart = (x_next, pre.phi, pre.alpha, *upstream[1:], *saved, pre.gamma, pre.grad_x_post)
    grads = mhc_post_pre_backward(*fused, impl="cpu")
    of_pre = mhc_pre_backward(*apart, impl="cpu")
    of_post = mhc_post_backward(of_pre.grad_x, *ends, impl="cpu")

    def chain_backward() -> object:
        mhc_pre_backward(*apart, impl="cpu", out=of_pre)
        return mhc_post_backward(of_pre.grad_x, *ends, impl="cpu", out=of_post)

    def program(x, h_res, h_out, h_post, *parameters):  # type: ignore[no-untyped-def]
        following = baselines.post(x, h_res, h_out, h_post)
        return (following, *baselines.pre(following, *parameters))

    return {
        "ours": lambda: mhc_post_pre_backward(*fused, impl="cpu"),
        "ours, preallocated": lambda: mhc_post_pre_backward(*fused, impl="cpu", out=grads),
        "ours, one after the other": chain_backward,
        "torch": lambda: mhc_post_pre_backward(*fused, impl="torch"),
        "eager": backward_of(program, (*ends, *begins), upstream),
    }
