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
    x, token, stream = token_strides(sizes.lead, x)
    with on_device(x):
        precision = _precision(x, gamma, numbers, "PHI_PIECES")
        plan = tiles.mix(target(x.device), sizes.D, sizes.F, precision["X_PIECES"])
        splits = sizes.N * triton.cdiv(sizes.D, plan.chunk)
        mix = phi.new_empty(splits, sizes.T, sizes.F)
        squares = phi.new_empty(splits, sizes.T, dtype=torch.float64)
        groups = triton.cdiv(sizes.F, plan.features * plan.blocks)
        grid = triton.cdiv(sizes.T, plan.tile.tokens) * splits * groups
        launch(
            fwd.pre_mix_fwd_kernel,
            (grid,),
            *(x, phi, gamma, mix, squares, sizes.T, token, stream),
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
        row = stream_tile(sizes.N, sizes.D)
        launch(
            fwd.pre_out_fwd_kernel,
            (triton.cdiv(sizes.T, row.tokens),),
            *(x, mix, squares, alpha, bias, *out, sizes.T, token, stream),
            *(numbers.norm_eps, numbers.hc_eps, numbers.post_scale, numbers.post_eps),
            **_parts(sizes),
            BT=row.tokens,
            BD=row.columns,
            SPLITS=splits,
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
        g = phi.new_empty(sizes.T, sizes.F)
        coefficient = phi.new_empty(sizes.T)
        terms = phi.new_empty(sizes.T, sizes.F + 3)
        row = stream_tile(sizes.N, sizes.D)
        launch(
            bwd.pre_token_bwd_kernel,
            (triton.cdiv(sizes.T, row.tokens),),
            *(x, grad_h_in, grad_h_post, grad_h_res, inv_rms, h_mix, h_pre, h_post, alpha),
            *(g, coefficient, terms, sizes.T, *x_steps, grad_step),
            *(numbers.hc_eps, numbers.post_scale, numbers.post_eps),
            **_parts(sizes),
            BT=row.tokens,
            BD=row.columns,
            warps=row.warps,
        )
        if out.grad_alpha is not None or out.grad_bias is not None:
            sums = phi.new_empty(sizes.F + 3)
            token_sum(terms, sums)
            if out.grad_bias is not None:
                out.grad_bias.copy_(sums[: sizes.F])
            if out.grad_alpha is not None:
                out.grad_alpha.copy_(sums[sizes.F :][: len(alpha)])
        if out.grad_x is None and out.grad_phi is None and out.grad_gamma is None:
            return
        given = (x, grad_h_in, grad_x_post, g, coefficient, inv_rms, h_pre, phi, gamma)
        steps = (*x_steps, grad_step, *post_steps)
        _main(sizes, given, steps, numbers, out)


def _main(
    sizes: PreSizes, given: Any, steps: Any, numbers: PreNumbers, out: MhcPreBackward
) -> None:
    """grad_x, grad_phi and grad_gamma."""
    x, phi, gamma = given[0], given[-2], given[-1]
    precision = _precision(x, gamma, numbers, "P_PIECES")
    plan = tiles.main(target(x.device), sizes.D, sizes.F, precision["X_PIECES"])
    groups = triton.cdiv(sizes.F, plan.features * plan.blocks)
    columns = sizes.N * triton.cdiv(sizes.D, plan.tile.columns)
    superblocks = triton.cdiv(sizes.T, SUPERBLOCK)
    # Either way a superblock's sum starts from zero and sums are added in order: the same bits.
    walk = groups == 1 and (superblocks == 1 or 5 * columns >= 3 * processors(x.device))
    # Folded, gamma's gradient needs g^T x of every row of phi: `final` has them where main has not.
    late_gamma = groups > 1 and gamma is not None and not numbers.hf32
    product, grad_gamma = out.grad_phi, None if late_gamma else out.grad_gamma
    if not walk:
        if product is not None or (late_gamma and out.grad_gamma is not None):
            product = phi.new_empty(superblocks, sizes.F, sizes.N * sizes.D)
        if grad_gamma is not None:
            grad_gamma = phi.new_empty(superblocks, sizes.N, sizes.D)
    launch(
        bwd.pre_main_bwd_kernel,
        (columns * groups * (1 if walk else superblocks),),
        *(*given, out.grad_x, product, grad_gamma, sizes.T, *steps, numbers.norm_eps),
        N=sizes.N,
        D=sizes.D,
        F=sizes.F,
        BT=plan.tile.tokens,
        BK=plan.tile.columns,
        BF=plan.features,
        BLOCKS=plan.blocks,
        **precision,
        EPS_OUTSIDE=numbers.norm_eps_outside,
        WALK=walk,
        SUPERBLOCK=SUPERBLOCK,
        warps=plan.tile.warps,
        stages=plan.tile.stages,
    )
    if walk:
        return
    if product is not None:
        _final(sizes, product, phi, gamma, numbers, out, late_gamma)
    if grad_gamma is not None and out.grad_gamma is not None:
        ordered_sum(grad_gamma, out.grad_gamma)


def _final(
    sizes: PreSizes,
    product: Tensor,
    phi: Tensor,
    gamma: Tensor | None,
    numbers: PreNumbers,
    out: MhcPreBackward,
    late_gamma: bool,
) -> None:
    tile, features = tiles.final(sizes.F)
    width = sizes.N * sizes.D
    grad_gamma = out.grad_gamma if late_gamma else None
    launch(
        bwd.pre_final_bwd_kernel,
        (triton.cdiv(width, tile.columns) * triton.cdiv(sizes.F, features),),
        *(product, phi, gamma, out.grad_phi, grad_gamma, len(product)),
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
