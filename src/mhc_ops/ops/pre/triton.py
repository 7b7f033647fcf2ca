"""MhcPre and MhcPreBackward on GPUs: grids, tiles and scratch of the Triton kernels beside this.

Limits: x in bfloat16, float16 or float32. x, grad_h_in and grad_x_post are read in place when their
last dimension is contiguous and tokens lie at one stride, and copied otherwise. Tiles depend on N,
D, F and dtypes, never on T, so that a token's bits depend on nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor

from ...types import MhcPreBackward, MhcPreForward
from ..common.numerics import SUPERBLOCK
from ..common.outputs import fresh as fresh
from ..common.triton_host import (
    launch,
    on_device,
    pieces,
    processors,
    stream_tile,
    target,
    token_strides,
)
from ..common.triton_sums import ordered_sum, token_sum
from ..common.triton_table import chosen
from . import triton_bwd_kernels as bwd
from . import triton_fwd_kernels as fwd
from . import triton_tiles as tiles

if TYPE_CHECKING:
    from .checks import PreNumbers, PreSizes


def forward(
    sizes: PreSizes,
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: PreNumbers,
    out: MhcPreForward,
) -> None:
    """Compute every entry of `out` (contiguous tensors; h_res may be None)."""
    if sizes.T == 0:
        return
    x, *steps = token_strides(sizes.lead, x)
    with on_device(x):
        mix, squares = mixed(fwd.pre_mix_fwd_kernel, sizes, (x,), steps, phi, gamma, numbers)
        finish(sizes, x, steps, mix, squares, alpha, bias, numbers, out)


def mixed(
    kernel: Any,
    sizes: PreSizes,
    tensors: tuple[Tensor | None, ...],
    steps: Any,
    phi: Tensor,
    gamma: Tensor | None,
    numbers: PreNumbers,
) -> tuple[Tensor, Tensor]:
    """Partial sums [splits, T, F] and squares [splits, T] of the tokens that `kernel` makes of
    `tensors`, the first of which has their dtype and device.
    """
    x = tensors[0]
    assert x is not None
    precision = _precision(x, gamma, numbers, "PHI_PIECES")
    tile = tiles.mix_tile(target(x.device), sizes.D, sizes.F, precision["X_PIECES"])
    if not numbers.hf32:
        tile = chosen("pre_mix_fwd_kernel", x, sizes.N, sizes.F, tile)
    plan = tiles.mix(tile, sizes.N, sizes.D, sizes.F)
    splits = triton.cdiv(sizes.D, plan.chunk)
    mix = phi.new_empty(splits, sizes.T, sizes.F)
    squares = phi.new_empty(splits, sizes.T, dtype=torch.float64)
    groups = triton.cdiv(sizes.F, plan.features * plan.blocks)
    launch(
        kernel,
        (triton.cdiv(sizes.T, plan.tile.tokens) * splits * groups,),
        *(*tensors, phi, gamma, mix, squares, sizes.T, *steps),
        N=sizes.N,
        D=sizes.D,
        F=sizes.F,
        BT=plan.tile.tokens,
        BK=plan.tile.columns,
        BF=plan.features,
        BLOCKS=plan.blocks,
        CHUNK=plan.chunk,
        FLUSH=plan.flush,
        **precision,
        warps=plan.tile.warps,
        stages=plan.tile.stages,
    )
    return mix, squares


def finish(
    sizes: PreSizes,
    x: Tensor,
    steps: Any,
    mix: Tensor,
    squares: Tensor,
    alpha: Tensor,
    bias: Tensor,
    numbers: PreNumbers,
    out: MhcPreForward,
) -> None:
    """Every entry of `out` from the partial sums, and h_in from x."""
    row = stream_tile(sizes.N, sizes.D)
    launch(
        fwd.pre_out_fwd_kernel,
        (triton.cdiv(sizes.T, row.tokens),),
        *(x, mix, squares, alpha, bias, *out, sizes.T, *steps),
        *(numbers.norm_eps, numbers.hc_eps, numbers.post_scale, numbers.post_eps),
        **_parts(sizes),
        BT=row.tokens,
        BD=row.columns,
        SPLITS=len(mix),
        EPS_OUTSIDE=numbers.norm_eps_outside,
        warps=row.warps,
    )


def backward(
    sizes: PreSizes,
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    numbers: PreNumbers,
    out: MhcPreBackward,
) -> None:
    """Compute the entries of `out` that are not None (contiguous tensors)."""
    if sizes.T == 0:
        for grad in out[1:]:
            if grad is not None:
                grad.zero_()
        return
    x, *x_steps = token_strides(sizes.lead, x)
    grad_h_in, grad_step, _ = token_strides(sizes.lead, grad_h_in)
    post_steps = [0, 0]
    if grad_x_post is not None:
        grad_x_post, *post_steps = token_strides(sizes.lead, grad_x_post)
    with on_device(x):
        saved = (inv_rms, h_mix, h_pre, h_post)
        g, coefficient = token_gradients(
            sizes,
            *(x, x_steps, alpha, grad_h_in, grad_step, grad_h_post, grad_h_res, saved),
            *(numbers, out),
        )
        given = (x, grad_h_in, grad_x_post, g, coefficient, inv_rms, h_pre, phi, gamma)
        main(sizes, given, (*x_steps, grad_step, *post_steps), numbers, out)


def token_gradients(
    sizes: PreSizes,
    x: Tensor,
    x_steps: Any,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_step: int,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    saved: tuple[Tensor, ...],
    numbers: PreNumbers,
    out: MhcPreBackward,
) -> tuple[Tensor, Tensor]:
    """The gradients of h_mix [T, F] and the RMS term's coefficient [T]; grad_alpha, grad_bias."""
    g = alpha.new_empty(sizes.T, sizes.F)
    coefficient = alpha.new_empty(sizes.T)
    terms = alpha.new_empty(sizes.T, sizes.F + 3)
    row = stream_tile(sizes.N, sizes.D)
    launch(
        bwd.pre_token_bwd_kernel,
        (triton.cdiv(sizes.T, row.tokens),),
        *(x, grad_h_in, grad_h_post, grad_h_res, *saved, alpha),
        *(g, coefficient, terms, sizes.T, *x_steps, grad_step),
        *(numbers.hc_eps, numbers.post_scale, numbers.post_eps),
        **_parts(sizes),
        BT=row.tokens,
        BD=row.columns,
        warps=row.warps,
    )
    if out.grad_alpha is not None or out.grad_bias is not None:
        sums = alpha.new_empty(sizes.F + 3)
        token_sum(terms, sums)
        if out.grad_bias is not None:
            out.grad_bias.copy_(sums[: sizes.F])
        if out.grad_alpha is not None:
            out.grad_alpha.copy_(sums[sizes.F :][: len(alpha)])
    return g, coefficient


