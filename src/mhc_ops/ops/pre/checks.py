"""The contract of MhcPre and MhcPreBackward, for every door: shapes, dtypes, devices, options."""

from collections.abc import Iterable, Mapping, Sequence
from math import factorial, prod
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from ...convention import Convention
from ...domains import check_choice, check_finite, check_norm_eps
from ...errors import ArgumentError, ShapeError
from ...types import MhcPreBackward, MhcPreForward
from ..common.checking import (
    Contract,
    check_is_tensor,
    check_streams,
    describe,
    parameter_dtype,
    parse_wanted,
)
from ..common.conventions import merge
from ..common.plans import Plans

NORM_EPS = 1e-6
HC_EPS = 1e-6
POST_EPS = 0.0
GRADIENTS = MhcPreBackward._fields
_FACTORIALS = tuple(factorial(n) for n in range(13))  # 13! rows would not fit any memory


class PreSizes(NamedTuple):
    """Sizes of one call: `lead` is x's leading dimensions, T their product."""

    lead: tuple[int, ...]
    T: int
    N: int
    D: int
    R: int  # rows of the residual block: N*N, N! or 0
    F: int  # rows of phi: 2N + R


def h_res_tail(sizes: PreSizes) -> tuple[int, ...]:
    """What follows `lead` in h_res; at N = 1 the matrix form.

    No property of the sizes: Dynamo of torch 2.7 does not trace one of a NamedTuple.
    """
    return (sizes.N, sizes.N) if sizes.R == sizes.N * sizes.N else (sizes.R,)


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
    check_choice(op, "precision", precision, ("fp32", "hf32"))
    check_norm_eps(op, norm_eps)
    check_finite(op, hc_eps=hc_eps, post_eps=post_eps)
    norm_eps, hc_eps, post_eps = merge(
        op,
        convention,
        (
            ("norm_eps", "norm_eps", norm_eps, NORM_EPS),
            ("hc_eps", "hc_eps", hc_eps, HC_EPS),
            ("post_eps", "post_eps", post_eps, POST_EPS),
        ),
    )
    outside, post_scale = False, 2.0
    if convention is not None:
        outside, post_scale = convention.norm_eps_outside, convention.post_scale
    return PreNumbers(norm_eps, outside, hc_eps, post_scale, post_eps, precision == "hf32")


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
    _contract(op, x, sizes).check("bias", bias, ("F",), phi.dtype)
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
    names: Mapping[str, str] = MappingProxyType({}),
) -> PreSizes:
    """Check the inputs of MhcPreBackward and return the sizes.

    names: what `op` calls an argument, where that is another name.
    """
    sizes = _check_parameters(op, x, phi, alpha, gamma)
    contract, single = _contract(op, x, sizes), phi.dtype

    def called(name: str) -> str:
        return names.get(name, name)

    contract.check(called("grad_h_in"), grad_h_in, ("..", "D"), x.dtype)
    contract.check(called("grad_h_post"), grad_h_post, ("..", "N"), single)
    residual = called("grad_h_res")
    if sizes.R == 0:
        if grad_h_res is not None:
            raise ArgumentError(
                f"{op}: {residual} must be None because alpha [2] has no residual part, "
                f"got {describe(grad_h_res)}."
            )
    elif grad_h_res is None:
        raise ArgumentError(
            f"{op}: {residual} must be a tensor because alpha [3] has a residual part, got None; "
            f"pass zeros if h_res was not used."
        )
    else:
        # At N = 1 both forms hold one number a token, and either shape is taken.
        flat = h_res_tail(sizes) == (sizes.R,) or (sizes.N == 1 and grad_h_res.dim() == x.dim() - 1)
        shape = ("..", "R") if flat else ("..", "N", "N")
        contract.check(residual, grad_h_res, shape, single)
    for name, saved, tail in (
        ("inv_rms", inv_rms, ()),
        ("h_mix", h_mix, ("F",)),
        ("h_pre", h_pre, ("N",)),
        ("h_post", h_post, ("N",)),
    ):
        if saved is None:
            forward = op.replace("backward", "forward")
            raise ArgumentError(
                f"{op}: {called(name)} must be the tensor saved by {forward}, got None; "
                f"run the forward and pass its {name}."
            )
        contract.check(called(name), saved, ("..", *tail), single)
    if grad_x_post is not None:
        contract.check(called("grad_x_post"), grad_x_post, ("..", "N", "D"), x.dtype)
    return sizes


def check_wanted(
    wanted: Iterable[str] | None, gamma: Tensor | None, op: str = "mhc_pre_backward"
) -> tuple[bool, bool, bool, bool, bool]:
    """Which of the five gradients to compute; names with or without their "grad_"."""
    flags = parse_wanted(op, wanted, GRADIENTS)
    return flags[0], flags[1], flags[2], flags[3], flags[4] and gamma is not None


def forward_layout(sizes: PreSizes, x: Tensor, phi: Tensor) -> MhcPreForward:
    """(shape, dtype) of every output of MhcPre; None for an absent h_res."""
    lead, n, single = sizes.lead, sizes.N, phi.dtype
    fields: Any = (
        ((*lead, sizes.D), x.dtype),
        ((*lead, n), single),
        ((*lead, *h_res_tail(sizes)), single) if sizes.R else None,
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


def _plan_forward(
    op: str, x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor | None
) -> tuple[PreSizes, MhcPreForward]:
    sizes = check_forward(x, phi, alpha, bias, gamma, op)
    return sizes, forward_layout(sizes, x, phi)


def _plan_backward(
    op: str, x: Tensor, phi: Tensor, alpha: Tensor, *others: Any
) -> tuple[PreSizes, MhcPreBackward]:
    *tensors, wanted = others
    sizes = check_backward(*(x, phi, alpha, *tensors, op))
    return sizes, backward_layout(sizes, x, phi, alpha, wanted)


plan_forward = Plans(_plan_forward)
plan_backward = Plans(_plan_backward)


def _contract(op: str, x: Tensor, sizes: PreSizes) -> Contract:
    symbols = {"D": sizes.D, "N": sizes.N, "F": sizes.F, "R": sizes.R, "N*D": sizes.N * sizes.D}
    return Contract(op, x, sizes.lead, symbols)


def _check_parameters(
    op: str, x: Tensor, phi: Tensor, alpha: Tensor, gamma: Tensor | None
) -> PreSizes:
    check_streams(op, x)
    check_is_tensor(op, "phi", phi)
    check_is_tensor(op, "alpha", alpha)
    n, d = int(x.shape[-2]), x.shape[-1]  # N is structural: never a symbolic size
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
    contract, single = _contract(op, x, sizes), parameter_dtype(x)
    contract.check("phi", phi, ("F", "N*D"), single)
    contract.check("alpha", alpha, (str(len(alpha)),), single)
    if gamma is not None:
        contract.check("gamma", gamma, ("N", "D"), single)
    return sizes
