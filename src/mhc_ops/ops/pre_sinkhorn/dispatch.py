"""One call of MhcPreSinkhorn or its backward on real tensors: MhcPre's call and Sinkhorn's.

There is no kernel of its own: Sinkhorn works on N*N numbers a token where MhcPre reads N*D, and the
logits between the two stay in cache.
"""

from collections.abc import Sequence

from torch import Tensor

from ...impls import resolve
from ...types import Impl, MhcPreBackward, MhcPreSinkhornForward
from ..common.checking import check_out
from ..common.numerics import residual_logits
from ..common.outputs import without_autocast
from ..pre import dispatch as pre
from ..sinkhorn import dispatch as sinkhorn
from .checks import BACKWARD, FORWARD, Numbers, plan_backward, plan_forward


def forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: Numbers,
    impl: Impl,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreSinkhornForward:
    _, layout = plan_forward(FORWARD, (x, phi, alpha, bias, gamma))
    of_pre, of_sinkhorn = None, None
    if out is not None:
        check_out(FORWARD, out, layout, x)
        of_pre, of_sinkhorn = (*out[:2], None, *out[3:]), (out[2], None, None)
    chosen = resolve(FORWARD, impl, x)
    gates, options = numbers
    made = pre.forward(x, phi, alpha, bias, gamma, gates, chosen, of_pre)
    h_in, h_post, logits, *saved = made
    assert logits is not None
    h_res = sinkhorn.forward(logits, options, False, chosen, of_sinkhorn).h_res
    return MhcPreSinkhornForward(h_in, h_post, h_res, *saved)


def backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    numbers: Numbers,
    impl: Impl,
    wanted: Sequence[bool],
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreBackward:
    saved = (inv_rms, h_mix, h_pre, h_post)
    grads = (grad_h_in, grad_h_post, grad_h_res)
    tensors = (x, phi, alpha, bias, *grads, *saved, gamma, grad_x_post)
    _, layout = plan_backward(BACKWARD, tensors, tuple(wanted))
    if out is not None:
        check_out(BACKWARD, out, layout, x)
    chosen = resolve(BACKWARD, impl, x)
    gates, options = numbers
    with without_autocast(x):
        logits = residual_logits(h_mix, inv_rms, alpha, bias)
    grad_logits = sinkhorn.backward(logits, grad_h_res, options, chosen)
    rest = (grad_h_in, grad_h_post, grad_logits, *saved, gamma, grad_x_post)
    return pre.backward(x, phi, alpha, *rest, gates, chosen, wanted, out)
