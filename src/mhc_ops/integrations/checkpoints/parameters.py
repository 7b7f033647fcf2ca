"""The conversions of tensors: from a library's layout to ours and back, bit for bit.

Only views, permutations and copies, so every value keeps its bits; `fold_gamma` alone multiplies.
All of it runs on meta tensors too, which is how shapes are known before any data is read.
"""

from collections.abc import Mapping
from math import factorial, isqrt
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import ArgumentError, DtypeError, ShapeError
from ...ops.lite.checks import MOST_STREAMS
from .layouts import SCALARS, Layout


class Parameters(NamedTuple):
    """One hyper-connection as mhc_ops has it: phi [F, N*D], alpha [3] or [2], bias [F], gamma
    [N, D] or None; or a learned head: fn [N, N*D] as phi, scale [1] as alpha, base [N] as bias.

    Residual rows are [from, to]: row 2N + i*N + j is the entry from stream i to stream j.
    """

    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None = None

    @property
    def is_head(self) -> bool:
        return len(self.alpha) == 1


def read_parameters(
    layout: Layout, tensors: Mapping[str, Tensor], where: str, *, to_from: bool
) -> Parameters:
    """Parameters from the tensors of one hyper-connection, by role.

    where: how errors name it. to_from: whether its residual rows are [to, from].
    Raises ShapeError, DtypeError or ArgumentError where the tensors are none of this layout.
    """
    for role, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise DtypeError(f"{where}: {role} must be floating point, got {tensor.dtype}.")
    if layout.name == "hyper_connections":
        found = _read_hyper_connections(tensors, where)
    elif layout.name == "mhc_mlx":
        found = _read_mhc_mlx(tensors, where)
    else:
        found = _read_rows(layout, tensors, where)
    form = len(found.alpha)
    check_form(layout, form, where)
    n, residual = streams_of(found, where)
    _check_permutations(layout, n, residual, where)
    return _transposed(found, n) if to_from and residual == n * n else found


def write_parameters(
    layout: Layout, parameters: Parameters, where: str, *, to_from: bool
) -> dict[str, Tensor]:
    """The tensors of one hyper-connection in a layout, by role: the inverse of read_parameters.

    Raises ArgumentError for what the library cannot hold.
    """
    form = len(parameters.alpha)
    check_form(layout, form, where)
    n, residual = streams_of(parameters, where)
    _check_permutations(layout, n, residual, where)
    if parameters.gamma is not None and layout.gamma is None:
        raise ArgumentError(
            f"{where}: {layout.library} has no gamma; fold it into phi with gamma='fold', which "
            f"cannot be undone."
        )
    if to_from and residual == n * n:
        parameters = _transposed(parameters, n)
    return _write_rows(layout, parameters, n)


def streams_of(parameters: Parameters, where: str) -> tuple[int, int]:
    """N and the number of residual rows, from the lengths of alpha and bias and phi's columns."""
    phi, alpha, bias, gamma = parameters
    rows, form = len(bias), len(alpha)
    n = _streams(rows, form)
    if n is None:
        raise ShapeError(
            f"{where}: {rows} rows and an alpha of {form} fit no number of streams; 2N + N*N or "
            f"2N + N! go with 3, 2N with 2, N with 1."
        )
    if phi.dim() != 2 or phi.shape[0] != rows or phi.shape[1] % n or not phi.numel():
        raise ShapeError(
            f"{where}: phi must be [F, N*D] = [{rows}, {n}*D], got {list(phi.shape)} after "
            f"bringing it into that form."
        )
    if gamma is not None and (gamma.shape[0] != n or gamma.numel() != phi.shape[1]):
        raise ShapeError(
            f"{where}: gamma must hold N*D = {phi.shape[1]} numbers, got {gamma.numel()}."
        )
    return n, 0 if form < 3 else rows - 2 * n


def check_form(layout: Layout, form: int, where: str) -> None:
    """Raise ArgumentError where a library has no alpha of `form` entries, or no learned head."""
    if form == 1 and layout.head is None:
        raise ArgumentError(
            f"{where}: {layout.library} has no learned head in a published layout; keep_heads=True "
            f"leaves heads as they are."
        )
    if form > 1 and form not in layout.forms:
        has = " or ".join(str(f) for f in layout.forms)
        raise ArgumentError(
            f"{where}: {layout.library} has an alpha of {has} entries, this one has {form}."
        )


