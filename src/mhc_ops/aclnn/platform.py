"""Which chip's rules apply, and its default core counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from .spec import SOCS

_current: ContextVar[str] = ContextVar("mhc_ops.aclnn.soc", default="ascend950")


class Platform(NamedTuple):
    """What tiling asks of a chip: matrix cores, vector cores, bytes of unified buffer."""

    aic_cores: int
    aiv_cores: int
    ub_size: int


_DEFAULTS = {
    "ascend950": Platform(32, 64, 262144),
    "ascend910b": Platform(24, 48, 196608),
    "ascend910_93": Platform(24, 48, 196608),
}


def check_soc(name: str) -> str:
    if name not in SOCS:
        raise ValueError(f"soc must be one of {', '.join(SOCS)}, got {name!r}.")
    return name


def soc(name: str) -> AbstractContextManager[None]:
    """Answer with the rules of the chip `name` inside the block.

    ascend950 applies outside any block. Each thread and each asyncio task has its own choice. An
    executor keeps the chip under which it was made.

    Raises ValueError for a name that is not one of ascend950, ascend910b (A2), ascend910_93 (A3).
    """
    return _soc(check_soc(name))


@contextmanager
def _soc(name: str) -> Iterator[None]:
    token = _current.set(name)
    try:
        yield
    finally:
        _current.reset(token)


def current_soc() -> str:
    """Name of the chip whose rules apply here."""
    return _current.get()


def platform_of(name: str, changes: Mapping[str, int] | None = None) -> Platform:
    """The chip's default numbers with the given ones in their place."""
    changes = changes or {}
    unknown = sorted(set(changes) - set(Platform._fields))
    if unknown:
        raise ValueError(
            f"platform may set {', '.join(Platform._fields)}, got {', '.join(map(repr, unknown))}."
        )
    for key, value in changes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"platform {key} must be an integer of at least 1, got {value!r}.")
    return _DEFAULTS[name]._replace(**changes)
