"""The contract of MhcPre and MhcPreBackward, for every door: shapes, dtypes, devices, options."""

from collections.abc import Iterable, Sequence
from math import factorial, prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...convention import Convention
from ...errors import ArgumentError, DeviceError, DtypeError, ShapeError
from ...types import Impl, MhcPreBackward, MhcPreForward

NORM_EPS = 1e-6
HC_EPS = 1e-6
POST_EPS = 0.0
GRADIENTS = MhcPreBackward._fields
_FACTORIALS = tuple(factorial(n) for n in range(13))  # 13! rows would not fit any memory
X_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


class PreSizes(NamedTuple):
    """Sizes of one call: `lead` is x's leading dimensions, T their product."""

    lead: tuple[int, ...]
    T: int
    N: int
    D: int
    R: int  # rows of the residual block: N*N, N! or 0
    F: int  # rows of phi: 2N + R

    @property
    def h_res_tail(self) -> tuple[int, ...]:
        """What follows `lead` in h_res; at N = 1 the matrix form."""
        return (self.N, self.N) if self.R == self.N * self.N else (self.R,)


class PreNumbers(NamedTuple):
    """The scalars of one call, in the order in which the registered operators take them."""

    norm_eps: float = NORM_EPS
    norm_eps_outside: bool = False
    hc_eps: float = HC_EPS
    post_scale: float = 2.0
    post_eps: float = POST_EPS
    hf32: bool = False


def pre_numbers(
    op: str,
    norm_eps: float,
    hc_eps: float,
    post_eps: float,
    precision: str,
    convention: Convention | None,
) -> PreNumbers:
    """Merge the keyword numbers with a convention; naming one number in both places is an error."""
    if precision not in ("fp32", "hf32"):
        raise ArgumentError(f"{op}: precision must be 'fp32' or 'hf32', got {precision!r}.")
    for name, value in (("norm_eps", norm_eps), ("hc_eps", hc_eps), ("post_eps", post_eps)):
        if not 0 <= value < 1:
            raise ArgumentError(f"{op}: {name} must be in [0, 1), got {value}.")
    hf32 = precision == "hf32"
    if convention is None:
        return PreNumbers(norm_eps, False, hc_eps, 2.0, post_eps, hf32)
    for name, value, default in (
        ("norm_eps", norm_eps, NORM_EPS),
        ("hc_eps", hc_eps, HC_EPS),
        ("post_eps", post_eps, POST_EPS),
    ):
        if value not in (default, getattr(convention, name)):
            raise ArgumentError(
                f"{op}: {name}={value} contradicts {convention}; "
                f"use dataclasses.replace(convention, {name}={value})."
            )
    return PreNumbers(
        convention.norm_eps,
        convention.norm_eps_outside,
        convention.hc_eps,
        convention.post_scale,
        convention.post_eps,
        hf32,
    )


def parse_impl(op: str, impl: str | Impl) -> Impl:
    try:
        return Impl(impl)
    except ValueError:
        names = ", ".join(repr(i.value) for i in Impl)
        raise ArgumentError(f"{op}: impl must be one of {names}, got {impl!r}.") from None


def check_forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    op: str = "mhc_pre_forward",
) -> PreSizes:
    """Check the inputs of MhcPre and return the sizes."""
    sizes = _check_parameters(op, x, phi, alpha, gamma)
    _check(op, "bias", bias, ("F",), sizes, phi.dtype, x.device)
    return sizes


def check_backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    op: str = "mhc_pre_backward",
) -> PreSizes:
    """Check the inputs of MhcPreBackward and return the sizes."""
    sizes = _check_parameters(op, x, phi, alpha, gamma)
    single = phi.dtype

    _check(op, "grad_h_in", grad_h_in, ("..", "D"), sizes, x.dtype, x.device)
    _check(op, "grad_h_post", grad_h_post, ("..", "N"), sizes, single, x.device)
    if sizes.R == 0:
        if grad_h_res is not None:
            raise ArgumentError(
                f"{op}: grad_h_res must be None because alpha [2] has no residual part, "
                f"got {_describe(grad_h_res)}."
            )
    elif grad_h_res is None:
        raise ArgumentError(
            f"{op}: grad_h_res must be a tensor because alpha [3] has a residual part, got None; "
            f"pass zeros if h_res was not used."
        )
    else:
        # At N = 1 both forms hold one number a token, and either shape is taken.
        flat = sizes.h_res_tail == (sizes.R,) or (sizes.N == 1 and grad_h_res.dim() == x.dim() - 1)
        shape = ("..", "R") if flat else ("..", "N", "N")
        _check(op, "grad_h_res", grad_h_res, shape, sizes, single, x.device)
    for name, saved, tail in (
        ("inv_rms", inv_rms, ()),
        ("h_mix", h_mix, ("F",)),
        ("h_pre", h_pre, ("N",)),
        ("h_post", h_post, ("N",)),
    ):
        if saved is None:
            raise ArgumentError(
                f"{op}: {name} must be the tensor saved by mhc_pre_forward, got None; "
                f"run the forward and pass its {name}."
            )
        _check(op, name, saved, ("..", *tail), sizes, single, x.device)
    if grad_x_post is not None:
        _check(op, "grad_x_post", grad_x_post, ("..", "N", "D"), sizes, x.dtype, x.device)
    return sizes


