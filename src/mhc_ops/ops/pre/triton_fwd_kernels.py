"""MhcPre in two Triton kernels.

mix: a program takes a block of tokens and a piece of every stream's columns, and leaves partial
sums of x @ phi^T and of x^2. out: a program takes a few tokens, adds their partial sums in order,
makes the gates, and mixes h_in in a second pass over x.
"""

import triton
import triton.language as tl

from ..common.triton_device import (
    dot_split,
    halved,
    is_finite,
    round_hf32,
    sigmoid,
    split,
    sum_squares,
    zeros,
)


@triton.jit
def project(
    x,
    phi_rows,
    gamma_row,
    d,
    d_ok,
    first_f,
    parts,
    squares,
    finite,
    ND: tl.constexpr,
    F: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
    X_PIECES: tl.constexpr,
    PHI_PIECES: tl.constexpr,
    HAS_GAMMA: tl.constexpr,
    HF32: tl.constexpr,
    FINITE: tl.constexpr,
):
    """Add a tile x [BT, BK] of one stream to parts (BLOCKS of [BT, BF]) and squares [BT, BK / 8].

    Without FINITE, x may hold infinities: they enter the largest products alone.
    """
    wide = x.to(tl.float32)
    more, all_finite = sum_squares(wide)
    squares += more
    finite = finite & all_finite
    if HAS_GAMMA:
        gamma = tl.load(gamma_row + d, mask=d_ok, other=0.0)
    if HF32:
        if HAS_GAMMA:
            wide = wide * gamma[None, :]
        wide = round_hf32(wide)
    top = wide.to(tl.bfloat16)
    if not FINITE:
        wide = tl.where(is_finite(wide), wide, 0.0)
    a0, a1, a2 = split(wide, X_PIECES)
    if FINITE:
        top = a0
    longer = ()
    for b in tl.static_range(BLOCKS):
        f = first_f + b * BF + tl.arange(0, BF)
        at = f[None, :].to(tl.int64) * ND + d[:, None]
        phi = tl.load(phi_rows + at, mask=d_ok[:, None] & (f < F)[None, :], other=0.0)
        if HF32:
            phi = round_hf32(phi)
        elif HAS_GAMMA:
            phi = phi * gamma[:, None]
        b0, b1, b2 = split(phi, PHI_PIECES)
        part = dot_split(top, a0, a1, a2, b0, b1, b2, parts[b], X_PIECES, PHI_PIECES)
        longer = longer + (part,)
    return longer, squares, finite


