"""Two sets of tensors under a criterion: what is common, what one side lacks, what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..errors import ArgumentError
from .criteria import CRITERIA, Tolerance, Verdict, canonical_name, judge


@dataclass(frozen=True)
class Comparison:
    """Verdicts on the tensors of both sides; the names that only one side has."""

    verdicts: Sequence[Verdict]
    missing: Sequence[str]
    extra: Sequence[str]

    @property
    def equal(self) -> bool:
        return all(self.verdicts) and not self.missing and not self.extra


def compare_sets(
    got: Mapping[str, Tensor],
    want: Mapping[str, Tensor],
    criterion: str,
    tolerance: Callable[[str], Tolerance | None],
    step: Callable[[], None] = lambda: None,
) -> Comparison:
    """Judge the tensors of `got` by those of `want`, in the order of `want`.

    Args:   tolerance: by name, in place of the criterion's; None leaves that.
            step: called after each tensor.
    """
    verdicts = []
    for name in want:
        if name in got:
            given = tolerance(name)
            verdicts.append(judge(got[name], want[name], criterion, name=name, tolerance=given))
            step()
    missing = [name for name in want if name not in got]
    return Comparison(verdicts, missing, [name for name in got if name not in want])


def by_name(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by snake case name, so that gradX meets grad_x; unless two would coincide."""
    names = [canonical_name(name) for name in tensors]
    if len(set(names)) < len(names):
        names = list(tensors)
    return dict(zip(names, tensors.values(), strict=True))


def check_criterion(name: str, known: Sequence[str] = CRITERIA) -> None:
    """Raise ArgumentError for a criterion that is not known."""
    if name not in known:
        raise ArgumentError(f"unknown criterion {name!r}; known are {', '.join(known)}.")


def tolerances_of(texts: Sequence[str], known: Iterable[str]) -> dict[str, float]:
    """Tolerances by snake case name from P and NAME=P; the one for all under the empty name.

    Raises ArgumentError for another form, or a name that is not known.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[canonical_name(name)] = float(number)
        except ValueError:
            raise ArgumentError(
                f"--tolerance expects P or NAME=P, such as grad_x=0.0078125, got {text!r}."
            ) from None
    unknown = found.keys() - set(known) - {""}
    if unknown:
        raise ArgumentError(f"--tolerance names {sorted(unknown)[0]!r}, which neither side holds.")
    return found
