"""How an operator's keyword numbers and a `convention` become one set of numbers."""

from typing import Any

from ...convention import Convention
from ...errors import ArgumentError


def merge(
    op: str, convention: Convention | None, keywords: tuple[tuple[str, str, Any, Any], ...]
) -> list[Any]:
    """The keywords' values, or the convention's where one is given.

    keywords: (name, the convention's name for it, value, default) each. A value that is neither the
    default nor the convention's would be dropped, and raises ArgumentError.
    """
    if convention is None:
        return [value for _, _, value, _ in keywords]
    if not isinstance(convention, Convention):
        raise ArgumentError(
            f"{op}: convention must be a Convention, such as Convention.megatron(), got "
            f"{convention!r}."
        )
    merged = []
    for name, field, value, default in keywords:
        theirs = getattr(convention, field)
        if value not in (default, theirs):
            raise ArgumentError(
                f"{op}: {name}={value!r} contradicts {convention}; "
                f"use dataclasses.replace(convention, {field}={value!r})."
            )
        merged.append(theirs)
    return merged
