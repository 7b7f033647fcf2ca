"""Summation orders and roundings that every torch-built implementation shares.

The numeric contract asks for the same bits whatever the number of tokens, threads or chunks. Plain
torch gives them only when its matmul sees shapes it treats alike, hence the padding and the
superblocks here.
"""

from collections.abc import Sequence
from math import isqrt

import torch
from torch import Tensor
from torch.nn.functional import pad

SUPERBLOCK = 256  # tokens; parameter-gradient sums start from zero in each, and are added ascending
TILE = 16  # float32 GEMMs of BLAS libraries give a row the same bits in any batch of whole tiles


def rows_matmul(rows: Tensor, weights: Tensor) -> Tensor:
    """rows [T, K] @ weights [F, K]^T -> [T, F]; a row's bits do not depend on the other rows."""
    tokens, features = len(rows), len(weights)
    return (_tiled(rows) @ _tiled(weights).T)[:tokens, :features].contiguous()


def rows_matmul_wide(rows: Tensor, weights: Tensor) -> Tensor:
    """rows [T, F] @ weights [F, K] -> [T, K]; a row's bits do not depend on the other rows."""
    tokens, columns = len(rows), weights.shape[1]
    return (_tiled(rows) @ _tiled(weights, dim=1))[:tokens, :columns].contiguous()


def token_matmul(left: Tensor, right: Tensor) -> Tensor:
    """left [T, F]^T @ right [T, K] -> [F, K], summed superblock by superblock."""
    total = left.new_zeros(left.shape[1], right.shape[1])
    for start in range(0, len(left), SUPERBLOCK):
        total = total + left[start : start + SUPERBLOCK].T @ right[start : start + SUPERBLOCK]
    return total


def token_sum(values: Tensor) -> Tensor:
    """values [T, ...] -> [...], summed superblock by superblock."""
    total = values.new_zeros(values.shape[1:])
    for start in range(0, len(values), SUPERBLOCK):
        total = total + values[start : start + SUPERBLOCK].sum(0)
    return total


def channel_sum(values: Tensor) -> Tensor:
    """values [.., D] -> [..]; a row's bits depend neither on the other rows nor on the threads."""
    if values.numel() != values.shape[-1]:
        return values.sum(-1)
    # A lone row gets a neighbour: torch splits a single long sum among its threads.
    pair = torch.cat([values.reshape(1, -1), torch.zeros_like(values).reshape(1, -1)])
    return pair.sum(-1)[:1].reshape(values.shape[:-1])


def ordered_sum(t: Tensor, dim: int) -> Tensor:
    """Sum along a short dimension, kept with size 1, one slice after the other from the first."""
    parts = t.split(1, dim)
    total: Tensor = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def stream_sum(x: Tensor) -> Tensor:
    """x [.., N, D] -> [.., D] in float32 (float64 for float64 x), stream 0 first."""
    first, *others = x.split(1, -2)
    total = first.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    for stream in others:
        total = total + stream
    summed: Tensor = total.squeeze(-2)
    return summed


def residual_logits(h_mix: Tensor, inv_rms: Tensor, alpha: Tensor, bias: Tensor) -> Tensor:
    """The logits [.., N, N] of MhcPre from what it saves, for phi of 2N + N*N rows: the same bits.

    h_mix [.., F], inv_rms [..], alpha [3], bias [F].
    """
    n = isqrt(h_mix.shape[-1] + 1) - 1
    z = (h_mix[..., 2 * n :] * inv_rms[..., None]) * alpha[2] + bias[2 * n :]
    logits: Tensor = z.unflatten(-1, (n, n))
    return logits


def mean_square(x: Tensor, dims: int | tuple[int, ...]) -> Tensor:
    """Mean of x^2 over `dims`, in float64: in float32 the squares overflow from 2e19 on."""
    return x.to(torch.float64).square().mean(dims)


def spread(alpha: Tensor, counts: Sequence[int]) -> Tensor:
    """[g0, g1, ..] -> each entry repeated by its count; a part without columns needs no entry."""
    return torch.cat([a.expand(count) for a, count in zip(alpha, counts, strict=False)])


def gather_spread(columns: Tensor, counts: Sequence[int], entries: int) -> Tensor:
    """The adjoint of spread on rows [T, F] -> [T, entries]: sum the columns of each entry."""
    parts = columns.split(list(counts), -1)[:entries]
    return torch.stack([part.sum(-1) for part in parts], -1)


def inv_root(mean_sq: Tensor, eps: float, outside: bool) -> Tensor:
    """(mean_sq + eps)^-1/2, or 1 / (sqrt(mean_sq) + eps) where eps stands outside the root."""
    return 1 / (mean_sq.sqrt() + eps) if outside else (mean_sq + eps).rsqrt()


def rms_slope(inv: Tensor, eps: float, outside: bool) -> Tensor:
    """q in d inv / dx = -(inv^2 / size) * q * x, for inv = inv_root of the mean of `size` squares.

    q * x is of order 1 whatever the scale of x, so it is formed before inv enters a second time.
    """
    if not outside:
        return inv
    rms = 1 / inv - eps
    return torch.where(rms > 0, 1 / rms.clamp(min=1e-38), 0.0)


def round_hf32(x: Tensor) -> Tensor:
    """Round float32 to 10 fraction bits, ties away from zero, as the HF32 cube mode does.

    Integer arithmetic on the bits, so no device's own rounding takes part. inf and NaN pass
    unchanged; float64 goes through float32. To autograd it is the identity.
    """
    single = x.detach().to(torch.float32).contiguous()
    rounded = ((single.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    step = torch.where(single.isfinite(), rounded.to(x.dtype) - x.detach(), 0.0)
    return x + step  # exact: the step is a multiple of x's last bit


def _tiled(t: Tensor, dim: int = 0) -> Tensor:
    """Pad `dim` of a float32 matrix with zeros to whole tiles; float64 keeps its shape."""
    t = t.contiguous()
    missing = -t.shape[dim] % TILE
    if missing == 0 or t.dtype != torch.float32:
        return t
    return pad(t, (0, 0, 0, missing) if dim == 0 else (0, missing))
