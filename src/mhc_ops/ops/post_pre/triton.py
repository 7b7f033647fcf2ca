"""The boundary of two sublayers on GPUs: launches the Triton kernels beside this.

The forward writes x_next while it projects it, and pre's `out` kernel reads it once more for h_in;
where D is no multiple of 16, or x is float32, it runs the kernels of post, then those of pre, with
the same bits.
The backward makes x_next again from x where that is at hand, and keeps the gradient of x_next in
registers for up to four streams and 32 rows of phi; beyond, its tiles do not fit there, and it goes
through memory in float32 from pre's kernels to post's. Limits as in those rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ...types import (
    MhcPostBackward,
    MhcPostPreBackward,
    MhcPostPreForward,
    MhcPreBackward,
    MhcPreForward,
)
from ..common.outputs import fresh as fresh
from ..common.triton_host import (
    column_chunk,
    launch,
    on_device,
    pieces,
    target,
    token_strides,
)
from ..common.triton_table import chosen
from ..post import triton as post
from ..post.checks import PostSizes
from ..pre import triton as pre
from ..pre import triton_tiles as tiles
from .triton_bwd_kernels import post_pre_bwd_kernel
from .triton_kernels import post_pre_mix_fwd_kernel

if TYPE_CHECKING:
    from ..pre.checks import PreNumbers, PreSizes
    from .checks import BackwardInputs, ForwardInputs

# The fused kernels hold a tile of every stream: other sizes take more registers than there are.
_ALIGNED = 16  # columns
_FUSED_STREAMS, _FUSED_FEATURES = 4, 32


def forward(
    sizes: PreSizes, given: ForwardInputs, numbers: PreNumbers, out: MhcPostPreForward
) -> None:
    """h_res receives the logits."""
    if sizes.T == 0:
        return
    if sizes.D % _ALIGNED or given.x.dtype == torch.float32:
        _chained_forward(sizes, given, numbers, out)
        return
    x, *steps = token_strides(sizes.lead, given.x)
    h_out, h_out_step, _ = token_strides(sizes.lead, given.h_out)
    with on_device(x):
        mix, squares = pre.mixed(
            post_pre_mix_fwd_kernel,
            sizes,
            (x, given.h_res, h_out, given.h_post, given.out_bias, out.x_next),
            (*steps, h_out_step),
            given.phi,
            given.gamma,
            numbers,
        )
        pre.finish(
            sizes,
            out.x_next,
            (sizes.N * sizes.D, sizes.D),
            mix,
            squares,
            given.alpha,
            given.bias,
            numbers,
            MhcPreForward(*out[1:]),
        )


def _chained_forward(
    sizes: PreSizes, given: ForwardInputs, numbers: PreNumbers, out: MhcPostPreForward
) -> None:
    """The kernels of post, then those of pre: the same bits."""
    x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias = given
    post.forward(_post_sizes(sizes), x, h_res, h_out, h_post, out_bias, out.x_next)
    made = MhcPreForward(*out[1:])
    pre.forward(sizes, out.x_next, phi, alpha, bias, gamma, numbers, made)


def backward(
    sizes: PreSizes, given: BackwardInputs, numbers: PreNumbers, out: MhcPostPreBackward
) -> None:
    """grad_h_res_next holds the gradient of the logits."""
    if sizes.T > 0 and sizes.N <= _FUSED_STREAMS and sizes.F <= _FUSED_FEATURES:
        _fused_backward(sizes, given, numbers, out)
    else:
        _chained_backward(sizes, given, numbers, out)


def _fused_backward(
    sizes: PreSizes, given: BackwardInputs, numbers: PreNumbers, out: MhcPostPreBackward
) -> None:
    """The gradient of x_next stays in registers."""
    x, *x_steps = token_strides(sizes.lead, given.x)
    h_out, h_out_step, _ = token_strides(sizes.lead, given.h_out)
    x_next, *next_steps = token_strides(sizes.lead, given.x_next)
    grad_h_in, grad_h_in_step, _ = token_strides(sizes.lead, given.grad_h_in)
    grad_x_next, grad_steps = given.grad_x_next, [0, 0]
    if grad_x_next is not None:
        grad_x_next, *grad_steps = token_strides(sizes.lead, grad_x_next)
    of_pre = MhcPreBackward(None, *out[5:])
    with on_device(x):
        saved = (given.inv_rms, given.h_mix, given.h_pre, given.h_post_next)
        g, coefficient = pre.token_gradients(
            sizes,
            *(x_next, next_steps, given.alpha, grad_h_in, grad_h_in_step),
            *(given.grad_h_post_next, given.grad_h_res_next, saved, numbers, of_pre),
        )
        made = (g, coefficient, given.inv_rms, given.h_pre, given.phi, given.gamma)
        steps = (*next_steps, grad_h_in_step, 0, 0)
        pre.main(sizes, (x_next, grad_h_in, None, *made), steps, numbers, of_pre)
        if all(grad is None for grad in out[:5]):
            return
        tile = tiles.boundary_tile(target(x.device), sizes.D, sizes.F, pieces(x.dtype))
        if not numbers.hf32:
            tile = chosen("post_pre_bwd_kernel", x, sizes.N, sizes.F, tile)
        tile = tiles.narrowed(tile, sizes.D)
        chunk = column_chunk(tile, sizes.D)
        partial = post.Partial(sizes.T, sizes.D, tile, chunk, MhcPostBackward(*out[:5]))
        launch(
            post_pre_bwd_kernel,
            (partial.programs,),
            *(x, given.h_res, h_out, given.h_post, given.out_bias),
            *(grad_x_next, grad_h_in, *made, *partial.grads, sizes.T),
            *(*x_steps, h_out_step, *grad_steps, grad_h_in_step, numbers.norm_eps),
            N=sizes.N,
            D=sizes.D,
            F=sizes.F,
            BT=tile.tokens,
            BK=tile.columns,
            BF=tiles.features_block(sizes.F),
            CHUNK=chunk,
            P_PIECES=2 if numbers.hf32 else 3,
            HF32=numbers.hf32,
            EPS_OUTSIDE=numbers.norm_eps_outside,
            warps=tile.warps,
            stages=tile.stages,
        )
        partial.add()


def _chained_backward(
    sizes: PreSizes, given: BackwardInputs, numbers: PreNumbers, out: MhcPostPreBackward
) -> None:
    """The kernels of pre, then those of post; between them the gradient of x_next in float32."""
    reaches_x = any(grad is not None for grad in out[:5])
    grad_x_next = given.phi.new_empty(given.x_next.shape) if reaches_x else None
    pre.backward(
        sizes,
        given.x_next,
        given.phi,
        given.alpha,
        given.grad_h_in,
        given.grad_h_post_next,
        given.grad_h_res_next,
        given.inv_rms,
        given.h_mix,
        given.h_pre,
        given.h_post_next,
        given.gamma,
        given.grad_x_next,
        numbers,
        MhcPreBackward(grad_x_next, *out[5:]),
    )
    if grad_x_next is not None:
        post.backward(
            _post_sizes(sizes),
            grad_x_next,
            given.x,
            given.h_res,
            given.h_out,
            given.h_post,
            given.out_bias,
            MhcPostBackward(*out[:5]),
        )


def _post_sizes(sizes: PreSizes) -> PostSizes:
    return PostSizes(sizes.lead, sizes.T, sizes.N, sizes.D)
