"""How far an output may lie from float64, with plain float32 as the bar.

An element is within its bound when its error is at most one rounding to its dtype, the largest
error of float32 eager torch on the same values, and sqrt(terms of its sum + 16) float32 roundings
of the largest element, for another order of the same operations. With HF32 2^-10 of the largest
element is added, for an operand that a tie rounds the other way.
"""

from __future__ import annotations

from typing import NamedTuple

CHAIN = 16  # float32 roundings on an element's way besides its sum: gates, products, the last sums
HF32_TIE = 2**28  # as so many float32 roundings count 2^-10: sqrt(2^28) * 2^-24


class Sizes(NamedTuple):
    """Sizes of a call: tokens, streams, features, rows of phi, Sinkhorn iterations."""

    tokens: int
    n: int
    d: int
    rows: int
    num_iters: int


def terms_of(op: str, name: str, sizes: Sizes) -> int:
    """How many products or quotients stand behind one element of an output."""
    tokens, n, d, rows, num_iters = sizes
    sinkhorn = 4 * n * num_iters
    if op.startswith("MhcSinkhorn"):
        return sinkhorn
    if op == "MhcPost" or (op == "MhcPostBackward" and name in ("grad_x", "grad_h_out")):
        return n + 1
    if op == "MhcPostBackward":
        return d
    if op in ("MhcPre", "MhcPreSinkhorn"):
        return n * d + sinkhorn
    over_tokens = {
        "grad_phi": tokens,
        "grad_bias": tokens,
        "grad_alpha": tokens * rows,
        "grad_gamma": tokens * rows,
    }
    return d + over_tokens.get(name, rows) + sinkhorn


def roundings(op: str, name: str, sizes: Sizes, hf32: bool) -> int:
    """The float32 roundings that the bound allows an output, as `terms` of a budget."""
    return terms_of(op, name, sizes) + CHAIN + (HF32_TIE if hf32 else 0)
