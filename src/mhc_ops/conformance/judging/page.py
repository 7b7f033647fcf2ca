"""A judgement as one HTML page: the verdict, the three errors, and pictures of each output."""

from __future__ import annotations

from html import escape

from ...page.document import document
from ...page.frame import legend
from ...page.scales import scale_of
from ...page.sections import section, table_of, tiles_of
from ...page.svg import number, tag, text
from .judgement import Judgement, OutputJudgement
from .pictures import error_map, groups_chart, histogram

_CSS = """
:root { --good: #2f7d4f; --bad: #c0392b; --hint: #fff6e3; }
@media (prefers-color-scheme: dark) { :root { --good: #6cc292; --bad: #f0705f; --hint: #33291a; } }
.cell.bad { fill: var(--bad); } .column { fill: var(--c); }
.banner { border-left: 6px solid var(--bad); padding: 6px 18px; margin: 18px 0 0; }
.banner.good { border-color: var(--good); } .banner b { font-size: 22px; display: block; }
.hint { background: var(--hint); border: 1px solid var(--grid); border-radius: 10px;
  padding: 12px 18px; margin: 14px 0 0; } .hint b { display: block; font-size: 17px; }
.yes { color: var(--good); } .no { color: var(--bad); font-weight: 600; }
.dots circle { fill: var(--c); } .dots .got { stroke: var(--card); stroke-width: 1.5; }
.dots .limit { stroke: var(--bad); stroke-width: 1.5; }
details { margin: 14px 0 0; } summary { cursor: pointer; font-size: 19px; font-weight: 600; }
summary .yes, summary .no { font-size: 14px; margin-left: 10px; }
details section h2 { display: none; } td:first-child, th:first-child { text-align: left; }
figure.whole { margin: 16px 0 0; } details .wide { margin: 14px 0 0; }
.cell { shape-rendering: crispEdges; }
"""
_SERIES = (("got", "device", 2), ("eager", "float32 eager", 1), ("ours", "this library", 3))


def render_judgement(found: Judgement, subject: str) -> str:
    """The page as text: self-contained HTML, without scripts and without anything fetched.

    subject: what was judged by what, in words.
    """
    attrs = ", ".join(f"{name} {value}" for name, value in found.attrs.items())
    shown = sorted(found.outputs, key=lambda output: output.passed)
    body = [
        tag("p", escape(f"{subject}. Criterion {found.criterion}. {attrs or 'No attributes'}.")),
        _banner(found),
        *(_hint(hint.name, hint.evidence, hint.advice) for hint in found.hints),
        _tiles(found),
        _three_errors(found),
        _outputs(found),
        *(_details(output, o == 0) for o, output in enumerate(shown)),
        tag("footer", "Drawn by mhc-ops judge. Point at a cell, a column or a dot to read it."),
    ]
    return document(f"{found.op} judged", body, _CSS)


def _banner(found: Judgement) -> str:
    failed = [o.name for o in found.outputs if not o.passed]
    total = len(found.outputs) + len(found.missing)
    if found.passed:
        words = f"All {total} outputs pass"
        more = "Each meets the criterion and is as good as float32 arithmetic allows."
    else:
        words = f"{len(failed) + len(found.missing)} of {total} outputs fail"
        told = [f"{name} is missing" for name in found.missing]
        told += [f"{o.name}: {_reason(o)}" for o in found.outputs if not o.passed]
        more = "; ".join(told) + "."
    if not found.hints and not found.passed:
        more += " No known pattern explains it."
    more += "".join(f" {n}: not judged, its order in memory is free." for n in found.unjudged)
    more += "".join(f" {n}: the golden has no such output." for n in found.extra)
    good = " good" if found.passed else ""
    return tag("div", tag("b", escape(words)) + escape(more), class_=f"banner{good}")


def _reason(output: OutputJudgement) -> str:
    if not output.verdict:
        return output.verdict.reason
    return f"meets the criterion, but {output.outside} elements are worse than float32 allows"


def _hint(name: str, evidence: str, advice: str) -> str:
    words = tag("b", escape(f"Known mistake: {name}")) + escape(f"{evidence}. Remember: {advice}.")
    return tag("div", words, class_="hint")


def _tiles(found: Judgement) -> str:
    errors = [o.errors["got"] for o in found.outputs if o.errors]
    size = sum(e.error.numel() for e in errors)
    outside = sum(int(e.outside.sum()) for e in errors)
    worst = max((float(e.share.max()) for e in errors), default=0.0)
    exact = sum(int((e.ulps <= 0.5).sum()) for e in errors)
    return tiles_of(
        (
            ("elements compared", f"{size:,}"),
            ("worse than float32 allows", f"{outside:,}"),
            ("largest error / what is allowed", number(worst, 3)),
            ("within half a unit in the last place", f"{exact / size:.1%}" if size else "none"),
        )
    )


