"""Names that a user wrote: which of them are an operator's, and which one was meant."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from ..errors import ArgumentError

Entry = TypeVar("Entry")


def hint(name: str, known: Iterable[str]) -> str:
    """A remark about the known name that comes close, or nothing."""
    close = get_close_matches(name.lower(), list(known), 1, 0.75)
    return f" (did you mean {close[0]}?)" if close else ""


def select(
    op: str,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    known: Collection[str],
    tensors: Mapping[str, Entry],
) -> tuple[dict[str, Entry], list[str]]:
    """An operator's own inputs, and the names of tensors that belong to its partner.

    Raises ArgumentError for a tensor that is not among the `known` ones, or a missing one.
    """
    own = (*required, *optional)
    for name in tensors:
        if name not in known:
            raise ArgumentError(
                f"{op}: unknown tensor {name!r}{hint(name, own)}; the inputs are {', '.join(own)}."
            )
    missing = [name for name in required if name not in tensors]
    if missing:
        raise ArgumentError(f"{op}: missing {', '.join(missing)} in the input.")
    inputs = {name: tensors[name] for name in own if name in tensors}
    return inputs, [name for name in tensors if name not in inputs]
