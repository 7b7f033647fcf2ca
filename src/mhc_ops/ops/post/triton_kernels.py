"""MhcPost and its backward in Triton: a program takes a few tokens and walks over their columns.

Streams are a dimension of the tile, padded to a power of two (NP). Names are those of README.md.
"""

import triton
import triton.language as tl


@triton.jit
def _streams(t, at, ok, d_ok):
    """[BT, NP, BD] of a [T, N, D] tensor, in float32."""
    tile = tl.load(t + at, mask=ok[:, :, None] & d_ok[None, None, :], other=0.0)
    return tile.to(tl.float32)


@triton.jit
def _rows(t, tokens, token_step, d, ok):
    """[BT, BD] of a [T, D] tensor, in float32."""
    return tl.load(t + tokens[:, None] * token_step + d[None, :], mask=ok, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["T"])
def post_fwd_kernel(
    x,
    h_res,
    h_out,
    h_post,
    bias,
    out,
    T,
    x_token,
    x_stream,
    h_out_token,
    N: tl.constexpr,
    D: tl.constexpr,
    NP: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T
    n = tl.arange(0, NP)
    ok = token_ok[:, None] & (n < N)[None, :]
    rows = (tokens[:, None] * x_token + n[None, :].to(tl.int64) * x_stream)[:, :, None]
    step = tl.cast(x_stream, tl.int64)
    for begin in range(0, D, BD):
        d = begin + tl.arange(0, BD)
        d_ok = d < D
        cell_ok = token_ok[:, None] & d_ok[None, :]
        y = _rows(h_out, tokens, h_out_token, d, cell_ok)
        if bias is not None:
            y += tl.load(bias + d, mask=d_ok, other=0.0)[None, :]
        streams = tl.zeros([1, 1, 1], tl.float32)
        if h_res is not None:
            streams = _streams(x, rows + d[None, None, :], ok, d_ok)
        for to in range(N):
            if h_res is not None:
                weights = tl.load(
                    h_res + tokens[:, None] * (N * N) + n[None, :] * N + to, mask=ok, other=0.0
                )
                mixed = tl.sum(weights[:, :, None] * streams, 1)
            else:
                mixed = _rows(x + to * step, tokens, x_token, d, cell_ok)
            gate = tl.load(h_post + tokens * N + to, mask=token_ok, other=0.0)
            mixed = mixed + gate[:, None] * y
            at = tokens[:, None] * (N * D) + to * D + d[None, :]
            tl.store(out + at, mixed.to(out.dtype.element_ty), mask=cell_ok)


@triton.jit(do_not_specialize=["T"])
def post_bwd_kernel(
    grad_out,
    x,
    h_res,
    h_out,
    h_post,
    bias,
    grad_x,
    grad_h_res,
    grad_h_out,
    grad_h_post,
    T,
    grad_token,
    grad_stream,
    x_token,
    x_stream,
    h_out_token,
    N: tl.constexpr,
    D: tl.constexpr,
    NP: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    """Any of the four gradients may be None."""
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T
    n = tl.arange(0, NP)
    ok = token_ok[:, None] & (n < N)[None, :]
    rows = (tokens[:, None] * grad_token + n[None, :].to(tl.int64) * grad_stream)[:, :, None]
    gates = tl.load(h_post + tokens[:, None] * N + n[None, :], mask=ok, other=0.0)
    step, grad_step = tl.cast(x_stream, tl.int64), tl.cast(grad_stream, tl.int64)
    of_res = tl.zeros([BT, NP, NP], tl.float32)  # [.., from, to]
    of_post = tl.zeros([BT, NP], tl.float32)
    for begin in range(0, D, BD):
        d = begin + tl.arange(0, BD)
        d_ok = d < D
        cell_ok = token_ok[:, None] & d_ok[None, :]
        grads = _streams(grad_out, rows + d[None, None, :], ok, d_ok)
        for origin in range(N):
            if grad_x is not None:
                if h_res is not None:
                    weights = tl.load(
                        h_res + tokens[:, None] * (N * N) + origin * N + n[None, :],
                        mask=ok,
                        other=0.0,
                    )
                    mixed = tl.sum(weights[:, :, None] * grads, 1)
                else:
                    mixed = _rows(grad_out + origin * grad_step, tokens, grad_token, d, cell_ok)
                at = tokens[:, None] * (N * D) + origin * D + d[None, :]
                tl.store(grad_x + at, mixed.to(grad_x.dtype.element_ty), mask=cell_ok)
            if grad_h_res is not None:
                stream = _rows(x + origin * step, tokens, x_token, d, cell_ok)
                sums = tl.sum(stream[:, None, :] * grads, 2)
                of_res += tl.where((n == origin)[None, :, None], sums[:, None, :], 0.0)
        if grad_h_out is not None:
            mixed = tl.sum(gates[:, :, None] * grads, 1)
            to = grad_h_out + tokens[:, None] * D + d[None, :]
            tl.store(to, mixed.to(grad_h_out.dtype.element_ty), mask=cell_ok)
        if grad_h_post is not None:
            y = _rows(h_out, tokens, h_out_token, d, cell_ok)
            if bias is not None:
                y += tl.load(bias + d, mask=d_ok, other=0.0)[None, :]
            of_post += tl.sum(y[:, None, :] * grads, 2)
    if grad_h_res is not None:
        at = tokens[:, None] * (N * N) + n[None, :] * N
        cells_ok = ok[:, :, None] & (n < N)[None, None, :]
        tl.store(grad_h_res + at[:, :, None] + n[None, None, :], of_res, mask=cells_ok)
    if grad_h_post is not None:
        tl.store(grad_h_post + tokens[:, None] * N + n[None, :], of_post, mask=ok)


@triton.jit(do_not_specialize=["T"])
def post_bias_bwd_kernel(
    grad_out,
    h_post,
    partial,
    T,
    grad_token,
    grad_stream,
    N: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
    SUPERBLOCK: tl.constexpr,
):
    """partial [superblocks, D]: sums over tokens of h_post^T grad_out, not rounded."""
    BLOCKS: tl.constexpr = (D + BD - 1) // BD
    block = (tl.program_id(0) // BLOCKS).to(tl.int64)
    d = tl.program_id(0) % BLOCKS * BD + tl.arange(0, BD)
    d_ok = d < D
    step = tl.cast(grad_stream, tl.int64)
    acc = tl.zeros([BD], tl.float32)
    for begin in range(0, SUPERBLOCK, BT):
        tokens = block * SUPERBLOCK + begin + tl.arange(0, BT)
        token_ok = tokens < T
        grad_y = tl.zeros([BT, BD], tl.float32)
        for to in range(N):
            gate = tl.load(h_post + tokens * N + to, mask=token_ok, other=0.0)
            grad = _rows(
                grad_out + to * step,
                tokens,
                grad_token,
                d,
                token_ok[:, None] & d_ok[None, :],
            )
            grad_y += gate[:, None] * grad
        acc += tl.sum(grad_y, 0)
    tl.store(partial + block * D + d, acc, mask=d_ok)
