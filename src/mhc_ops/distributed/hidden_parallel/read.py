"""MhcPre, alone or with Sinkhorn, where each rank holds some channels of every token."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...convention import Convention
from ...ops.common.outputs import without_autocast
from ...ops.pre import blocked
from ...ops.pre.api import reoriented
from ...ops.pre.autograd import zeros_for_unused
from ...ops.pre.checks import (
    HC_EPS,
    NORM_EPS,
    POST_EPS,
    PreNumbers,
    PreSizes,
    backward_layout,
    check_forward,
    forward_layout,
    pre_numbers,
)
from ...ops.pre_sinkhorn.checks import check_forward as check_with_sinkhorn
from ...ops.pre_sinkhorn.checks import pre_sinkhorn_numbers
from ...ops.sinkhorn.api import sinkhorn_backward, sinkhorn_forward
from ...ops.sinkhorn.checks import (
    EPS,
    EPS_MODE,
    NUM_ITERS,
    ORDER,
    TEMPERATURE,
    SinkhornNumbers,
)
from ...types import MhcPre, MhcPreBackward, MhcPreForward, MhcPreSinkhorn
from .collectives import Group, group_size, packed_sum, refuse_dtensors, settled


def mhc_pre(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    group: Group,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
) -> MhcPre:
    """Differentiable MhcPre on this rank's share of the channels; ranks hold equal shares.

    Same as mhc_ops.mhc_pre of the whole, but that D/P channels of x, phi, gamma and h_in are here,
    where P is the size of `group`.

    Args:
        x: [.., N, D/P]. phi: [F, N*D/P], in each stream the columns of this rank's channels
            (`shard_columns`). gamma: [N, D/P] or None.
        alpha [3] or [2], bias [F]: whole, the same on every rank.
        group: the ranks that share the channels, a process group or a mesh of one dimension.
        norm_eps, hc_eps, post_eps, convention, precision: as in mhc_ops.mhc_pre.

    Returns:
        MhcPre(h_in [.., D/P], h_post, h_res_logits, x); the gates have the same bits on every rank.

    Gradients: of x, phi and gamma for this share; of alpha and bias whole, the same bits on every
    rank. The gradients that arrive for h_post and h_res_logits must be whole, as
    `hidden_parallel.mhc_post` gives them. Forward and backward all-reduce once each: F + 1 and N
    numbers a token. First derivatives only. Torch operations over blocks of tokens; the mean square
    crosses the ranks in float32 and overflows from |x| of 1e19 on. torch.compile leaves the call
    between two graphs.

    Raises: as mhc_ops.mhc_pre; ArgumentError for a group that is none.
    """
    op = "hidden_parallel.mhc_pre"
    numbers = pre_numbers(op, norm_eps, hc_eps, post_eps, precision, convention)
    h_in, h_post, h_res, handed_on = _read(op, (x, phi, alpha, bias, gamma), numbers, None, group)
    return MhcPre(h_in, h_post, reoriented(h_res, x, convention), handed_on)


def mhc_pre_sinkhorn(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    group: Group,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    precision: str = "fp32",
) -> MhcPreSinkhorn:
    """Differentiable MhcPre and Sinkhorn on this rank's share of the channels.

    Arguments, gradients, collectives and errors as in `hidden_parallel.mhc_pre`, and Sinkhorn's as
    in mhc_ops.sinkhorn. In the backward the all-reduce is in flight while Sinkhorn is
    differentiated.

    Returns: MhcPreSinkhorn(h_in [.., D/P], h_post, h_res, x).
    """
    op = "hidden_parallel.mhc_pre_sinkhorn"
    numbers, steps = pre_sinkhorn_numbers(
        op, norm_eps, hc_eps, post_eps, num_iters, eps, eps_mode, order, temperature,
        precision, convention,
    )  # fmt: skip
    h_in, h_post, h_res, handed_on = _read(op, (x, phi, alpha, bias, gamma), numbers, steps, group)
    turned: Any = reoriented(h_res, x, convention)
    return MhcPreSinkhorn(h_in, h_post, turned, handed_on)


def _read(
    op: str,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None],
    numbers: PreNumbers,
    steps: SinkhornNumbers | None,
    group: Group,
) -> tuple[Any, ...]:
    refuse_dtensors(op, *inputs)
    check = check_forward if steps is None else check_with_sinkhorn
    sizes = check(*inputs, op)
    channels = sizes.D * group_size(op, group)
    h_in, h_post, h_res, handed_on = _read_function(*inputs, sizes, numbers, steps, group, channels)
    return h_in, h_post, h_res if sizes.R else None, handed_on


class _ReadFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor | None, ...]:
        x, phi, alpha, bias, gamma, sizes, numbers, steps, group, channels = args
        with without_autocast(x):
            means, mixes = blocked.token_sums(sizes, x, phi, gamma, numbers)
            share = (means * (sizes.D / channels)).to(phi.dtype)
            mixes, share = (settled(t) for t in packed_sum([mixes, share[..., None]], group))
            reduced = (share[..., 0].to(means.dtype), mixes)
            out = MhcPreForward(*_fresh(x, forward_layout(sizes, x, phi)))
            blocked.forward(sizes, x, phi, alpha, bias, gamma, numbers, out, reduced)
        logits: Any = out.h_res
        h_res = logits if steps is None else sinkhorn_forward(logits, **steps._asdict()).h_res
        saved = (out.inv_rms, out.h_mix, out.h_pre, out.h_post)
        ctx.save_for_backward(x, phi, alpha, gamma, *saved, None if steps is None else logits)
        ctx.sizes, ctx.numbers, ctx.steps, ctx.group, ctx.channels = args[5:]
        ctx.set_materialize_grads(False)
        return out.h_in, out.h_post, h_res, x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, phi, alpha, gamma, inv_rms, h_mix, h_pre, h_post, logits = ctx.saved_tensors
        sizes: PreSizes = ctx.sizes
        *of_gates, grad_x_post = (settled(g) for g in grads)
        needed = [*ctx.needs_input_grad[:5]]
        if all(g is None for g in of_gates):
            return (grad_x_post if needed[0] else None, *(None,) * 9)
        if len(alpha) == 2:
            of_gates[2] = None
        grad_h_in, grad_h_post, grad_h_res = zeros_for_unused(x, phi, alpha, h_post, *of_gates)
        with without_autocast(x):
            slopes = blocked.gate_slopes(sizes, x, grad_h_in, phi.dtype)
            (total,) = packed_sum([slopes], ctx.group)
            if logits is not None:
                of_mix: Any = grad_h_res
                grad_h_res = sinkhorn_backward(logits, of_mix, **ctx.steps._asdict())
            out = MhcPreBackward(*_fresh(x, backward_layout(sizes, x, phi, alpha, needed)))
            blocked.backward(
                sizes,
                x,
                phi,
                alpha,
                grad_h_in,
                grad_h_post,
                grad_h_res,
                inv_rms,
                h_mix,
                h_pre,
                h_post,
                gamma,
                grad_x_post,
                ctx.numbers,
                out,
                (ctx.channels, settled(total)),
            )
        return (*out, *(None,) * 5)


_read_function: Any = torch.compiler.disable(_ReadFunction.apply)


def _fresh(x: Tensor, layout: Sequence[Any]) -> list[Any]:
    return [None if spec is None else blocked.fresh(x, *spec) for spec in layout]