def fold_gamma(parameters: Parameters) -> Parameters:
    """Without gamma: phi * gamma in its place, each product rounded once to phi's dtype."""
    phi, alpha, bias, gamma = parameters
    if gamma is None:
        return parameters
    folded = (phi.double() * gamma.double().reshape(-1)).to(phi.dtype)
    return Parameters(folded, alpha, bias)


def widened(parameters: Parameters) -> Parameters:
    """16-bit tensors as float32, which holds each of their values."""
    phi, alpha, bias, gamma = parameters
    return Parameters(
        _wide(phi), _wide(alpha), _wide(bias), None if gamma is None else _wide(gamma)
    )


def _wide(t: Tensor) -> Tensor:
    return t.float() if t.itemsize < 4 else t


def _read_rows(layout: Layout, tensors: Mapping[str, Tensor], where: str) -> Parameters:
    phi, bias = tensors["phi"], tensors["bias"]
    if phi.dim() != 2:
        raise ShapeError(f"{where}: phi must have two dimensions, got {list(phi.shape)}.")
    rank = 2 if layout.bias_row else 1
    if bias.dim() != rank or (rank == 2 and bias.shape[0] != 1):
        wanted = "[1, F]" if layout.bias_row else "[F]"
        raise ShapeError(f"{where}: bias must be {wanted}, got {list(bias.shape)}.")
    alpha = _read_alpha(layout, tensors, where)
    bias = bias.reshape(-1)
    n = _streams(len(bias), len(alpha))
    if layout.phi == "columns":
        phi = phi.t()
    if layout.phi == "interleaved" and n is not None and phi.shape[1] % n == 0:
        phi = _from_interleaved(phi, n)
    gamma = tensors.get("gamma")
    if gamma is not None:
        rank = 2 if layout.gamma == "matrix" else 1
        if gamma.dim() != rank:
            wanted = "[N, D]" if rank == 2 else "[N*D]"
            raise ShapeError(f"{where}: gamma must be {wanted}, got {list(gamma.shape)}.")
        if n is not None and rank == 1 and gamma.numel() % n == 0:
            flat = gamma[None]
            gamma = _from_interleaved(flat, n) if layout.gamma == "interleaved" else flat
            gamma = gamma.reshape(n, -1)
    return Parameters(phi, alpha, bias, gamma)


def _write_rows(layout: Layout, parameters: Parameters, n: int) -> dict[str, Tensor]:
    phi, alpha, bias, gamma = parameters
    if layout.phi == "columns":
        phi = phi.t()
    elif layout.phi == "interleaved":
        phi = _to_interleaved(phi, n)
    written = {"phi": phi, "bias": bias[None] if layout.bias_row else bias}
    if layout.scalar_shape is None:
        written["alpha"] = alpha
    else:
        parts = zip(SCALARS, alpha.unbind(), strict=True)
        written.update({role: part.reshape(layout.scalar_shape) for role, part in parts})
    if gamma is not None:
        flat = gamma.reshape(1, -1)
        if layout.gamma == "matrix":
            written["gamma"] = gamma
        else:
            flat = _to_interleaved(flat, n) if layout.gamma == "interleaved" else flat
            written["gamma"] = flat.reshape(-1)
    return {role: tensor.contiguous() for role, tensor in written.items()}


def _read_alpha(layout: Layout, tensors: Mapping[str, Tensor], where: str) -> Tensor:
    if layout.scalar_shape is None:
        alpha = tensors["alpha"]
        if alpha.dim() != 1:
            raise ShapeError(f"{where}: alpha must have one dimension, got {list(alpha.shape)}.")
        return alpha
    return _joined([tensors[role] for role in SCALARS], where)


