"""MhcPreBackward in Triton kernels.

token: a program takes one token and leaves g (the gradient of h_mix), the coefficient of the RMS
term, and the token's terms of grad_bias and grad_alpha. main: a program keeps a column block of one
stream and walks over tokens; it writes grad_x and sums g^T x, either to the end, or one superblock
a program with `final` to add them. The names are those of README.md.
"""

import triton
import triton.language as tl

from ..common.triton_device import dot_split, round_hf32, split, zeros


@triton.jit
def _part(
    a, alpha, part, tokens, token_ok, column, ok, inv, h_mix, terms, g, F: tl.constexpr
):  # fmt: skip
    """One part's columns [BT, ..]: stores a, g and sum a*w; returns sum m*w [BT]."""
    m = a * tl.load(alpha + part)
    at = tokens[:, None] * F + column[None, :]
    w = tl.load(h_mix + at, mask=ok, other=0.0) * inv[:, None]
    tl.store(g + at, m * inv[:, None], mask=ok)
    tl.store(terms + tokens[:, None] * (F + 3) + column[None, :], a, mask=ok)
    aw = tl.sum(tl.where(ok, a * w, 0.0), 1)
    tl.store(terms + tokens * (F + 3) + F + part, aw, mask=token_ok)
    return tl.sum(tl.where(ok, m * w, 0.0), 1)


@triton.jit(do_not_specialize=["T"])
def pre_token_bwd_kernel(
    x,
    grad_h_in,
    grad_h_post,
    grad_h_res,
    inv_rms,
    h_mix,
    h_pre,
    h_post,
    alpha,
    g,
    coefficient,
    terms,
    T,
    x_token,
    x_stream,
    grad_h_in_token,
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
):
    """g [T, F], coefficient [T], terms [T, F + 3]: a, then sum a*w of each part."""
    F: tl.constexpr = 2 * N + R
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T
    n = tl.arange(0, NP)
    ok = token_ok[:, None] & (n < N)[None, :]

    rows = x + (tokens[:, None] * x_token + n[None, :].to(tl.int64) * x_stream)[:, :, None]
    products = tl.zeros([BT, NP, BD], tl.float32)
    for begin in range(0, D, BD):
        d = begin + tl.arange(0, BD)
        d_ok = d < D
        at = tokens[:, None] * grad_h_in_token + d[None, :]
        grad = tl.load(grad_h_in + at, mask=token_ok[:, None] & d_ok[None, :], other=0.0)
        value = tl.load(
            rows + d[None, None, :], mask=ok[:, :, None] & d_ok[None, None, :], other=0.0
        )
        products += value.to(tl.float32) * grad.to(tl.float32)[:, None, :]
    dh_pre = tl.sum(products, 2)

    inv = tl.load(inv_rms + tokens, mask=token_ok, other=1.0)
    per_stream = tokens[:, None] * N + n[None, :]
    s = tl.load(h_pre + per_stream, mask=ok, other=0.0) - hc_eps
    a = dh_pre * s * (1.0 - s)
    slope = _part(a, alpha, 0, tokens, token_ok, n, ok, inv, h_mix, terms, g, F)
    p = tl.load(h_post + per_stream, mask=ok, other=0.0) - post_eps
    a = tl.load(grad_h_post + per_stream, mask=ok, other=0.0) * p * (1.0 - p / post_scale)
    slope += _part(a, alpha, 1, tokens, token_ok, N + n, ok, inv, h_mix, terms, g, F)
    if R:
        r = tl.arange(0, RP)
        r_ok = token_ok[:, None] & (r < R)[None, :]
        a = tl.load(grad_h_res + tokens[:, None] * R + r[None, :], mask=r_ok, other=0.0)
        slope += _part(a, alpha, 2, tokens, token_ok, 2 * N + r, r_ok, inv, h_mix, terms, g, F)
    else:
        tl.store(terms + tokens * (F + 3) + F + 2, tl.zeros([BT], tl.float32), mask=token_ok)
    tl.store(coefficient + tokens, slope * inv / (1.0 * N * D), mask=token_ok)