def check_wanted(
    wanted: Iterable[str] | None, gamma: Tensor | None
) -> tuple[bool, bool, bool, bool, bool]:
    """Which of the five gradients to compute; names with or without their "grad_"."""
    if wanted is None:
        names = set(GRADIENTS)
    elif isinstance(wanted, str):
        raise ArgumentError(
            f"mhc_pre_backward: wanted must be a collection of names, got the string {wanted!r}; "
            f"write wanted=({wanted!r},)."
        )
    else:
        names = {w if str(w).startswith("grad_") else f"grad_{w}" for w in wanted}
        if not names <= set(GRADIENTS):
            raise ArgumentError(
                f"mhc_pre_backward: wanted may name {', '.join(GRADIENTS)}, "
                f"got {sorted(names - set(GRADIENTS))}."
            )
    flags = [name in names for name in GRADIENTS]
    return flags[0], flags[1], flags[2], flags[3], flags[4] and gamma is not None


def forward_layout(sizes: PreSizes, x: Tensor, phi: Tensor) -> MhcPreForward:
    """(shape, dtype) of every output of MhcPre; None for an absent h_res."""
    lead, n, single = sizes.lead, sizes.N, phi.dtype
    fields: Any = (
        ((*lead, sizes.D), x.dtype),
        ((*lead, n), single),
        ((*lead, *sizes.h_res_tail), single) if sizes.R else None,
        (lead, single),
        ((*lead, sizes.F), single),
        ((*lead, n), single),
    )
    return MhcPreForward(*fields)


def backward_layout(
    sizes: PreSizes, x: Tensor, phi: Tensor, alpha: Tensor, wanted: Sequence[bool]
) -> MhcPreBackward:
    """(shape, dtype) of every wanted gradient; None for the others."""
    single = phi.dtype
    fields: Any = (
        ((*sizes.lead, sizes.N, sizes.D), x.dtype),
        ((sizes.F, sizes.N * sizes.D), single),
        (tuple(alpha.shape), single),
        ((sizes.F,), single),
        ((sizes.N, sizes.D), single),
    )
    return MhcPreBackward(*(f if w else None for f, w in zip(fields, wanted, strict=True)))


def check_out(op: str, out: Sequence[Tensor | None], layout: Any, x: Tensor) -> None:
    """Check a caller's `out` tuple against the layout; None entries are for us to allocate."""
    names = layout._fields
    if not isinstance(out, Sequence) or len(out) != len(names):
        got = f"{len(out)} entries" if isinstance(out, Sequence) else type(out).__name__
        raise ArgumentError(
            f"{op}: out must be a tuple of {len(names)} entries ({', '.join(names)}), got {got}."
        )
    for name, given, expected in zip(names, out, layout, strict=True):
        if given is None:
            continue
        if expected is None:
            raise ArgumentError(
                f"{op}: out.{name} must be None because this call does not compute it, "
                f"got {_describe(given)}."
            )
        shape, dtype = expected
        if tuple(given.shape) != tuple(shape):
            raise ShapeError(f"{op}: out.{name} must be {list(shape)}, got {list(given.shape)}.")
        if given.dtype != dtype:
            raise DtypeError(f"{op}: out.{name} must be {dtype}, got {given.dtype}.")
        if given.device != x.device:
            raise DeviceError(f"{op}: out.{name} must be on {x.device} as x, got {given.device}.")
        if given.requires_grad and torch.is_grad_enabled():
            raise ArgumentError(
                f"{op}: out.{name} requires grad, and out= writes past autograd; "
                f"pass a detached tensor."
            )


