"""The forward of the boundary in Triton: MhcPost and the projection of MhcPre in one kernel.

A program takes a block of tokens and a piece of every stream's columns, reads x and h_out once,
writes x_next, and leaves the partial sums that pre's `out` kernel adds. Both halves are the device
functions of their rooms, so x_next and the sums have the bits of the separate operators.
"""

import triton
import triton.language as tl

from ..common.triton_device import zeros
from ..post.triton_kernels import next_stream, stream_tiles, sublayer_output
from ..pre.triton_fwd_kernels import added, project, share_of_program, store_sums


@triton.jit
def _columns(
    x_rows,
    x_step,
    h_res,
    h_out,
    h_post,
    out_bias,
    x_next,
    phi,
    gamma,
    tokens,
    token_ok,
    h_out_token,
    start,
    first_f,
    N: tl.constexpr,
    F: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
    CHUNK: tl.constexpr,
    FLUSH: tl.constexpr,
    X_PIECES: tl.constexpr,
    PHI_PIECES: tl.constexpr,
    HF32: tl.constexpr,
    FINITE: tl.constexpr,
):
    """Columns [start, start + CHUNK) of x_next, and what pre's _mix_columns returns for them."""
    HAS_GAMMA: tl.constexpr = gamma is not None
    HELD: tl.constexpr = h_res is not None and N <= 4  # more do not fit into registers
    sums = zeros(BLOCKS, BT, BF)
    squares = tl.zeros([BT, BK // 8], tl.float64)
    finite = tl.full([BT, BK // 8], 1, tl.int1)
    for first in range(start, start + CHUNK, FLUSH):
        parts = zeros(BLOCKS, BT, BF)
        for begin in range(first, first + FLUSH, BK):
            d = begin + tl.arange(0, BK)
            d_ok = d < D
            ok = token_ok[:, None] & d_ok[None, :]
            y = sublayer_output(h_out, out_bias, tokens[:, None] * h_out_token, d, d_ok, ok)
            streams = ()
            if HELD:
                streams = stream_tiles(x_rows, x_step, d, ok, N)
            for to in range(N):
                total = next_stream(
                    streams, x_rows, x_step, h_res, h_post, y, tokens, token_ok, to, d, ok, N
                )
                rounded = total.to(x_next.dtype.element_ty)
                if first_f == 0:
                    at = tokens[:, None] * (N * D) + to * D + d[None, :]
                    tl.store(x_next + at, rounded, mask=ok)
                gamma_row = gamma
                if HAS_GAMMA:
                    gamma_row = gamma + to * D
                parts, squares, finite = project(
                    rounded, phi + to * D, gamma_row, d, d_ok, first_f, parts, squares, finite,
                    N * D, F, BF, BLOCKS, X_PIECES, PHI_PIECES, HAS_GAMMA, HF32, FINITE,
                )  # fmt: skip
        sums = added(sums, parts, BLOCKS)
    return sums, squares, finite


@triton.jit(do_not_specialize=["T"])
def post_pre_mix_fwd_kernel(
    x,
    h_res,
    h_out,
    h_post,
    out_bias,
    x_next,
    phi,
    gamma,
    mix,
    squares,
    T,
    x_token,
    x_stream,
    h_out_token,
    N: tl.constexpr,
    D: tl.constexpr,
    F: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
    CHUNK: tl.constexpr,
    FLUSH: tl.constexpr,
    X_PIECES: tl.constexpr,
    PHI_PIECES: tl.constexpr,
    HF32: tl.constexpr,
):
    """x_next [T, N, D]; mix and squares as pre_mix_fwd_kernel leaves them for x_next."""
    first_f, piece, tokens, token_ok = share_of_program(T, F, D, BT, BF, BLOCKS, CHUNK)
    x_rows = x + tokens[:, None] * x_token
    step = tl.cast(x_stream, tl.int64)
    sums, total, finite = _columns(
        x_rows, step, h_res, h_out, h_post, out_bias, x_next, phi, gamma, tokens, token_ok,
        h_out_token, piece * CHUNK, first_f,
        N, F, D, BT, BK, BF, BLOCKS, CHUNK, FLUSH, X_PIECES, PHI_PIECES, HF32, True,
    )  # fmt: skip
    if tl.min(tl.min(finite.to(tl.int32), 1), 0) == 0:
        sums, total, finite = _columns(
            x_rows, step, h_res, h_out, h_post, out_bias, x_next, phi, gamma, tokens, token_ok,
            h_out_token, piece * CHUNK, first_f,
            N, F, D, BT, BK, BF, BLOCKS, CHUNK, FLUSH, X_PIECES, PHI_PIECES, HF32, False,
        )  # fmt: skip
    rows = piece.to(tl.int64) * T + tokens
    store_sums(mix, squares, sums, total, rows, token_ok, first_f, F, BF, BLOCKS)
