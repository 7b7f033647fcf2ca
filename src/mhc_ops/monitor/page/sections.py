"""The parts of the page, from top to bottom."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from ...page.heat_map import heat_map, legend_bar, matrix
from ...page.line_chart import Line, line_chart
from ...page.scales import Scale, scale_of
from ...page.sections import evenly, section, table_of, tiles_of
from ...page.svg import number, tag
from ..run import Run, StepRecord

MOST_POINTS, MOST_COLUMNS, MOST_MAPS = 400, 100, 64
GATES = ("h_pre", "h_post")


def facts(run: Run) -> str:
    """What was recorded, in a sentence."""
    last, streams = run.steps[-1], run.head["streams"]
    kinds = sorted({layer["residual"] for layer in run.head["layers"].values()})
    words = (
        f"{len(last.layers)} hyper-connections ({', '.join(kinds)}) over {streams} streams; "
        f"{len(run.steps)} recorded steps, {run.steps[0].step} to {last.step}."
    )
    if len(run.steps) > MOST_POINTS:
        words += f" Lines show {MOST_POINTS} of them"
        words += f", heat maps over steps {MOST_COLUMNS}, evenly chosen."
    elif len(run.steps) > MOST_COLUMNS:
        words += f" Heat maps over steps show {MOST_COLUMNS} of them, evenly chosen."
    return words


def tiles(run: Run) -> str:
    """The few numbers that tell whether to worry."""
    last = run.steps[-1]
    worst = max(
        (layer[name] for step in run.steps for layer in step.layers for name in _DEFECTS),
        key=lambda v: math.inf if math.isnan(v) else v,
    )
    shown = [
        ("forward gain of all layers, last step", last.layers[-1]["gain_forward"]),
        ("backward gain of all layers, last step", last.layers[0]["gain_backward"]),
        ("largest Sinkhorn defect of the run", worst),
        *((f"{name}, last step", value) for name, value in list(last.values.items())[:3]),
    ]
    return tiles_of((name, number(value)) for name, value in shown)


def values(run: Run) -> str:
    """What the training loop passed to step(), a chart each."""
    steps = evenly(run.steps, MOST_POINTS)
    names = dict.fromkeys(name for step in run.steps for name in step.values)
    charts = []
    for name in names:
        held = [s for s in steps if name in s.values]
        if held:
            line = Line(name, [s.step for s in held], [s.values[name] for s in held])
            charts.append((name, line_chart([line], "step", name)))
    return section("Training", "As the training loop logged it.", charts) if charts else ""


def gains(run: Run) -> str:
    """Composed residual maps over depth and over steps."""
    last, steps = run.steps[-1], evenly(run.steps, MOST_POINTS)
    depth, names = _depth(last), _names(last)

    def over_depth(key: str) -> list[float]:
        return [layer[key] for layer in last.layers]

    forward, backward = over_depth("gain_forward"), over_depth("gain_backward")
    single = (over_depth("single_forward"), over_depth("single_backward"))
    total = (
        [s.layers[-1]["gain_forward"] for s in steps],
        [s.layers[0]["gain_backward"] for s in steps],
    )
    xs = [s.step for s in steps]
    charts = [
        (
            f"Gain over depth, step {last.step}",
            line_chart(
                [
                    Line("forward, first layer to this one", depth, forward, 1),
                    Line("backward, this layer to the last", depth, backward, 2),
                    Line("this layer alone, forward", depth, single[0], 1, thin=True),
                    Line("this layer alone, backward", depth, single[1], 2, thin=True),
                ],
                "layer",
                "gain",
                log=_wide(forward + backward),
                least_span=0.02,
                mark=1.0,
                names=names,
            ),
        ),
        (
            "Gain of all layers, over steps",
            line_chart(
                [Line("forward", xs, total[0], 1), Line("backward", xs, total[1], 2)],
                "step",
                "gain",
                log=_wide(total[0] + total[1]),
                least_span=0.02,
                mark=1.0,
            ),
        ),
        *(
            (f"{words}, by layer and step", _by_step(run, _field(key), 0.02))
            for words, key in (
                ("Forward gain", "gain_forward"),
                ("Backward gain", "gain_backward"),
            )
        ),
    ]
    lead = (
        "The mean-over-tokens residual maps multiplied along depth. Forward: largest absolute sum "
        "over the streams read, what a signal can grow by. Backward: over the streams written, "
        "what a gradient can grow by. Doubly stochastic maps keep both at 1."
    )
    return section("Gain of the composed residual maps", lead, charts)


def maps(run: Run) -> str:
    """Mean h_res of each layer at the last step."""
    last = run.steps[-1]
    chosen = evenly(list(enumerate(last.layers, 1)), MOST_MAPS)
    entries = [v for _, layer in chosen for row in layer["h_res"] for v in row if math.isfinite(v)]
    scale = Scale(min(0.0, *entries), max(1.0, *entries)) if entries else Scale(0.0, 1.0)
    figures = (
        tag(
            "figure",
            tag("h3", escape(f"{n} · {layer['name']}"), title=layer["name"])
            + matrix(layer["h_res"], scale, f"layer {n}, {layer['name']}"),
        )
        for n, layer in chosen
    )
    lead = (
        f"Mean over tokens at step {last.step}; row: the stream read, column: the stream written."
    )
    if len(chosen) < len(last.layers):
        lead += f" {len(chosen)} of {len(last.layers)} layers, evenly chosen."
    body = legend_bar(scale) + tag("div", figures, class_="maps")
    return tag("section", tag("h2", "Residual maps h_res") + tag("p", lead) + body)


def gates(run: Run) -> str:
    """h_pre and h_post over depth, by stream and over steps."""
    last = run.steps[-1]
    depth, names = _depth(last), _names(last)
    charts = []
    for colour, gate in enumerate(GATES, 3):
        seen = [layer[gate] for layer in last.layers]
        means = [g["mean"] for g in seen]
        lines = [
            Line(
                "mean",
                depth,
                means,
                colour,
                band=[(g["mean"] - g["std"], g["mean"] + g["std"]) for g in seen],
            ),
            Line("smallest", depth, [g["min"] for g in seen], colour, thin=True),
            Line("largest", depth, [g["max"] for g in seen], colour, thin=True),
        ]
        chart = line_chart(lines, "layer", gate, least_span=0.02, names=names)
        charts.append((f"{gate} over depth, step {last.step}", chart))
    for gate in GATES:
        cells = [layer[gate]["streams"] for layer in last.layers]
        streams = [f"stream {i + 1}" for i in range(len(cells[0]))]
        scale = scale_of((v for row in cells for v in row), least_span=0.02)
        rows = [str(d) for d in depth]
        chart = heat_map(cells, scale, streams, rows, "stream", "layer", names)
        charts.append((f"Mean {gate} by layer and stream", chart))
    for gate in GATES:
        chart = _by_step(run, _field(gate, "mean"), 0.02)
        charts.append((f"Mean {gate} by layer and step", chart))
    lead = (
        "h_pre weighs the streams that a sublayer reads, h_post what it writes into each. The band "
        "is one standard deviation over tokens and streams, the dashed lines are the extremes."
    )
    return section("Gates", lead, charts)


def defects(run: Run) -> str:
    """How far h_res is from doubly stochastic."""
    last, steps = run.steps[-1], evenly(run.steps, MOST_POINTS)
    xs = [s.step for s in steps]
    words = {"defect_row": "rows (sums over the stream written)"}
    words["defect_column"] = "columns (sums over the stream read)"
    over_steps = [
        Line(words[key], xs, [_largest(layer[key] for layer in s.layers) for s in steps], colour)
        for colour, key in enumerate(_DEFECTS, 1)
    ]
    over_depth = [
        Line(words[key], _depth(last), [layer[key] for layer in last.layers], colour)
        for colour, key in enumerate(_DEFECTS, 1)
    ]
    chart = line_chart(over_depth, "layer", "defect", log=True, names=_names(last))
    charts = [
        (
            "Defect of the worst layer, over steps",
            line_chart(over_steps, "step", "defect", log=True),
        ),
        (f"Defect over depth, step {last.step}", chart),
    ]
    lead = (
        "The largest distance of a row's or column's sum from 1, over all tokens. The side "
        "that Sinkhorn divides last stays at rounding; the other shows how far it has converged."
    )
    return section("Sinkhorn defect", lead, charts)


def gradients(run: Run) -> str:
    """Gradient norms of the parameters, by layer and step."""
    charts = []
    for name in run.steps[-1].layers[0]["grad_norm"]:

        def norm(layer: dict[str, Any], name: str = name) -> float:
            value = layer["grad_norm"].get(name)
            return math.nan if value is None else float(value)

        if any(math.isfinite(norm(layer)) for s in run.steps for layer in s.layers):
            charts.append((f"{name}, by layer and step", _by_step(run, norm, log=True)))
    lead = "2-norms, colours on a logarithmic scale; grey is zero, absent or not finite."
    return section("Gradient norms", lead, charts) if charts else ""


def layers(run: Run) -> str:
    """A table of the last step."""
    last = run.steps[-1]
    keys = ("gain_forward", "gain_backward", "single_forward", "single_backward", *_DEFECTS)
    heads = ("layer", "name", *(key.replace("_", " ") for key in keys), *GATES)
    rows = []
    for depth, layer in enumerate(last.layers, 1):
        numbers = [layer[key] for key in keys] + [layer[gate]["mean"] for gate in GATES]
        rows.append((str(depth), escape(layer["name"]), *(number(v, 5) for v in numbers)))
    lead = tag("p", f"Step {last.step}.")
    return tag("section", tag("h2", "Layers") + lead + table_of(heads, rows))


_DEFECTS = ("defect_row", "defect_column")


def _by_step(
    run: Run, value: Callable[[dict[str, Any]], float], least_span: float = 0.0, log: bool = False
) -> str:
    steps = evenly(run.steps, MOST_COLUMNS)
    cells = [[value(s.layers[i]) for s in steps] for i in range(len(steps[0].layers))]
    flat = [v for row in cells for v in row]
    scale = scale_of(flat, log=log or _wide(flat), least_span=least_span)
    columns, rows = [str(s.step) for s in steps], [str(d) for d in _depth(steps[0])]
    return heat_map(cells, scale, columns, rows, "step", "layer", _names(steps[0]))


def _field(*keys: str) -> Callable[[dict[str, Any]], float]:
    def value(layer: Any) -> float:
        for key in keys:
            layer = layer[key]
        return float(layer)

    return value


def _wide(values: Sequence[float]) -> bool:
    """Whether values span so much that a linear axis would hide the small ones."""
    shown = [v for v in values if math.isfinite(v)]
    return bool(shown) and min(shown) > 0 and max(shown) / min(shown) > 20


def _depth(step: StepRecord) -> list[int]:
    return list(range(1, len(step.layers) + 1))


def _names(step: StepRecord) -> list[str]:
    return [f"layer {n}, {layer['name']}" for n, layer in enumerate(step.layers, 1)]


def _largest(values: Iterable[float]) -> float:
    return max(values, key=lambda v: math.inf if math.isnan(v) else v)
