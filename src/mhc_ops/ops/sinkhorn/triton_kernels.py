"""Sinkhorn and its backward in Triton: a program takes a few tokens' [N, N] matrices.

The forward saves nothing. The backward goes from the last iteration to the first and each time
recomputes the matrix before it: from the logits, or, beyond a segment of iterations, from the
segment's first matrix, which it left in scratch. Up to a segment it reads the logits and nothing
else, against half the square of num_iters in steps that stay in registers.

Rows last is columns last of the transposed matrix, which the loads and stores transpose.
"""

import triton
import triton.language as tl


@triton.jit
def _cells(N: tl.constexpr, NP: tl.constexpr, BT: tl.constexpr, T, ROWS_LAST: tl.constexpr):
    """Offsets [BT, NP, NP] as [from, to], which are inside, and which stay inside T."""
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    n = tl.arange(0, NP)
    inside = (n < N)[None, :, None] & (n < N)[None, None, :]
    row, column = n[None, :, None], n[None, None, :]
    cell = column * N + row if ROWS_LAST else row * N + column
    at = tokens[:, None, None] * (N * N) + cell
    return tokens, at, inside, inside & (tokens < T)[:, None, None]


@triton.jit
def _softmax(logits, at, inside, ok, temperature, NP: tl.constexpr, N: tl.constexpr):
    z = tl.load(logits + at, mask=ok, other=0.0)
    z = tl.where((tl.arange(0, NP) < N)[None, None, :], z, float("-inf"))
    top = tl.max(tl.where(z == z, z, float("-inf")), 2, keep_dims=True)  # NaN reaches e through z
    e = tl.exp(tl.div_rn(z - top, temperature))
    return tl.where(inside, tl.div_rn(e, tl.sum(e, 2, keep_dims=True)), 0.0)


@triton.jit
def _divisor(h, AXIS: tl.constexpr, eps, MODE: tl.constexpr):
    total = tl.sum(h, AXIS, keep_dims=True)
    if MODE == "add":
        total += eps
    elif MODE == "clamp":
        total = tl.maximum(total, eps, propagate_nan=tl.PropagateNan.ALL)
    return total


@triton.jit
def _divided(h, AXIS: tl.constexpr, inside, eps, MODE: tl.constexpr):
    return tl.where(inside, tl.div_rn(h, _divisor(h, AXIS, eps, MODE)), 0.0)


@triton.jit
def _defect(h, AXIS: tl.constexpr, N: tl.constexpr, NP: tl.constexpr):
    """The largest |sum - 1| along AXIS, [BT]; NaN where the matrix has one."""
    sums = tl.sum(h, AXIS)
    off = tl.where((tl.arange(0, NP) < N)[None, :], tl.abs(sums - 1.0), 0.0)
    bad = tl.max((off != off).to(tl.int32), 1)
    return tl.where(bad != 0, float("nan"), tl.max(tl.where(off == off, off, 0.0), 1))


@triton.jit(do_not_specialize=["T", "num_iters"])
def sinkhorn_fwd_kernel(
    logits,
    h_res,
    row_defect,
    column_defect,
    T,
    num_iters,
    eps,
    temperature,
    N: tl.constexpr,
    NP: tl.constexpr,
    BT: tl.constexpr,
    MODE: tl.constexpr,
    ROWS_LAST: tl.constexpr,
):
    tokens, at, inside, ok = _cells(N, NP, BT, T, ROWS_LAST)
    h = _softmax(logits, at, inside, ok, temperature, NP, N)
    if MODE == "add":
        h = tl.where(inside, h + eps, 0.0)
    for i in range(num_iters):
        if i > 0:
            h = _divided(h, 2, inside, eps, MODE)
        h = _divided(h, 1, inside, eps, MODE)
    tl.store(h_res + at, h, mask=ok)
    if row_defect is not None:
        along: tl.constexpr = 1 if ROWS_LAST else 2
        tl.store(row_defect + tokens, _defect(h, along, N, NP), mask=tokens < T)
    if column_defect is not None:
        across: tl.constexpr = 2 if ROWS_LAST else 1
        tl.store(column_defect + tokens, _defect(h, across, N, NP), mask=tokens < T)


@triton.jit
def _pulled_back(y, before, after, AXIS: tl.constexpr, inside, eps, MODE: tl.constexpr):
    """The gradient of log h before a step from that after it."""
    total = tl.sum(y, AXIS, keep_dims=True)
    if MODE == "clamp":
        total = tl.where(tl.sum(before, AXIS, keep_dims=True) >= eps, total, 0.0)
    return tl.where(inside, y - after * total, 0.0)


@triton.jit(do_not_specialize=["T", "num_iters"])
def sinkhorn_bwd_kernel(
    logits,
    grad_h_res,
    grad_logits,
    history,
    T,
    num_iters,
    eps,
    temperature,
    N: tl.constexpr,
    NP: tl.constexpr,
    BT: tl.constexpr,
    MODE: tl.constexpr,
    ROWS_LAST: tl.constexpr,
    SEGMENT: tl.constexpr,
):
    """history [segments - 1, T, N, N], or None where num_iters is at most SEGMENT."""
    _, at, inside, ok = _cells(N, NP, BT, T, ROWS_LAST)
    weights = _softmax(logits, at, inside, ok, temperature, NP, N)
    start = weights
    if MODE == "add":
        start = tl.where(inside, weights + eps, 0.0)
    segment = tl.cast(T, tl.int64) * (N * N)
    if history is not None:
        h = start
        for i in range(num_iters):
            if i > 0 and i % SEGMENT == 0:
                tl.store(history + (i // SEGMENT - 1) * segment + at, h, mask=ok)
            if i > 0:
                h = _divided(h, 2, inside, eps, MODE)
            h = _divided(h, 1, inside, eps, MODE)
        tl.debug_barrier()  # a load may come from another thread than the store
    y = tl.load(grad_h_res + at, mask=ok, other=0.0)
    if num_iters == 0:
        y = y * start
    for back in range(num_iters):
        i = num_iters - 1 - back
        before = start
        first = 0
        if history is not None:
            first = i // SEGMENT * SEGMENT
            if first > 0:
                before = tl.load(history + (i // SEGMENT - 1) * segment + at, mask=ok, other=0.0)
        for earlier in range(first, i):
            if earlier > 0:
                before = _divided(before, 2, inside, eps, MODE)
            before = _divided(before, 1, inside, eps, MODE)
        between = before
        if i > 0:
            between = _divided(before, 2, inside, eps, MODE)
        after = _divided(between, 1, inside, eps, MODE)
        if back == 0:
            y = y * after
        y = _pulled_back(y, between, after, 1, inside, eps, MODE)
        if i > 0:
            y = _pulled_back(y, before, between, 2, inside, eps, MODE)
    if MODE == "add":
        y = tl.where(inside, y * tl.div_rn(weights, weights + eps), 0.0)
    y -= weights * tl.sum(tl.where(inside, y, 0.0), 2, keep_dims=True)
    tl.store(grad_logits + at, tl.div_rn(y, temperature), mask=ok)
