"""The boundary of two sublayers in one call, composed of the single operators."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..ops.post.api import mhc_post
from ..ops.pre.api import mhc_pre
from ..ops.sinkhorn.api import sinkhorn

_SINKHORN = ("num_iters", "eps", "eps_mode", "order", "temperature")


def mhc_post_pre(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    *parameters: Tensor | None,
    out_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """mhc_post of one sublayer and mhc_pre of the next, with sinkhorn where num_iters is given."""
    of_sinkhorn, options = _split(options)
    impl = options["impl"]
    x = mhc_post(x, h_res, h_out, h_post, bias=out_bias, impl=impl)
    h_in, h_post, mixed, x = mhc_pre(x, *parameters, **options)  # type: ignore[arg-type]
    if of_sinkhorn and mixed is not None:
        mixed = sinkhorn(mixed, impl=impl, **of_sinkhorn)
    return x, h_in, h_post, mixed


def post_pre_forward(*arguments: Any) -> tuple[Tensor, ...]:
    """x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias, 6 numbers of pre, 5 of sinkhorn,
    impl -> x_next, h_in, h_post, h_res, inv_rms, h_mix, h_pre.
    """
    x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias = arguments[:9]
    numbers, of_sinkhorn, impl = arguments[9:15], arguments[15:20], arguments[20]
    ops = torch.ops.mhc
    x_next = ops.post_forward(x, h_res, h_out, h_post, out_bias, impl)
    h_in, next_post, mixed, *saved = ops.pre_forward(
        x_next, phi, alpha, bias, gamma, *numbers, impl
    )
    if of_sinkhorn[0] is not None:
        mixed = ops.sinkhorn_forward(mixed, *of_sinkhorn, False, impl)[0]
    return (x_next, h_in, next_post, mixed, *saved)


def post_pre_backward(*arguments: Any) -> Sequence[Tensor]:
    """The arguments of mhc_post_pre_backward, the options of post_pre_forward, nine wanted."""
    x, h_res, h_out, h_post, phi, alpha, bias = arguments[:7]
    grad_x_next, grad_h_in, grad_h_post_next, grad_h_res_next = arguments[7:11]
    x_next, inv_rms, h_mix, h_pre, h_post_next, gamma, out_bias = arguments[11:18]
    numbers, of_sinkhorn, impl = arguments[18:24], arguments[24:29], arguments[29]
    wanted = arguments[30]
    ops = torch.ops.mhc
    if of_sinkhorn[0] is not None and grad_h_res_next is not None:
        logits = ops.pre_forward(x_next, phi, alpha, bias, gamma, *numbers, impl)[2]
        grad_h_res_next = ops.sinkhorn_backward(logits, grad_h_res_next, *of_sinkhorn, impl)
    g, *of_parameters = ops.pre_backward(
        *(x_next, phi, alpha, grad_h_in, grad_h_post_next, grad_h_res_next),
        *(inv_rms, h_mix, h_pre, h_post_next, gamma, grad_x_next),
        *(*numbers, impl, [True, *wanted[5:]]),
    )
    through = ops.post_backward(g, x, h_res, h_out, h_post, out_bias, impl, wanted[:5])
    return (*through, *of_parameters)


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    of_sinkhorn = {name: options[name] for name in _SINKHORN if name in options}
    return of_sinkhorn, {n: v for n, v in options.items() if n not in of_sinkhorn}
