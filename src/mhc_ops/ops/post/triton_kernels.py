"""MhcPost and its backward in Triton: a program takes a few tokens and walks over their columns.

Each stream's tile is a value of its own, and streams are added in the written order: so the
boundary of two sublayers, which shares these functions, has the same bits. Names are those of
README.md.
"""

import triton
import triton.language as tl


@triton.jit
def stream_tiles(rows, step, d, ok, N: tl.constexpr):
    """A tuple of N tiles [BT, BD] in the tensor's dtype; rows [BT, 1] point at stream 0."""
    tiles = ()
    for n in tl.static_range(N):
        tiles = tiles + (tl.load(rows + n * step + d[None, :], mask=ok, other=0.0),)
    return tiles


@triton.jit
def sublayer_output(h_out, bias, rows, d, d_ok, ok):
    """y [BT, BD]: h_out at the offsets `rows` [BT, 1], and the bias."""
    y = tl.load(h_out + rows + d[None, :], mask=ok, other=0.0).to(tl.float32)
    if bias is not None:
        y += tl.load(bias + d, mask=d_ok, other=0.0)[None, :]
    return y


@triton.jit
def next_stream(
    streams, x_rows, step, h_res, h_post, y, tokens, token_ok, to, d, ok, N: tl.constexpr
):
    """Stream `to` of the output, [BT, BD] in float32: streams are added from the first.

    `streams` holds their tiles, or nothing: then they are read here, again for each `to`, from L1.
    """
    if h_res is not None:
        at = h_res + tokens * (N * N) + to
        weight = tl.load(at, mask=token_ok, other=0.0)
        if len(streams) > 0:
            total = weight[:, None] * streams[0].to(tl.float32)
        else:
            stream = tl.load(x_rows + d[None, :], mask=ok, other=0.0)
            total = weight[:, None] * stream.to(tl.float32)
        for n in tl.static_range(1, N):
            weight = tl.load(at + n * N, mask=token_ok, other=0.0)
            if len(streams) > 0:
                total += weight[:, None] * streams[n].to(tl.float32)
            else:
                stream = tl.load(x_rows + n * step + d[None, :], mask=ok, other=0.0)
                total += weight[:, None] * stream.to(tl.float32)
    else:
        total = tl.load(x_rows + to * step + d[None, :], mask=ok, other=0.0).to(tl.float32)
    gate = tl.load(h_post + tokens * N + to, mask=token_ok, other=0.0)
    return total + gate[:, None] * y


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
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T
    x_rows = x + tokens[:, None] * x_token
    step = tl.cast(x_stream, tl.int64)
    for begin in range(0, D, BD):
        d = begin + tl.arange(0, BD)
        d_ok = d < D
        ok = token_ok[:, None] & d_ok[None, :]
        y = sublayer_output(h_out, bias, tokens[:, None] * h_out_token, d, d_ok, ok)
        streams = ()
        if h_res is not None:
            streams = stream_tiles(x_rows, step, d, ok, N)
        for to in range(N):
            total = next_stream(
                streams, x_rows, step, h_res, h_post, y, tokens, token_ok, to, d, ok, N
            )
            at = tokens[:, None] * (N * D) + to * D + d[None, :]
            tl.store(out + at, total.to(out.dtype.element_ty), mask=ok)


