"""What values the numbers of operators and conventions may have, refused in the same words."""

from collections.abc import Sequence
from math import inf

from .errors import ArgumentError

EPS_MODES = ("add", "clamp", "none")
ORDERS = ("columns_last", "rows_last")
RES_ROWS = ("from_to", "to_from")
MOST_ITERS = 1000


def check_finite(op: str, **values: object) -> None:
    """Check that each value is a finite number; `op` opens the sentence if one is not."""
    for name, value in values.items():
        if not isinstance(value, (int, float)):
            raise ArgumentError(f"{op}: {name} must be a number, got {type(value).__name__}.")
        if not -inf < value < inf:
            raise ArgumentError(f"{op}: {name} must be finite, got {value}.")


def check_norm_eps(op: str, norm_eps: object) -> None:
    if not isinstance(norm_eps, (int, float)):
        raise ArgumentError(f"{op}: norm_eps must be a number, got {type(norm_eps).__name__}.")
    if not 0 <= norm_eps < inf:
        raise ArgumentError(f"{op}: norm_eps must be finite and not negative, got {norm_eps}.")


def check_choice(op: str, name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ArgumentError(f"{op}: {name} must be one of {listed}, got {value!r}.")


def check_sinkhorn_options(
    op: str,
    num_iters: object,
    eps: object,
    eps_mode: object,
    order: object,
    temperature: object,
    eps_name: str = "eps",
) -> None:
    """Check the options of sinkhorn; `eps_name` is what the caller's signature calls eps."""
    if isinstance(num_iters, bool) or not isinstance(num_iters, int):
        raise ArgumentError(
            f"{op}: num_iters must be an int in 0..{MOST_ITERS}, got {type(num_iters).__name__}."
        )
    if not 0 <= num_iters <= MOST_ITERS:
        raise ArgumentError(f"{op}: num_iters must be in 0..{MOST_ITERS}, got {num_iters}.")
    if not isinstance(eps, (int, float)) or not 0 <= eps < 1:
        raise ArgumentError(f"{op}: {eps_name} must be in [0, 1), got {eps}.")
    check_choice(op, "eps_mode", eps_mode, EPS_MODES)
    check_choice(op, "order", order, ORDERS)
    if not isinstance(temperature, (int, float)) or not 0 < temperature < inf:
        raise ArgumentError(f"{op}: temperature must be positive and finite, got {temperature}.")
