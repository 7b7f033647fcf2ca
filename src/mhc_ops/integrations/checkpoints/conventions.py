"""The Convention that goes with a checkpoint: what a library can hold, how it is written, read."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from ...convention import Convention
from ...errors import ArgumentError, FileError
from .layouts import Form, Layout

METADATA_KEY = "mhc_ops.convention"
_OF_RESIDUAL = frozenset(
    {"res_rows", "num_iters", "sinkhorn_eps", "eps_mode", "order", "temperature"}
)
_IDLE = {
    "matrix": frozenset[str](),
    "permutation": _OF_RESIDUAL,
    "none": _OF_RESIDUAL,
    "head": _OF_RESIDUAL | {"post_scale", "post_eps"},
}
"""Fields without meaning, by the residual part; "head" is a checkpoint that has only heads."""


class Stored(NamedTuple):
    """What lies beside a checkpoint's tensors.

    layout: of the tensors. convention: to compute with them. changed: fields that the layout's
    library cannot follow, with the values the parameters were trained with.
    """

    layout: str
    convention: Convention
    changed: Mapping[str, Any]

    def to_json(self) -> str:
        described = {
            "format": 1,
            "layout": self.layout,
            "convention": asdict(self.convention),
            "changed": dict(self.changed),
        }
        return json.dumps(described)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Stored":
        """Raises FileError with what is wrong."""
        try:
            described = json.loads(text)
            if described["format"] != 1:
                raise FileError(f"the convention has format {described['format']!r}, expected 1")
            convention = with_fields(Convention(), described["convention"])
            return cls(str(described["layout"]), convention, dict(described["changed"]))
        except FileError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise FileError(f"the convention written beside the tensors is damaged: {error}") from (
                error
            )


def with_fields(convention: Convention, values: Mapping[str, Any]) -> Convention:
    """The convention with some fields replaced. Raises ArgumentError for names it lacks."""
    known = {f.name: f for f in fields(Convention)}
    for name, value in values.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}."
            raise ArgumentError(f"a Convention has no {name!r}; {hint}")
        flag = isinstance(known[name].default, bool)
        if flag is not isinstance(value, bool):
            kind = "true or false" if flag else "a number or a word"
            raise ArgumentError(f"Convention: {name} must be {kind}, got {value!r}.")
    return replace(convention, **values)


def conflicts(form: Form, residual: str, convention: Convention) -> dict[str, Any]:
    """The fields of a convention that a library cannot follow, and what it has instead.

    residual: one of "matrix", "permutation", "none", "head".
    """
    found = {}
    given, theirs = _without_idle_eps(convention), _without_idle_eps(form.convention)
    for field in fields(Convention):
        if field.name in _IDLE[residual]:
            continue
        own = getattr(theirs, field.name)
        if field.name not in form.settable and getattr(given, field.name) != own:
            found[field.name] = own
    for leader, follower in form.tied:
        if follower in _IDLE[residual]:
            continue
        if getattr(convention, follower) != getattr(convention, leader):
            found[follower] = getattr(convention, leader)
    return found


def followed(
    layout: Layout, form: int, residual: str, convention: Convention, accept_mismatch: bool
) -> tuple[Convention, dict[str, Any]]:
    """The convention as a target library computes it, and the fields changed by that.

    The rows of the residual part are permuted, so they conflict with nothing.
    Raises ArgumentError where fields would have to change and that was not accepted.
    """
    there = layout.forms[form]
    oriented = replace(convention, res_rows=there.convention.res_rows)
    differing = conflicts(there, residual, oriented)
    if differing and not accept_mismatch:
        listed = ", ".join(
            f"{name} {getattr(oriented, name)} (there {theirs})"
            for name, theirs in differing.items()
        )
        raise ArgumentError(
            f"{layout.library} has no exact counterpart of {listed}; accept_mismatch=True converts "
            f"all the same and writes down what changed."
        )
    changed = {name: getattr(oriented, name) for name in differing}
    return replace(oriented, **differing), changed


def _without_idle_eps(convention: Convention) -> Convention:
    """eps_mode "none" and an eps of 0 are the same Sinkhorn: both at once."""
    if convention.eps_mode == "none" or convention.sinkhorn_eps == 0:
        return replace(convention, eps_mode="none", sinkhorn_eps=0.0)
    return convention