@triton.jit
def share_of_program(
    T,
    F: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Its first row of phi, its chunk of columns, its tokens [BT], and which of them there are."""
    GROUPS: tl.constexpr = (F + BF * BLOCKS - 1) // (BF * BLOCKS)
    CHUNKS: tl.constexpr = (D + CHUNK - 1) // CHUNK
    program = tl.program_id(0)
    first_f = program % GROUPS * (BF * BLOCKS)
    piece = (program // GROUPS) % CHUNKS
    tokens = (program // (GROUPS * CHUNKS)).to(tl.int64) * BT + tl.arange(0, BT)
    return first_f, piece, tokens, tokens < T


@triton.jit
def added(left, right, BLOCKS: tl.constexpr):
    total = ()
    for b in tl.static_range(BLOCKS):
        total = total + (left[b] + right[b],)
    return total


@triton.jit
def store_sums(
    mix,
    squares,
    sums,
    total,
    rows,
    token_ok,
    first_f,
    F: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """A program's sums at `rows` [BT] of mix [splits * T, F] and, by its first group, squares."""
    for b in tl.static_range(BLOCKS):
        f = first_f + b * BF + tl.arange(0, BF)
        to = mix + rows[:, None] * F + f[None, :]
        tl.store(to, sums[b], mask=token_ok[:, None] & (f < F)[None, :])
    for _ in tl.static_range(4):  # tiles have at most 16 times 8 columns
        if total.shape[1] > 1:
            total = halved(total)
    if first_f == 0:
        tl.store(squares + rows, tl.sum(total, 1), mask=token_ok)


@triton.jit
def _mix_columns(
    x_rows,
    x_stream,
    phi,
    gamma,
    start,
    token_ok,
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
    """Columns [start, start + CHUNK) of every stream: sums, squares, and whether all are finite.

    Every FLUSH columns the matrix unit's accumulator, which may truncate, is added to a sum that
    rounds.
    """
    HAS_GAMMA: tl.constexpr = gamma is not None
    sums = zeros(BLOCKS, BT, BF)
    squares = tl.zeros([BT, BK // 8], tl.float64)
    finite = tl.full([BT, BK // 8], 1, tl.int1)
    for first in range(start, start + CHUNK, FLUSH):
        parts = zeros(BLOCKS, BT, BF)
        for i in range(FLUSH // BK * N):
            stream = i % N
            d = first + i // N * BK + tl.arange(0, BK)
            d_ok = d < D
            x = tl.load(
                x_rows + stream * x_stream + d[None, :],
                mask=token_ok[:, None] & d_ok[None, :],
                other=0.0,
            )
            gamma_row = gamma
            if HAS_GAMMA:
                gamma_row = gamma + stream * D
            parts, squares, finite = project(
                x, phi + stream * D, gamma_row, d, d_ok, first_f, parts, squares, finite,
                N * D, F, BF, BLOCKS, X_PIECES, PHI_PIECES, HAS_GAMMA, HF32, FINITE,
            )  # fmt: skip
        sums = added(sums, parts, BLOCKS)
    return sums, squares, finite


@triton.jit(do_not_specialize=["T"])
def pre_mix_fwd_kernel(
    x,
    phi,
    gamma,
    mix,
    squares,
    T,
    x_token,
    x_stream,
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
    """mix [splits, T, F] and squares [splits, T] (float64); a split is a chunk of columns."""
    first_f, piece, tokens, token_ok = share_of_program(T, F, D, BT, BF, BLOCKS, CHUNK)
    x_rows = x + tokens[:, None] * x_token
    step = tl.cast(x_stream, tl.int64)
    sums, total, finite = _mix_columns(
        x_rows, step, phi, gamma, piece * CHUNK, token_ok, first_f,
        N, F, D, BT, BK, BF, BLOCKS, CHUNK, FLUSH, X_PIECES, PHI_PIECES, HF32, True,
    )  # fmt: skip
    if tl.min(tl.min(finite.to(tl.int32), 1), 0) == 0:
        sums, total, finite = _mix_columns(
            x_rows, step, phi, gamma, piece * CHUNK, token_ok, first_f,
            N, F, D, BT, BK, BF, BLOCKS, CHUNK, FLUSH, X_PIECES, PHI_PIECES, HF32, False,
        )  # fmt: skip
    rows = piece.to(tl.int64) * T + tokens
    store_sums(mix, squares, sums, total, rows, token_ok, first_f, F, BF, BLOCKS)


@triton.jit
def _part(
    mix, h_mix, inv, alpha, bias, part, tokens, T, column, ok, F: tl.constexpr, SPLITS: tl.constexpr
):
    """One part's logits [BT, columns]; its splits are added in order and stored as h_mix."""
    at = tokens[:, None] * F + column[None, :]
    mixed = tl.load(mix + at, mask=ok, other=0.0)
    for piece in range(1, SPLITS):
        mixed += tl.load(mix + piece * T * F + at, mask=ok, other=0.0)
    tl.store(h_mix + at, mixed, mask=ok)
    offset = tl.load(bias + column, mask=column < F, other=0.0)
    return mixed * inv[:, None] * tl.load(alpha + part) + offset[None, :]


@triton.jit(do_not_specialize=["T"])
def pre_out_fwd_kernel(
    x,
    mix,
    squares,
    alpha,
    bias,
    h_in,
    h_post,
    h_res,
    inv_rms,
    h_mix,
    h_pre,
    T,
    x_token,
    x_stream,
    norm_eps,
    hc_eps,
    post_scale,
    post_eps,
    N: tl.constexpr,
    D: tl.constexpr,
    R: tl.constexpr,
    NP: tl.constexpr,
    RP: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
    SPLITS: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
):
    F: tl.constexpr = 2 * N + R
    T = T.to(tl.int64)
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T

    total = tl.load(squares + tokens, mask=token_ok, other=1.0)
    for piece in range(1, SPLITS):
        total += tl.load(squares + piece * T + tokens, mask=token_ok, other=1.0)
    mean = total / (N * D)
    if EPS_OUTSIDE:
        inv = (1.0 / (tl.sqrt(mean) + norm_eps)).to(tl.float32)
    else:
        inv = (1.0 / tl.sqrt(mean + norm_eps)).to(tl.float32)
    tl.store(inv_rms + tokens, inv, mask=token_ok)

    n = tl.arange(0, NP)
    ok = token_ok[:, None] & (n < N)[None, :]
    z = _part(mix, h_mix, inv, alpha, bias, 0, tokens, T, n, ok, F, SPLITS)
    gates = sigmoid(z) + hc_eps
    tl.store(h_pre + tokens[:, None] * N + n[None, :], gates, mask=ok)
    z = _part(mix, h_mix, inv, alpha, bias, 1, tokens, T, N + n, ok, F, SPLITS)
    post = post_scale * sigmoid(z) + post_eps
    tl.store(h_post + tokens[:, None] * N + n[None, :], post, mask=ok)
    if R:
        r = tl.arange(0, RP)
        r_ok = token_ok[:, None] & (r < R)[None, :]
        z = _part(mix, h_mix, inv, alpha, bias, 2, tokens, T, 2 * N + r, r_ok, F, SPLITS)
        tl.store(h_res + tokens[:, None] * R + r[None, :], z, mask=r_ok)

    gates = tl.where(ok, gates, 0.0)[:, :, None]
    rows = x + (tokens[:, None] * x_token + n[None, :].to(tl.int64) * x_stream)[:, :, None]
    for begin in range(0, D, BD):
        d = begin + tl.arange(0, BD)
        d_ok = d < D
        streams = tl.load(
            rows + d[None, None, :], mask=ok[:, :, None] & d_ok[None, None, :], other=0.0
        )
        mixed = tl.sum(gates * streams.to(tl.float32), 1)
        to = h_in + tokens[:, None] * D + d[None, :]
        tl.store(to, mixed.to(h_in.dtype.element_ty), mask=token_ok[:, None] & d_ok[None, :])