def main(sizes: PreSizes, given: Any, steps: Any, numbers: PreNumbers, out: MhcPreBackward) -> None:
    """grad_x, grad_phi and grad_gamma, those of them that are not None."""
    if out.grad_x is None and out.grad_phi is None and out.grad_gamma is None:
        return
    x, phi, gamma = given[0], given[-2], given[-1]
    if out.grad_x is None:
        given = (x, None, None, *given[3:])
    precision = _precision(x, gamma, numbers, "P_PIECES")
    tile = tiles.main_tile(target(x.device), sizes.D, sizes.F, precision["X_PIECES"])
    if not numbers.hf32:
        tile = chosen("pre_main_bwd_kernel", x, sizes.N, sizes.F, tile)
    tile, features, blocks = tiles.main(tile, processors(x.device), sizes.N, sizes.D, sizes.F)
    groups = triton.cdiv(sizes.F, features * blocks)
    programs = sizes.N * triton.cdiv(sizes.D, tile.columns) * groups
    superblocks = triton.cdiv(sizes.T, SUPERBLOCK)
    # Either way a superblock's sum starts from zero and sums are added in order: the same bits.
    walk = superblocks == 1 or programs >= tiles.least_programs(processors(x.device))
    shares = 1 if numbers.hf32 else groups
    product, grad_gamma = out.grad_phi, out.grad_gamma
    if product is not None and not walk:
        product = phi.new_empty(superblocks, sizes.F, sizes.N * sizes.D)
    if grad_gamma is not None and not (walk and shares == 1):
        grad_gamma = phi.new_empty(superblocks * shares, sizes.N, sizes.D)
    launch(
        bwd.pre_main_bwd_kernel,
        (programs * (1 if walk else superblocks),),
        *(*given, out.grad_x, product, grad_gamma, sizes.T, *steps, numbers.norm_eps),
        N=sizes.N,
        D=sizes.D,
        F=sizes.F,
        BT=tile.tokens,
        BK=tile.columns,
        BF=features,
        BLOCKS=blocks,
        **precision,
        EPS_OUTSIDE=numbers.norm_eps_outside,
        WALK=walk,
        SUPERBLOCK=SUPERBLOCK,
        warps=tile.warps,
        stages=tile.stages,
    )
    if out.grad_phi is not None and product is not None and not walk:
        _final(sizes, product, gamma, numbers, out.grad_phi)
    if grad_gamma is not None and out.grad_gamma is not None and grad_gamma is not out.grad_gamma:
        ordered_sum(grad_gamma, out.grad_gamma, shares)


def _final(
    sizes: PreSizes, product: Tensor, gamma: Tensor | None, numbers: PreNumbers, grad_phi: Tensor
) -> None:
    tile, features = tiles.final(sizes.F)
    width = sizes.N * sizes.D
    launch(
        bwd.pre_final_bwd_kernel,
        (triton.cdiv(width, tile.columns) * triton.cdiv(sizes.F, features),),
        *(product, gamma, grad_phi, len(product)),
        ND=width,
        F=sizes.F,
        BK=tile.columns,
        BF=features,
        FOLD=gamma is not None and not numbers.hf32,
        warps=tile.warps,
        stages=tile.stages,
    )


def _parts(sizes: PreSizes) -> dict[str, int]:
    return {
        "N": sizes.N,
        "D": sizes.D,
        "R": sizes.R,
        "NP": triton.next_power_of_2(sizes.N),
        "RP": triton.next_power_of_2(max(sizes.R, 1)),
    }


def _precision(x: Tensor, gamma: Tensor | None, numbers: PreNumbers, of_others: str) -> Any:
    """How many bfloat16 pieces hold x (times gamma) and the float32 operands."""
    of_x = pieces(x.dtype)
    if numbers.hf32:
        of_x = of_x if gamma is None and of_x < 2 else 2  # 11 bits
    return {"X_PIECES": of_x, of_others: 2 if numbers.hf32 else 3, "HF32": numbers.hf32}
