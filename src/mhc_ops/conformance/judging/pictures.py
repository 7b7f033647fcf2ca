"""Pictures of one output's errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...page.bar_chart import Bars, bar_chart
from ...page.heat_map import heat_map
from ...page.scales import Scale
from .measures import Errors, Group

if TYPE_CHECKING:
    from .judgement import OutputJudgement

ROWS, COLUMNS = 32, 48
MOST_BITS = 10  # the histogram's last column but one: errors of at most 2^10 ulps
_DECADES = (1e-3, 1e3)  # of the colours: a thousandth of what is allowed to a thousand times


def error_map(output: OutputJudgement) -> str:
    """Tokens (or rows) by streams and features: the largest share of what is allowed in a cell."""
    share, parts = _as_matrix(output.errors["got"].share, output.axes)
    rows = _runs(share.shape[0], ROWS)
    columns = _columns(share.shape[1], parts)
    cells = [
        [float(share[r0:r1, c0:c1].max()) for c0, c1, _ in columns] for r0, r1 in reversed(rows)
    ]
    kind = "token" if "t" in output.axes or "s" in output.axes else "row"
    names = [_run_name(*row) for row in reversed(rows)]
    each = share.shape[1] // parts
    streams = parts > 1
    places = [(part, _run_name(c0 - part * each, c1 - part * each)) for c0, c1, part in columns]
    titles = [f"stream {part}, {name}" if streams else name for part, name in places]
    starts = [c for c, (c0, _, part) in enumerate(columns) if c0 == part * each]
    heads = [f"stream {part}" if streams else name.partition("..")[0] for part, name in places]
    finite = [v for row in cells for v in row if math.isfinite(v) and v > 0]
    low = min([_DECADES[0], 10.0 ** math.floor(math.log10(min(finite, default=1.0)))])
    scale = Scale(max(low, 1e-4), max(10.0, min(_DECADES[1], max(finite, default=1.0) * 2)), True)
    return heat_map(
        [[_within(v, scale) for v in row] for row in cells],
        scale,
        heads,
        [name.partition("..")[0] for name in names],
        "features of each stream" if streams else _last_axis(output.axes),
        kind,
        [f"{kind} {name}" for name in names],
        titles,
        starts if streams else (),
    )


def _last_axis(axes: Sequence[str]) -> str:
    if axes[-1:] == ("d",):
        return "feature"
    return {("i",): "stream", ("i", "j"): "entry of the map"}.get(tuple(axes[1:]), "column")


def _within(value: float, scale: Scale) -> float:
    """A value the scale can colour; zero and infinities stay what they are."""
    if value == 0 or not math.isfinite(value):
        return value if value == 0 else math.inf
    return min(max(value, scale.low), scale.high)


def _as_matrix(values: Tensor, axes: Sequence[str]) -> tuple[Tensor, int]:
    """[tokens, rest] and how many parts, the streams, the rest falls into."""
    lead = [axes.index(a) for a in ("b", "s", "t") if a in axes]
    if not lead:
        return (values.reshape(1, -1) if values.dim() < 2 else values.flatten(1)), 1
    rest = [d for d in range(values.dim()) if d not in lead]
    ordered = values.permute(*lead, *rest)
    tokens = math.prod(ordered.shape[: len(lead)])
    matrix = ordered.reshape(tokens, -1)
    first = axes[rest[0]] if rest else ""
    return matrix, values.shape[rest[0]] if first == "i" and len(rest) > 1 else 1


def _runs(count: int, most: int) -> list[tuple[int, int]]:
    """At most `most` equal runs that cover `count`."""
    length = -(-count // most)
    return [(first, min(first + length, count)) for first in range(0, count, length)]


def _columns(count: int, parts: int) -> list[tuple[int, int, int]]:
    """Runs of columns (first, last + 1, stream) that end where a stream ends."""
    each = count // parts
    return [
        (part * each + first, part * each + last, part)
        for part in range(parts)
        for first, last in _runs(each, max(1, COLUMNS // parts))
    ]


def _run_name(first: int, last: int) -> str:
    return str(first) if last - first == 1 else f"{first}..{last - 1}"


def histogram(errors: Mapping[str, Errors], series: Sequence[tuple[str, str, int]]) -> str:
    """How many elements are how many units in the last place off, a column for each result."""
    top = max(2.0, *(_top(e) for e in errors.values()))
    powers = range(min(math.ceil(math.log2(top)), MOST_BITS) + 1)
    edges = [0.0, 0.5, *(2.0**k for k in powers)]
    names = ["0", "½", *(str(2**k) for k in powers), "more"]
    bars = []
    for key, name, colour in series:
        ulps = errors[key].ulps.flatten()
        bounds = torch.tensor(edges, dtype=torch.float64)
        counts = torch.bucketize(ulps, bounds).bincount(minlength=len(edges) + 1)
        shares = (counts.double() / max(1, ulps.numel())).tolist()
        bars.append(Bars(name, shares, colour))
    return bar_chart(names, bars, "error at most, ulps", "share of elements")


def _top(errors: Errors) -> float:
    finite = errors.ulps[errors.ulps.isfinite()]
    return float(finite.max()) if finite.numel() else 1.0


def groups_chart(groups: Sequence[Group], what: str) -> str:
    """The largest and the root mean square error of streams or runs of tokens."""
    names = [g.name.removeprefix("stream ") for g in groups]
    if what == "tokens":
        names = [name.partition("..")[0] for name in names]
    series = (
        Bars("largest", [g.max_error for g in groups], 2),
        Bars("root mean square", [g.rms_error for g in groups], 4),
    )
    label = "first token of the block" if what == "tokens" else what
    return bar_chart(names, series, label, "error")