@triton.jit
def phi_block(
    phi, gamma, f, f_ok, column, column_ok, ND: tl.constexpr, FOLD: tl.constexpr, HF32: tl.constexpr
):
    """phi [BF, BK] as an operand: times gamma, or rounded."""
    at = f[:, None].to(tl.int64) * ND + column[None, :]
    block = tl.load(phi + at, mask=f_ok[:, None] & column_ok[None, :], other=0.0)
    if FOLD:
        block *= tl.load(gamma + column, mask=column_ok, other=0.0)[None, :]
    if HF32:
        block = round_hf32(block)
    return block


@triton.jit
def g_block(g, tokens, token_ok, f, f_ok, F: tl.constexpr, HF32: tl.constexpr):
    """g [BT, BF] as an operand."""
    block = tl.load(
        g + tokens[:, None] * F + f[None, :], mask=token_ok[:, None] & f_ok[None, :], other=0.0
    )
    return round_hf32(block) if HF32 else block


@triton.jit
def rms_slope(inv, norm_eps, EPS_OUTSIDE: tl.constexpr):
    """What the RMS term's coefficient multiplies x with."""
    slope = inv
    if EPS_OUTSIDE:
        rms = tl.div_rn(1.0, inv) - norm_eps
        slope = tl.where(rms > 0.0, tl.div_rn(1.0, tl.maximum(rms, 1e-38)), 0.0)
    return slope


