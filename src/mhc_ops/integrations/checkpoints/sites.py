"""Where hyper-connections are in a checkpoint, by the names of its tensors."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...errors import ArgumentError
from .layouts import SCALARS, Layout

_COMMON = {"alpha", "bias", "beta", "b", "gamma", "base", "scale", "norm_weight", "rms_weight"}
"""Endings that other modules have too; without a phi beside them they are left alone."""


class Site(NamedTuple):
    """One hyper-connection or head: our prefix, and the names of its tensors by role."""

    prefix: str
    names: Mapping[str, str]

    @property
    def where(self) -> str:
        """How errors name it."""
        return self.prefix or "the hyper-connection"


def find_sites(layout: Layout, names: Iterable[str]) -> list[Site]:
    """The hyper-connections and heads of a layout, in the order of the names.

    Raises ArgumentError when one lacks a tensor.
    """
    given = list(names)
    found: dict[tuple[str, bool], dict[str, str]] = {}
    for name in given:
        for prefix, head, role in _readings(layout, name):
            found.setdefault((prefix, head), {})[role] = name
    sites = []
    for (prefix, head), roles in found.items():
        wanted = _required(layout, head)
        key = "phi" if "phi" in wanted else "bias"
        if key not in roles:
            stray = next((n for n in roles.values() if _is_telling(layout, n)), None)
            if stray is not None:
                raise ArgumentError(
                    f"{stray} is a hyper-connection's in the layout {layout.name}, but "
                    f"{_name(layout, prefix, head, key)} is missing beside it."
                )
            continue
        missing = [_name(layout, prefix, head, role) for role in wanted if role not in roles]
        if missing:
            raise ArgumentError(
                f"{roles[key]} is a hyper-connection's in the layout {layout.name}, but "
                f"{', '.join(missing)} is missing beside it."
            )
        sites.append(Site(prefix, roles))
    return sites


def name_at(layout: Layout, prefix: str, head: bool, role: str) -> str:
    """The name of a tensor at our prefix in a layout.

    Raises ArgumentError where the layout has fixed sites and this prefix ends in none of them.
    """
    if layout.sites:
        last = prefix.rpartition(".")[2]
        expected = [site for site in layout.sites if (site == "hc_head") is head]
        if last not in expected:
            kind = "head" if head else "hyper-connection"
            raise ArgumentError(
                f"{prefix or 'the hyper-connection'}: the layout {layout.name} has its {kind}s at "
                f"{' and '.join(expected)}; give rename=[(pattern, replacement)] to bring the "
                f"prefix there."
            )
    return _name(layout, prefix, head, role)


def example_names(layout: Layout) -> list[str]:
    """The names of one hyper-connection's tensors, for messages."""
    prefix = f"layers.0.{next(iter(layout.sites), 'attn_hc')}"
    return [_name(layout, prefix, False, role) for role in _required(layout, False)]


def renamed(prefix: str, rename: Sequence[tuple[str, str]]) -> str:
    """A prefix after every (pattern, replacement), as re.sub does it."""
    for pattern, replacement in rename:
        try:
            prefix = re.sub(pattern, replacement, prefix)
        except (re.error, IndexError) as error:
            raise ArgumentError(
                f"rename: {pattern!r} to {replacement!r} is no regular expression: {error}."
            ) from None
    return prefix


def _readings(layout: Layout, name: str) -> Iterable[tuple[str, bool, str]]:
    """(our prefix, whether it is a head, role) for each way to read a name."""
    for head, endings in ((False, layout.layer), (True, layout.head or {})):
        if head and endings.items() <= layout.layer.items() and not layout.sites:
            continue  # the length of alpha tells a head from a layer
        for role, ending in endings.items():
            if not name.endswith(ending):
                continue
            begin = name[: -len(ending)]
            if not layout.sites:
                if begin == "" or begin.endswith("."):
                    yield begin[:-1], head, role
                continue
            for ours, theirs in layout.sites.items():
                if (ours == "hc_head") is not head:
                    continue
                site = begin.removesuffix(layout.infix)
                stem = site.removesuffix(theirs)
                if site.endswith(theirs) and (stem == "" or stem.endswith(".")):
                    yield stem + ours, head, role


def _required(layout: Layout, head: bool) -> list[str]:
    roles = layout.head if head and layout.head is not None else layout.layer
    return [role for role in roles if role != "gamma"]


def _name(layout: Layout, prefix: str, head: bool, role: str) -> str:
    endings = layout.head if head and layout.head is not None else layout.layer
    if not layout.sites:
        return f"{prefix}.{endings[role]}" if prefix else endings[role]
    stem, dot, last = prefix.rpartition(".")
    return f"{stem}{dot}{layout.sites[last]}{endings[role]}"


def _is_telling(layout: Layout, name: str) -> bool:
    """Whether nothing but a hyper-connection has a name like this."""
    last = name.rpartition(".")[2]
    return bool(layout.sites) or last in SCALARS or last not in _COMMON