def _joined(parts: list[Tensor], where: str) -> Tensor:
    """alpha of three tensors that hold one number each."""
    for role, part in zip(SCALARS, parts, strict=True):
        if part.numel() != 1:
            raise ShapeError(f"{where}: {role} must hold one number, got {list(part.shape)}.")
        if part.dtype != parts[0].dtype:
            raise DtypeError(
                f"{where}: the three alphas must share a dtype, got {parts[0].dtype} and "
                f"{part.dtype}."
            )
    return torch.cat([part.reshape(1) for part in parts])


def _read_mhc_mlx(tensors: Mapping[str, Tensor], where: str) -> Parameters:
    """Gates that do not look at x: their logits are our bias, phi and alpha are 0."""
    pre, post, res, norm = (tensors[role] for role in ("bias_pre", "bias_post", "bias", "norm"))
    n = pre.numel()
    if pre.shape != (n,) or post.shape != (n,) or res.shape != (n, n) or norm.dim() != 1:
        raise ShapeError(f"{where}: H_pre_raw, H_post_raw, H_res_raw must be [N], [N], [N, N].")
    bias = torch.cat([pre, post, res.reshape(-1)])
    phi = bias.new_zeros(len(bias), n * len(norm))
    return Parameters(phi, bias.new_zeros(3), bias)


def _read_hyper_connections(tensors: Mapping[str, Tensor], where: str) -> Parameters:
    """Static gates are our bias; dynamic ones have no counterpart unless their weights are 0."""
    dynamic, dynamic_post = tensors["phi"], tensors["phi_post"]
    static, static_post = tensors["bias"], tensors["bias_post"]
    n = static_post.numel()
    if static.shape != (n, n + 1) or dynamic.shape[::2] != (1, n + 1) or dynamic_post.dim() != 1:
        raise ArgumentError(
            f"{where}: only one input view, one fraction and one proposal have a counterpart; "
            f"expected static_alpha [N, N + 1] and dynamic_alpha_fn [1, D, N + 1], got "
            f"{list(static.shape)} and {list(dynamic.shape)}."
        )
    if not dynamic.is_meta and (dynamic.any() or dynamic_post.any()):
        raise ArgumentError(
            f"{where}: dynamic_alpha_fn and dynamic_beta_fn must be 0, since trained ones have no "
            f"counterpart: hyper-connections normalises each stream by itself before them, mHC all "
            f"streams together."
        )
    bias = torch.cat([static[:, 0], static_post, static[:, 1:].reshape(-1)])
    alpha = _joined([tensors[role] for role in SCALARS], where)
    phi = bias.new_zeros(len(bias), n * len(dynamic_post))
    return Parameters(phi, alpha, bias)


def _streams(rows: int, form: int) -> int | None:
    """N of a bias of `rows` and an alpha of `form`, or None."""
    if form == 1:
        return rows or None
    if form == 2:
        return rows // 2 if rows and rows % 2 == 0 else None
    if form != 3 or rows < 3:
        return None
    n = isqrt(rows + 1) - 1
    if n * n + 2 * n == rows:
        return n
    return next((k for k in range(2, MOST_STREAMS + 1) if 2 * k + factorial(k) == rows), None)


def _transposed(parameters: Parameters, n: int) -> Parameters:
    """Residual row (i, j) to (j, i)."""
    order = torch.arange(n * n).reshape(n, n).t().reshape(-1) + 2 * n
    order = torch.cat([torch.arange(2 * n), order]).to(parameters.phi.device)
    return parameters._replace(phi=parameters.phi[order], bias=parameters.bias[order])


def _from_interleaved(t: Tensor, n: int) -> Tensor:
    """Columns d*n + i to i*D + d."""
    return t.reshape(len(t), -1, n).transpose(1, 2).reshape(len(t), -1)


def _to_interleaved(t: Tensor, n: int) -> Tensor:
    """Columns i*D + d to d*n + i."""
    return t.reshape(len(t), n, -1).transpose(1, 2).reshape(len(t), -1)


def _check_permutations(layout: Layout, n: int, residual: int, where: str) -> None:
    if residual not in (0, n * n) and not layout.permutations:
        raise ArgumentError(
            f"{where}: {residual} residual rows are the permutation form (N! logits), which "
            f"{layout.library} does not have."
        )
