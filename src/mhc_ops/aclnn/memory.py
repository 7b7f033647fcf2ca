"""How an operator's results reach the caller's tensors, strided or overlapping with inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from .executor import Views


def required(views: Views, name: str) -> Tensor:
    """A tensor that the checks have found to be given."""
    tensor = views[name]
    assert tensor is not None
    return tensor


def targets(views: Views, names: Sequence[str]) -> tuple[Tensor | None, ...]:
    """Outputs an operator may write while it still reads its inputs; None for all others.

    An output on an input's memory, which a caller may want for working in place, waits for
    `write_back`.
    """
    inputs = [_extent(t) for name, t in views.items() if t is not None and name not in names]
    chosen: list[Tensor | None] = []
    for name in names:
        target = views[name]
        if target is not None:
            first, last = _extent(target)
            if any(first <= end and start <= last for start, end in inputs):
                target = None
        chosen.append(target)
    return tuple(chosen)


def _extent(t: Tensor) -> tuple[int, int]:
    """Addresses of the first and the last byte of a tensor that is not empty."""
    reach = sum((size - 1) * step for size, step in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + (reach + 1) * t.element_size() - 1


def write_back(
    views: Views,
    names: Sequence[str],
    written: Iterable[Tensor | None],
    results: Iterable[Tensor | None],
) -> None:
    """Copy results into the outputs that `targets` held back."""
    for name, target, result in zip(names, written, results, strict=True):
        final = views[name]
        if final is not None and target is None and result is not None:
            final.copy_(result)