@triton.jit
def _gamma_share(
    phi,
    parts,
    first,
    column,
    column_ok,
    ND: tl.constexpr,
    F: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """sum over f of phi * (g^T x), [BK], from parts of [BK, BF]."""
    share = tl.zeros([column.shape[0]], tl.float32)
    for b in tl.static_range(BLOCKS):
        f = first + b * BF + tl.arange(0, BF)
        raw = phi_block(phi, None, f, f < F, column, column_ok, ND, False, False)
        share += tl.sum(tl.trans(raw) * parts[b], 1)
    return share


@triton.jit(do_not_specialize=["T"])
def pre_main_bwd_kernel(
    x,
    grad_h_in,
    grad_x_post,
    g,
    coefficient,
    inv_rms,
    h_pre,
    phi,
    gamma,
    grad_x,
    product,
    grad_gamma,
    T,
    x_token,
    x_stream,
    grad_h_in_token,
    grad_x_post_token,
    grad_x_post_stream,
    norm_eps,
    N: tl.constexpr,
    D: tl.constexpr,
    F: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BF: tl.constexpr,
    BLOCKS: tl.constexpr,
    X_PIECES: tl.constexpr,
    P_PIECES: tl.constexpr,
    HF32: tl.constexpr,
    EPS_OUTSIDE: tl.constexpr,
    WALK: tl.constexpr,
    SUPERBLOCK: tl.constexpr,
):
    """A program has BLOCKS blocks of BF rows of phi; the first group of them makes grad_x.

    WALK: product [F, N*D] is grad_phi. Otherwise it holds each superblock's g^T x, [superblocks,
    ..]. grad_gamma is whole, [N, D], when one group walks; otherwise it holds each superblock's
    and group's share, [superblocks, groups, N, D].

    grad_x, product, grad_gamma may be None.
    """
    ND: tl.constexpr = N * D
    F_BLOCKS: tl.constexpr = (F + BF - 1) // BF
    GROUPS: tl.constexpr = (F_BLOCKS + BLOCKS - 1) // BLOCKS
    D_BLOCKS: tl.constexpr = (D + BK - 1) // BK
    HAS_GAMMA: tl.constexpr = gamma is not None
    FOLD: tl.constexpr = HAS_GAMMA and not HF32
    SCALE: tl.constexpr = HAS_GAMMA and HF32
    WANT_X: tl.constexpr = grad_x is not None
    DIRECT: tl.constexpr = SCALE and grad_gamma is not None
    FROM_PRODUCT: tl.constexpr = FOLD and grad_gamma is not None
    SHARES: tl.constexpr = GROUPS if FROM_PRODUCT else 1
    WHOLE_GAMMA: tl.constexpr = WALK and SHARES == 1
    WANT_P: tl.constexpr = product is not None or FROM_PRODUCT
    NEED_U: tl.constexpr = WANT_X or DIRECT
    KEEP_PHI: tl.constexpr = BLOCKS == 1 and NEED_U  # more blocks do not fit into registers

    group = tl.program_id(0) % GROUPS
    program = tl.program_id(0) // GROUPS
    stream = program % N  # neighbours share their columns of grad_h_in
    d = program // N % D_BLOCKS * BK + tl.arange(0, BK)
    d_ok = d < D
    column = stream * D + d
    first_f = group * (BLOCKS * BF)
    block = (program // (D_BLOCKS * N)).to(tl.int64)

    begin = block * SUPERBLOCK
    end = tl.minimum(begin + SUPERBLOCK, T)
    if WALK:
        end = T.to(tl.int64)

    gamma_row = tl.zeros([BK], tl.float32)
    if HAS_GAMMA:
        gamma_row = tl.load(gamma + column, mask=d_ok, other=0.0)
    if KEEP_PHI:
        f = first_f + tl.arange(0, BF)
        kept = phi_block(phi, gamma, f, f < F, column, d_ok, ND, FOLD, HF32)
        b0, b1, b2 = split(kept, P_PIECES)
    parts = zeros(BLOCKS, BK, BF)
    totals = zeros(BLOCKS, BK, BF)
    gamma_part = tl.zeros([BK], tl.float32)
    gamma_total = tl.zeros([BK], tl.float32)

    for first in range(begin, end, BT):
        tokens = first + tl.arange(0, BT).to(tl.int64)
        token_ok = tokens < T
        ok = token_ok[:, None] & d_ok[None, :]
        at = tokens[:, None] * x_token + stream.to(tl.int64) * x_stream + d[None, :]
        x_tile = tl.load(x + at, mask=ok, other=0.0)
        wide = x_tile.to(tl.float32)
        operand = wide
        if SCALE:
            operand = operand * gamma_row[None, :]
        if HF32:
            operand = round_hf32(operand)
        a0, a1, a2 = split(operand, X_PIECES)
        a0, a1, a2 = tl.trans(a0), tl.trans(a1), tl.trans(a2)

        u = tl.zeros([BT, BK], tl.float32)
        more = ()
        for b in tl.static_range(BLOCKS):
            f = first_f + b * BF + tl.arange(0, BF)
            g0, g1, g2 = split(g_block(g, tokens, token_ok, f, f < F, F, HF32), P_PIECES)
            if WANT_P:
                part = dot_split(a0, a0, a1, a2, g0, g1, g2, parts[b], X_PIECES, P_PIECES)
                more = more + (part,)
            if NEED_U and group == 0:
                if KEEP_PHI:
                    u = dot_split(g0, g0, g1, g2, b0, b1, b2, u, P_PIECES, P_PIECES)
                else:
                    c0, c1, c2 = split(
                        phi_block(phi, gamma, f, f < F, column, d_ok, ND, FOLD, HF32), P_PIECES
                    )
                    u = dot_split(g0, g0, g1, g2, c0, c1, c2, u, P_PIECES, P_PIECES)
        if WANT_P:
            parts = more

        if NEED_U and group == 0:
            for other in range(BLOCKS, F_BLOCKS):
                f = other * BF + tl.arange(0, BF)
                g0, g1, g2 = split(g_block(g, tokens, token_ok, f, f < F, F, HF32), P_PIECES)
                c0, c1, c2 = split(
                    phi_block(phi, gamma, f, f < F, column, d_ok, ND, FOLD, HF32), P_PIECES
                )
                u = dot_split(g0, g0, g1, g2, c0, c1, c2, u, P_PIECES, P_PIECES)
            if DIRECT:
                gamma_part += tl.sum(wide * u, 0)
            if SCALE:
                u = u * gamma_row[None, :]
            if WANT_X:
                inv = tl.load(inv_rms + tokens, mask=token_ok, other=1.0)
                gate = tl.load(h_pre + tokens * N + stream, mask=token_ok, other=0.0)
                c = tl.load(coefficient + tokens, mask=token_ok, other=0.0)
                slope = rms_slope(inv, norm_eps, EPS_OUTSIDE)
                grad = tl.load(
                    grad_h_in + tokens[:, None] * grad_h_in_token + d[None, :], mask=ok, other=0.0
                )
                u = grad.to(tl.float32) * gate[:, None] + u
                u = u - c[:, None] * (wide * slope[:, None])
                if grad_x_post is not None:
                    at = tokens[:, None] * grad_x_post_token + d[None, :]
                    at += stream.to(tl.int64) * grad_x_post_stream
                    u += tl.load(grad_x_post + at, mask=ok, other=0.0).to(tl.float32)
                to = grad_x + tokens[:, None] * ND + column[None, :]
                tl.store(to, u.to(grad_x.dtype.element_ty), mask=ok)

        if WALK and ((first + BT) % SUPERBLOCK == 0 or first + BT >= end):
            if FROM_PRODUCT:
                gamma_part = _gamma_share(phi, parts, first_f, column, d_ok, ND, F, BF, BLOCKS)
            if FROM_PRODUCT and not WHOLE_GAMMA:
                share = first // SUPERBLOCK * SHARES + group
                tl.store(grad_gamma + share * ND + column, gamma_part, mask=d_ok)
            gamma_total += gamma_part
            gamma_part = tl.zeros([BK], tl.float32)
            if WANT_P:
                more = ()
                for b in tl.static_range(BLOCKS):
                    more = more + (
                        totals[b] + (parts[b] * gamma_row[:, None] if FOLD else parts[b]),
                    )
                totals = more
                parts = zeros(BLOCKS, BK, BF)

    if not WALK:
        totals = parts
        gamma_total = gamma_part
        if FROM_PRODUCT:
            gamma_total = _gamma_share(phi, parts, first_f, column, d_ok, ND, F, BF, BLOCKS)
    if product is not None:
        for b in tl.static_range(BLOCKS):
            f = first_f + b * BF + tl.arange(0, BF)
            at = block * F * ND + f[None, :].to(tl.int64) * ND + column[:, None]
            tl.store(product + at, totals[b], mask=(f < F)[None, :] & d_ok[:, None])
    if FROM_PRODUCT and (WHOLE_GAMMA or not WALK):
        tl.store(grad_gamma + (block * SHARES + group) * ND + column, gamma_total, mask=d_ok)
    if DIRECT and group == 0:
        tl.store(grad_gamma + block * ND + column, gamma_total, mask=d_ok)


@triton.jit(do_not_specialize=["superblocks"])
def pre_final_bwd_kernel(
    product,
    gamma,
    grad_phi,
    superblocks,
    ND: tl.constexpr,
    F: tl.constexpr,
    BK: tl.constexpr,
    BF: tl.constexpr,
    FOLD: tl.constexpr,
):
    """Adds product [superblocks, F, N*D] in order, times gamma."""
    F_BLOCKS: tl.constexpr = (F + BF - 1) // BF
    column = (tl.program_id(0) // F_BLOCKS) * BK + tl.arange(0, BK)
    f = tl.program_id(0) % F_BLOCKS * BF + tl.arange(0, BF)
    ok = (f < F)[:, None] & (column < ND)[None, :]
    at = f[:, None].to(tl.int64) * ND + column[None, :]
    gamma_row = tl.zeros([BK], tl.float32)
    if FOLD:
        gamma_row = tl.load(gamma + column, mask=column < ND, other=0.0)
    total = tl.zeros([BF, BK], tl.float32)
    base = product
    for _ in range(superblocks):
        part = tl.load(base + at, mask=ok, other=0.0)
        total += part * gamma_row[None, :] if FOLD else part
        base += F * ND
    tl.store(grad_phi + at, total, mask=ok)