@triton.jit
def tile_gradients(
    grads,
    of_res,
    of_post,
    x_rows,
    step,
    h_res,
    h_out,
    h_post,
    bias,
    grad_x,
    grad_h_out,
    grad_bias_row,
    tokens,
    token_ok,
    h_out_token,
    d,
    d_ok,
    ok,
    N: tl.constexpr,
    D: tl.constexpr,
):
    """From the output's gradients, N tiles [BT, BD] in float32: stores those of x and h_out, and
    the block's sum over tokens for the bias; returns of_res (of each from, to) and of_post with the
    tile's sums over columns, tuples of [BT]. What is None or empty is not computed.
    """
    sums = ()
    for origin in tl.static_range(N):
        if grad_x is not None:
            if h_res is not None:
                at = h_res + tokens * (N * N) + origin * N
                mixed = tl.load(at, mask=token_ok, other=0.0)[:, None] * grads[0]
                for to in tl.static_range(1, N):
                    weight = tl.load(at + to, mask=token_ok, other=0.0)
                    mixed += weight[:, None] * grads[to]
            else:
                mixed = grads[origin]
            to_x = grad_x + tokens[:, None] * (N * D) + origin * D + d[None, :]
            tl.store(to_x, mixed.to(grad_x.dtype.element_ty), mask=ok)
        if len(of_res) > 0:
            stream = tl.load(x_rows + origin * step + d[None, :], mask=ok, other=0.0)
            stream = stream.to(tl.float32)
            for to in tl.static_range(N):
                sums = sums + (of_res[origin * N + to] + tl.sum(stream * grads[to], 1),)
    if grad_h_out is not None or grad_bias_row is not None:
        grad_y = tl.zeros([tokens.shape[0], d.shape[0]], tl.float32)
        for to in tl.static_range(N):
            gate = tl.load(h_post + tokens * N + to, mask=token_ok, other=0.0)
            grad_y += gate[:, None] * grads[to]
        if grad_h_out is not None:
            to_y = grad_h_out + tokens[:, None] * D + d[None, :]
            tl.store(to_y, grad_y.to(grad_h_out.dtype.element_ty), mask=ok)
        if grad_bias_row is not None:
            tl.store(grad_bias_row + d, tl.sum(grad_y, 0), mask=d_ok)
    of_gates = ()
    if len(of_post) > 0:
        y = sublayer_output(h_out, bias, tokens[:, None] * h_out_token, d, d_ok, ok)
        for to in tl.static_range(N):
            of_gates = of_gates + (of_post[to] + tl.sum(y * grads[to], 1),)
    return sums, of_gates


@triton.jit
def token_sums(wanted, BT: tl.constexpr, COUNT: tl.constexpr):
    """COUNT sums [BT], from zero; none where `wanted` is None."""
    made = ()
    if wanted is not None:
        for _ in tl.static_range(COUNT):
            made = made + (tl.zeros([BT], tl.float32),)
    return made


@triton.jit
def store_token_sums(target, sums, rows, token_ok, COUNT: tl.constexpr):
    """To rows of target [.., COUNT]."""
    for i in tl.static_range(COUNT):
        tl.store(target + rows * COUNT + i, sums[i], mask=token_ok)


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
    grad_bias,
    T,
    grad_token,
    grad_stream,
    x_token,
    x_stream,
    h_out_token,
    N: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """A program takes BT tokens and CHUNK columns of every stream.

    grad_h_res [chunks, T, N, N] and grad_h_post [chunks, T, N] are sums over a chunk, grad_bias
    [blocks of BT tokens, D] over tokens. Any of the five gradients may be None.
    """
    CHUNKS: tl.constexpr = (D + CHUNK - 1) // CHUNK
    piece = tl.program_id(0) % CHUNKS
    block = (tl.program_id(0) // CHUNKS).to(tl.int64)
    tokens = block * BT + tl.arange(0, BT)
    token_ok = tokens < T
    x_rows = x + tokens[:, None] * x_token
    grad_rows = grad_out + tokens[:, None] * grad_token
    step, grad_step = tl.cast(x_stream, tl.int64), tl.cast(grad_stream, tl.int64)
    grad_bias_row = grad_bias
    if grad_bias is not None:
        grad_bias_row = grad_bias + block * D
    of_res = token_sums(grad_h_res, BT, N * N)
    of_post = token_sums(grad_h_post, BT, N)
    for begin in range(piece * CHUNK, piece * CHUNK + CHUNK, BD):
        d = begin + tl.arange(0, BD)
        d_ok = d < D
        ok = token_ok[:, None] & d_ok[None, :]
        grads = ()
        for tile in tl.static_range(N):
            grad = tl.load(grad_rows + tile * grad_step + d[None, :], mask=ok, other=0.0)
            grads = grads + (grad.to(tl.float32),)
        of_res, of_post = tile_gradients(
            grads, of_res, of_post, x_rows, step, h_res, h_out, h_post, bias,
            grad_x, grad_h_out, grad_bias_row, tokens, token_ok, h_out_token, d, d_ok, ok, N, D,
        )  # fmt: skip
    rows = piece.to(tl.int64) * T + tokens
    if grad_h_res is not None:
        store_token_sums(grad_h_res, of_res, rows, token_ok, N * N)
    if grad_h_post is not None:
        store_token_sums(grad_h_post, of_post, rows, token_ok, N)
