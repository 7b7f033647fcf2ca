"""permutation_mix and its backward in Triton: a program takes 16 tokens and walks over N! logits.

The 0/1 table of the permutation matrices is exact in bfloat16, and the other operand of each
product is split into bfloat16 pieces that keep its 24 bits.
"""

import triton
import triton.language as tl

from ..common.triton_device import dot_split, split


@triton.jit
def _logits(logits, tokens, token_ok, begin, R: tl.constexpr, BR: tl.constexpr):
    """[BT, BR] of the logits, -inf behind the last."""
    r = begin + tl.arange(0, BR)
    at = tokens[:, None] * R + r[None, :]
    z = tl.load(logits + at, mask=token_ok[:, None] & (r < R)[None, :], other=0.0)
    return tl.where((r < R)[None, :], z, float("-inf"))


@triton.jit
def _softmax_terms(
    logits, tokens, token_ok, R: tl.constexpr, BT: tl.constexpr, BR: tl.constexpr
):  # fmt: skip
    """Each token's largest logit and its sum of exponentials."""
    top = tl.full([BT], float("-inf"), tl.float32)
    for begin in range(0, R, BR):
        top = tl.maximum(top, tl.max(_logits(logits, tokens, token_ok, begin, R, BR), 1))
    total = tl.zeros([BT], tl.float32)
    for begin in range(0, R, BR):
        z = _logits(logits, tokens, token_ok, begin, R, BR)
        total += tl.sum(tl.exp(z - top[:, None]), 1)
    return top, total


@triton.jit(do_not_specialize=["T"])
def lite_fwd_kernel(
    logits,
    table,
    h_res,
    T,
    R: tl.constexpr,
    M: tl.constexpr,
    BT: tl.constexpr,
    BR: tl.constexpr,
    BM: tl.constexpr,
):
    """logits [T, R], table [R, M] bfloat16, h_res [T, M] with M = N*N."""
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T
    m = tl.arange(0, BM)
    top, total = _softmax_terms(logits, tokens, token_ok, R, BT, BR)
    acc = tl.zeros([BT, BM], tl.float32)
    for begin in range(0, R, BR):
        z = _logits(logits, tokens, token_ok, begin, R, BR)
        weights = tl.div_rn(
            tl.exp(z - top[:, None]), total[:, None] + tl.zeros([BT, BR], tl.float32)
        )
        r = begin + tl.arange(0, BR)
        cells = tl.load(
            table + r[:, None] * M + m[None, :], mask=(r < R)[:, None] & (m < M)[None, :], other=0.0
        )
        a0, a1, a2 = split(weights, 3)
        acc = dot_split(a0, a0, a1, a2, cells, cells, cells, acc, 3, 1)
    at = tokens[:, None] * M + m[None, :]
    tl.store(h_res + at, acc, mask=token_ok[:, None] & (m < M)[None, :])


@triton.jit(do_not_specialize=["T"])
def lite_bwd_kernel(
    logits,
    table,
    grad_h_res,
    grad_logits,
    T,
    R: tl.constexpr,
    M: tl.constexpr,
    BT: tl.constexpr,
    BR: tl.constexpr,
    BM: tl.constexpr,
):
    tokens = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT)
    token_ok = tokens < T
    m = tl.arange(0, BM)
    at = tokens[:, None] * M + m[None, :]
    grads = tl.load(grad_h_res + at, mask=token_ok[:, None] & (m < M)[None, :], other=0.0)
    a0, a1, a2 = split(grads, 3)
    top, total = _softmax_terms(logits, tokens, token_ok, R, BT, BR)
    mean = tl.zeros([BT], tl.float32)
    for turn in tl.static_range(2):
        for begin in range(0, R, BR):
            z = _logits(logits, tokens, token_ok, begin, R, BR)
            weights = tl.div_rn(
                tl.exp(z - top[:, None]), total[:, None] + tl.zeros([BT, BR], tl.float32)
            )
            r = begin + tl.arange(0, BR)
            cells = tl.load(
                table + r[None, :] * M + m[:, None],
                mask=(r < R)[None, :] & (m < M)[:, None],
                other=0.0,
            )
            y = tl.zeros([BT, BR], tl.float32)
            y = dot_split(a0, a0, a1, a2, cells, cells, cells, y, 3, 1) * weights
            if turn == 0:
                mean += tl.sum(y, 1)
            else:
                to = grad_logits + tokens[:, None] * R + r[None, :]
                ok = token_ok[:, None] & (r < R)[None, :]
                tl.store(to, y - weights * mean[:, None], mask=ok)
