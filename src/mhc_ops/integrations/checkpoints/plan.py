"""What a conversion will do, found from names, dtypes and shapes alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from ...convention import Convention
from ...errors import ArgumentError
from .conventions import Stored, conflicts, followed, with_fields
from .layouts import LAYOUTS, Layout, find_layout
from .parameters import (
    Parameters,
    check_form,
    fold_gamma,
    read_parameters,
    streams_of,
    widened,
    write_parameters,
)
from .sites import Site, example_names, find_sites, name_at, renamed


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a conversion; convert_checkpoint's docstring says what they mean."""

    convention: Convention | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    gamma: str = "keep"
    rename: Sequence[tuple[str, str]] = ()
    accept_mismatch: bool = False
    float32: bool = False
    keep_heads: bool = False

    def __post_init__(self) -> None:
        if self.gamma == "unfold":
            raise ArgumentError(
                "gamma cannot be unfolded: phi * gamma does not tell its factors; keep the folded "
                "phi and go on without gamma."
            )
        if self.gamma not in ("keep", "fold"):
            raise ArgumentError(f"gamma must be 'keep' or 'fold', got {self.gamma!r}.")
        if self.convention is not None and not isinstance(self.convention, Convention):
            raise ArgumentError(
                f"convention must be a Convention, such as Convention.megatron(), got "
                f"{self.convention!r}."
            )


class Group(NamedTuple):
    """One hyper-connection or head: where it is, and meta tensors of what it becomes, by name."""

    site: Site
    outputs: Mapping[str, Tensor]
    is_head: bool


@dataclass(frozen=True)
class Plan:
    """A whole conversion.

    trained: the source's convention. stored: what is to be written beside the result.
    groups: what changes. passed: the names of the tensors that stay as they are.
    """

    source: Layout
    target: Layout
    options: Options
    trained: Convention
    stored: Stored
    groups: list[Group]
    passed: list[str]

    def convert(self, site: Site, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of one site, by role, under their new names."""
        to_from = self.trained.res_rows == "to_from"
        parameters = read_parameters(self.source, tensors, site.where, to_from=to_from)
        if self.options.float32:
            parameters = widened(parameters)
        if self.options.gamma == "fold":
            parameters = fold_gamma(parameters)
        to_from = self.stored.convention.res_rows == "to_from"
        written = write_parameters(self.target, parameters, site.where, to_from=to_from)
        prefix, head = renamed(site.prefix, self.options.rename), len(parameters.alpha) == 1
        return {name_at(self.target, prefix, head, role): t for role, t in written.items()}


def make_plan(
    described: Mapping[str, Tensor],
    source: str | Layout | None,
    target: str | Layout,
    options: Options,
    stored: Stored | None,
) -> Plan:
    """Plan a conversion of tensors that are described by meta tensors.

    stored: what was written beside the source, or None.
    Raises ArgumentError (a ValueError) for what has no exact counterpart, or no sense.
    """
    here, there = _source(source, stored), find_layout(target)
    if there.reads_only:
        raise ArgumentError(
            f"{there.library} cannot hold these gates, since it computes its own in another way; "
            f"{there.name} is a layout to convert from."
        )
    sites = find_sites(here, described)
    if not sites:
        fitting = [layout.name for layout in LAYOUTS.values() if _fits(layout, described)]
        hint = f"; the names fit the layouts {' and '.join(fitting)}" if fitting else ""
        raise ArgumentError(
            f"no hyper-connection in the layout {here.name} was found; one would be named "
            f"{', '.join(example_names(here))}{hint}."
        )
    shapes = [_read(here, site, described) for site in sites]
    form, residual = _form(here, sites, shapes)
    own = here.forms[form]
    known = options.convention or (own.convention if stored is None else stored.convention)
    trained = with_fields(known, options.numbers)
    against = conflicts(own, residual, trained)
    if against:
        listed = ", ".join(f"{name} {value}" for name, value in against.items())
        raise ArgumentError(
            f"{here.library} has {listed}, which the convention {trained} contradicts."
        )
    if residual == "head":
        form = next(iter(there.forms))
    else:
        check_form(there, form, sites[0].where)
    after, changed = followed(there, form, residual, trained, options.accept_mismatch)
    plan = Plan(here, there, options, trained, Stored(there.name, after, changed), [], [])

    taken: set[str] = set()
    for site, shape in zip(sites, shapes, strict=True):
        if shape.is_head and options.keep_heads:
            continue
        outputs = plan.convert(site, {role: described[name] for role, name in site.names.items()})
        plan.groups.append(Group(site, outputs, shape.is_head))
        taken.update(name for role, name in site.names.items() if role not in here.kept)
    plan.passed.extend(name for name in described if name not in taken)
    names = [*plan.passed, *(name for group in plan.groups for name in group.outputs)]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ArgumentError(
            f"two tensors would be called {twice}; give rename=[(pattern, replacement)] to keep "
            f"them apart."
        )
    return plan


def _source(source: str | Layout | None, stored: Stored | None) -> Layout:
    """The layout that was named, or that is written beside the tensors."""
    if source is None:
        if stored is None:
            raise ArgumentError(
                "nothing beside the tensors says in which layout they are; name the source."
            )
        return find_layout(stored.layout)
    found = find_layout(source)
    if stored is not None and stored.layout != found.name:
        raise ArgumentError(
            f"the tensors are said to be in the layout {stored.layout}, not {found.name}; name "
            f"{stored.layout} or none."
        )
    return found


def _fits(layout: Layout, names: Iterable[str]) -> bool:
    try:
        return bool(find_sites(layout, names))
    except ArgumentError:
        return False


def _read(layout: Layout, site: Site, described: Mapping[str, Tensor]) -> Parameters:
    tensors = {role: described[name] for role, name in site.names.items()}
    return read_parameters(layout, tensors, site.where, to_from=False)


def _form(layout: Layout, sites: list[Site], shapes: list[Parameters]) -> tuple[int, str]:
    """The length of alpha and the residual part of all sites: "matrix", "permutation" or "none".

    Heads have neither; where there is nothing else, any form of the layout, and "head".
    """
    found: dict[tuple[int, str], str] = {}
    for site, shape in zip(sites, shapes, strict=True):
        if not shape.is_head:
            n, rows = streams_of(shape, site.where)
            residual = "matrix" if rows == n * n else "permutation" if rows else "none"
            found.setdefault((len(shape.alpha), residual), site.where)
    if len(found) > 1:
        (a, b), (first, second) = list(found)[:2], list(found.values())[:2]
        raise ArgumentError(
            f"{first} has the residual part '{a[1]}' and {second} '{b[1]}': one convention cannot "
            f"speak of both; convert them apart."
        )
    if not found:
        return next(iter(layout.forms)), "head"
    return next(iter(found))