def _three_errors(found: Judgement) -> str:
    """A dot for each of the three, a row for each output, the bound as a line at 1."""
    outputs = [o for o in found.outputs if o.errors]
    if not outputs:
        return ""
    left, right, top, step, width = 150, 40, 26, 34, 1180
    shares = [[float(o.errors[key].share.max()) for key, *_ in _SERIES] for o in outputs]
    scale = scale_of([1.0, *(s for row in shares for s in row)], log=True)
    height = top + step * len(outputs) + 46
    base = height - 44

    def x(value: float) -> float:
        place = scale.at(value) if scale.shows(value) else float(value > 0)
        return left + (width - left - right) * place

    parts = []
    for tick in scale.ticks(8):
        at = x(tick)
        parts.append(tag("line", x1=at, x2=at, y1=top - 10, y2=base, class_="grid"))
        parts.append(text(scale.tick_text(tick), at, base + 18))
    parts.append(tag("line", x1=x(1), x2=x(1), y1=top - 12, y2=base, class_="limit"))
    parts.append(text("allowed", x(1), top - 14))
    parts.append(text("largest error / what is allowed", (left + width - right) / 2, height - 6))
    for r, (output, row) in enumerate(zip(outputs, shares, strict=True)):
        y = top + step * (r + 0.5)
        parts.append(text(output.name, left - 14, y + 4, "label", "end"))
        parts.append(tag("line", x1=left, x2=width - right, y1=y, y2=y, class_="grid"))
        for (key, name, colour), share in zip(_SERIES, row, strict=True):
            error = output.max_errors[key]
            words = f"{output.name}, {name}: {number(share, 3)} of the bound, {number(error, 3)}"
            radius = {"got": 9, "eager": 5.5, "ours": 3.5}[key]
            dot = {"cx": x(share), "cy": y, "r": radius, "class_": f"{key} s{colour}"}
            parts.append(tag("circle", tag("title", escape(words)), **dot))
    label = "largest errors of three"
    box = f"0 0 {width} {height}"
    svg = tag("svg", parts, viewBox=box, class_="dots", role="img", aria_label=label)
    keys = legend([(name, f"s{colour}") for _, name, colour in _SERIES])
    lead = (
        "Allowed is one rounding to the output's dtype, the error of float32 eager torch on the "
        "same values, and what another order of the same additions may cost."
    )
    figure = tag("figure", svg + keys, class_="whole")
    return tag("section", tag("h2", "Three ways beside float64") + tag("p", lead) + figure)


def _outputs(found: Judgement) -> str:
    heads = ("output", "", "criterion", "misses", "max error", "eager", "ours", "ulps", "outside")
    rows = []
    for o in found.outputs:
        shape = " x ".join(map(str, o.shape))
        errors = [number(o.max_errors[k], 3) if o.errors else "" for k, *_ in _SERIES]
        rows.append(
            (
                tag("b", escape(o.name)),
                escape(f"{o.dtype}, {shape}"),
                _mark(o.verdict.passed, "passes", "fails"),
                f"{o.verdict.misses:,} of {o.verdict.size:,}",
                *errors,
                number(o.max_ulps["got"], 3) if o.errors else "",
                _mark(o.within, "none", f"{o.outside:,}"),
            )
        )
    lead = tag("p", "Errors are |result - float64|; a miss is an element outside the criterion.")
    return tag("section", tag("h2", "Outputs") + lead + table_of(heads, rows))


def _mark(good: bool, yes: str, no: str) -> str:
    return tag("span", yes if good else no, class_="yes" if good else "no")


def _details(output: OutputJudgement, unfolded: bool) -> str:
    if not output.errors:
        return ""
    got = output.errors["got"]
    charts = [
        ("Where the errors are", error_map(output)),
        ("Errors in units in the last place", histogram(output.errors, _SERIES)),
    ]
    if output.by_stream:
        charts.append(("Largest error by stream", groups_chart(output.by_stream, "stream")))
    if output.by_tokens:
        charts.append(("Largest error by token block", groups_chart(output.by_tokens, "tokens")))
    lead = f"{output.verdict.rule}. Largest error {number(float(got.error.max()), 3)}."
    worst = table_of(
        ("worst elements", "result", "truth", "error", "ulps", "share of what is allowed"),
        (
            (
                escape(e.at),
                *(number(v, 6) for v in (e.got, e.want)),
                *(number(v, 3) for v in (e.error, e.ulps, e.share)),
            )
            for e in output.worst
        ),
    )
    mark = _mark(output.passed, "passes", "fails")
    summary = tag("summary", escape(output.name) + mark)
    body = section(output.name, lead, charts) + (worst if output.worst else "")
    return tag("details", summary + body, **({"open": ""} if unfolded or not output.passed else {}))
