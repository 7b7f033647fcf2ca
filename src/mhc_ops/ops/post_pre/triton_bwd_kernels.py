"""The backward of the boundary in Triton, for up to four streams.

A program takes a block of tokens and a piece of every stream's columns. It makes x_next again from
x, which MhcPost's gradients need anyway, and the gradient of x_next as pre's `main` kernel does; it
keeps that in registers and goes on to MhcPost's gradients. The names are those of README.md.
"""

import triton
import triton.language as tl

from ..common.triton_device import dot_split, split
from ..post.triton_kernels import (
    next_stream,
    store_token_sums,
    stream_tiles,
    sublayer_output,
    tile_gradients,
    token_sums,
)
from ..pre.triton_bwd_kernels import g_block, phi_block, rms_slope


@triton.jit
def _next_gradients(
    x_rows,
    x_step,
    h_res,
    h_post,
    y,
    grad_x_next,
    grad_in,
    g0,
    g1,
    g2,
    phi,
    gamma,
    h_pre,
    tokens,
    token_ok,
    coefficient,
    slope,
    grad_step,
    d,
    d_ok,
    ok,
    N: tl.constexpr,
    D: tl.constexpr,
    F: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BF: tl.constexpr,
    P_PIECES: tl.constexpr,
    HF32: tl.constexpr,
):
    """The gradients of x_next, a tuple of N tiles [BT, BK] in float32.

    x_rows and grad_x_next point at the rows of stream 0.
    """
    HAS_GAMMA: tl.constexpr = gamma is not None
    streams = ()
    if h_res is not None:
        streams = stream_tiles(x_rows, x_step, d, ok, N)
    plain = ()
    for n in tl.static_range(N):
        stream = next_stream(
            streams, x_rows, x_step, h_res, h_post, y, tokens, token_ok, n, d, ok, N
        ).to(x_rows.dtype.element_ty)
        gate = tl.load(h_pre + tokens * N + n, mask=token_ok, other=0.0)
        v = grad_in * gate[:, None] - coefficient[:, None] * (
            stream.to(tl.float32) * slope[:, None]
        )
        if grad_x_next is not None:
            other = tl.load(grad_x_next + n * grad_step + d[None, :], mask=ok, other=0.0)
            v += other.to(tl.float32)
        plain = plain + (v,)
    f = tl.arange(0, BF)
    made = ()
    for n in tl.static_range(N):
        column = n * D + d
        block = phi_block(phi, gamma, f, f < F, column, d_ok, N * D, HAS_GAMMA and not HF32, HF32)
        b0, b1, b2 = split(block, P_PIECES)
        u = tl.zeros([BT, BK], tl.float32)
        u = dot_split(g0, g0, g1, g2, b0, b1, b2, u, P_PIECES, P_PIECES)
        if HAS_GAMMA and HF32:
            u = u * tl.load(gamma + column, mask=d_ok, other=0.0)[None, :]
        made = made + (plain[n] + u,)
    return made


@triton.jit(do_not_specialize=["T"])
def post_pre_bwd_kernel(
    x,
    h_res,
    h_out,
    h_post,
    out_bias,
    grad_x_next,
    grad_h_in,
    g,
    coefficient,
    inv_rms,
    h_pre,
    phi,
    gamma,
    grad_x,
    grad_h_res,
    grad_h_out,
    grad_h_post,
    grad_out_bias,
    T,
    x_token,
    x_stream,
    h_out_token,
    grad_token,
    grad_stream,
    grad_h_in_token,
    norm_eps,
    N: tl.constexpr,
    D: tl.constexpr,
    F: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BF: tl.constexpr,
    CHUNK: tl.constexpr,
    P_PIECES: tl.constexpr,
    HF32: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
):
    """The gradients as post_bwd_kernel leaves them."""
    CHUNKS: tl.constexpr = (D + CHUNK - 1) // CHUNK
    piece = tl.program_id(0) % CHUNKS
    block = (tl.program_id(0) // CHUNKS).to(tl.int64)
    tokens = block * BT + tl.arange(0, BT)
    token_ok = tokens < T
    x_rows = x + tokens[:, None] * x_token
    step = tl.cast(x_stream, tl.int64)
    grad_rows = grad_x_next
    if grad_x_next is not None:
        grad_rows = grad_x_next + tokens[:, None] * grad_token

    inv = tl.load(inv_rms + tokens, mask=token_ok, other=1.0)
    slope = rms_slope(inv, norm_eps, EPS_OUTSIDE)
    c = tl.load(coefficient + tokens, mask=token_ok, other=0.0)
    f = tl.arange(0, BF)
    g0, g1, g2 = split(g_block(g, tokens, token_ok, f, f < F, F, HF32), P_PIECES)
    bias_row = grad_out_bias
    if grad_out_bias is not None:
        bias_row = grad_out_bias + block * D
    of_res = token_sums(grad_h_res, BT, N * N)
    of_post = token_sums(grad_h_post, BT, N)

    for begin in range(piece * CHUNK, piece * CHUNK + CHUNK, BK):
        d = begin + tl.arange(0, BK)
        d_ok = d < D
        ok = token_ok[:, None] & d_ok[None, :]
        grad_in = tl.load(
            grad_h_in + tokens[:, None] * grad_h_in_token + d[None, :], mask=ok, other=0.0
        ).to(tl.float32)
        y = sublayer_output(h_out, out_bias, tokens[:, None] * h_out_token, d, d_ok, ok)
        grads = _next_gradients(
            x_rows, step, h_res, h_post, y, grad_rows, grad_in, g0, g1, g2, phi, gamma, h_pre,
            tokens, token_ok, c, slope, tl.cast(grad_stream, tl.int64),
            d, d_ok, ok, N, D, F, BT, BK, BF, P_PIECES, HF32,
        )  # fmt: skip
        of_res, of_post = tile_gradients(
            grads, of_res, of_post, x_rows, step, h_res, h_out, h_post, out_bias,
            grad_x, grad_h_out, bias_row, tokens, token_ok, h_out_token, d, d_ok, ok, N, D,
        )  # fmt: skip
    rows = piece.to(tl.int64) * T + tokens
    if grad_h_res is not None:
        store_token_sums(grad_h_res, of_res, rows, token_ok, N * N)
    if grad_h_post is not None:
        store_token_sums(grad_h_post, of_post, rows, token_ok, N)