def _check_parameters(
    op: str, x: Tensor, phi: Tensor, alpha: Tensor, gamma: Tensor | None
) -> PreSizes:
    for name, tensor in (("x", x), ("phi", phi), ("alpha", alpha)):
        _check_is_tensor(op, name, tensor)
    if x.dim() not in (3, 4):
        raise ShapeError(
            f"{op}: x must be [B, S, N, D] or [T, N, D], got {list(x.shape)}; "
            f"add or merge leading dimensions."
        )
    n, d = int(x.shape[-2]), x.shape[-1]  # N is structural: never a symbolic size
    if n < 1 or d < 1:
        raise ShapeError(f"{op}: x must have N >= 1 and D >= 1, got {list(x.shape)}.")
    if x.dtype not in X_DTYPES:
        raise DtypeError(f"{op}: x must be bfloat16, float16, float32 or float64, got {x.dtype}.")
    single = torch.float64 if x.dtype == torch.float64 else torch.float32

    if alpha.dim() != 1 or len(alpha) not in (2, 3):
        raise ShapeError(
            f"{op}: alpha must be [3] (pre, post, res) or [2] (no residual part), "
            f"got {list(alpha.shape)}."
        )
    forms = [(0, "2N")] if len(alpha) == 2 else [(n * n, "2N + N*N")]
    if len(alpha) == 3 and 1 < n < len(_FACTORIALS):
        forms.append((_FACTORIALS[n], "2N + N!"))
    residual = (phi.shape[0] if phi.dim() == 2 else -1) - 2 * n
    if all(residual != rows for rows, _ in forms) or phi.shape[1] != n * d:
        shapes = " or ".join(f"[{2 * n + rows}, {n * d}] (F = {form})" for rows, form in forms)
        hint = f"alpha has {len(alpha)} entries"
        if (
            phi.dim() == 2
            and phi.shape[0] == n * d
            and any(phi.shape[1] == 2 * n + rows for rows, _ in forms)
        ):
            hint = "it looks transposed"
        raise ShapeError(
            f"{op}: phi must be [F, N*D] = {shapes} for x {list(x.shape)}, "
            f"got {list(phi.shape)}; {hint}."
        )
    lead = tuple(x.shape[:-2])
    sizes = PreSizes(lead, prod(lead), n, d, residual, 2 * n + residual)
    _check(op, "phi", phi, ("F", "N*D"), sizes, single, x.device)
    _check(op, "alpha", alpha, (str(len(alpha)),), sizes, single, x.device)
    if gamma is not None:
        _check(op, "gamma", gamma, ("N", "D"), sizes, single, x.device)
    return sizes


def _check(
    op: str,
    name: str,
    tensor: Tensor,
    symbols: tuple[str, ...],
    sizes: PreSizes,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    _check_is_tensor(op, name, tensor)
    known = {"D": sizes.D, "N": sizes.N, "F": sizes.F, "R": sizes.R, "N*D": sizes.N * sizes.D}
    shape: list[int] = []
    for symbol in symbols:
        shape += sizes.lead if symbol == ".." else [known.get(symbol) or int(symbol)]
    if tuple(tensor.shape) != tuple(shape):
        form = ", ".join(symbols)
        raise ShapeError(
            f"{op}: {name} must be [{form}] = {shape} for x "
            f"{[*sizes.lead, sizes.N, sizes.D]}, got {list(tensor.shape)}."
        )
    if tensor.dtype != dtype:
        raise DtypeError(_dtype_text(op, name, tensor.dtype, dtype))
    if tensor.device != device:
        raise DeviceError(
            f"{op}: {name} must be on {device} as x, got {tensor.device}; "
            f"move it with .to({str(device)!r})."
        )


def _check_is_tensor(op: str, name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentError(f"{op}: {name} must be a tensor, got {type(value).__name__}.")


def _dtype_text(op: str, name: str, got: torch.dtype, expected: torch.dtype) -> str:
    text = f"{op}: {name} must be {expected}, got {got}"
    if name in ("phi", "alpha", "bias", "gamma") and got in (torch.bfloat16, torch.float16):
        return (
            f"{text}; mHC parameters stay in float32 when a model is cast, so exclude them from "
            f".to(), .half(), .bfloat16() and from the mixed-precision policy."
        )
    if name in ("grad_h_in", "grad_x_post"):
        return f"{text} as x; cast it with .to({expected})."
    return f"{text}; cast it with .to({expected})."


def _describe(value: object) -> str:
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
