"""The page of a run: well formed, self-contained, and drawn from the recorded numbers."""

import json
import math
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from mhc_ops.monitor import line_picture, read_run, render_page
from mhc_ops.page import line_chart as lines
from mhc_ops.page.heat_map import heat_map, matrix
from mhc_ops.page.line_chart import Line, line_chart
from mhc_ops.page.scales import Scale, colour, scale_of
from mhc_ops.page.svg import number


class Outline(HTMLParser):
    """Tags in order, and whether each one that opens is closed."""

    VOID = ("meta",)

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def figures(page):
    """The SVG of each chart by its heading."""
    found = re.findall(r"<figure><h3[^>]*>(.*?)</h3>(<svg.*?</svg>)", page, re.DOTALL)
    return {name: ElementTree.fromstring(svg) for name, svg in found}


def titles(svg, element):
    return [node.find("title").text for node in svg.iter(element) if node.find("title") is not None]


def test_self_contained(recorded):
    page = render_page(read_run(recorded))
    outline = Outline(page)
    assert outline.open == []
    assert {"svg", "table", "style", "title"} <= set(outline.tags)
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.tags)
    assert not [a for a in outline.attributes if a[1] in ("src", "href", "srcset")]
    assert "//" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page


def test_sections_show_the_recorded_numbers(recorded):
    run = read_run(recorded)
    charts, last = figures(render_page(run)), run.steps[-1]

    depth = titles(charts["Gain over depth, step 6"], "circle")
    for n, layer in enumerate(last.layers, 1):
        where = f"layer {n}, {layer['name']}"
        gain = number(layer["gain_backward"], 6)
        assert f"backward, this layer to the last, {where}: {gain}" in depth
        cells = titles(charts[f"{n} · {layer['name']}"], "rect")
        wanted = [
            f"layer {n}, {layer['name']}, from {i + 1} to {j + 1}: {number(value, 6)}"
            for i, row in enumerate(layer["h_res"])
            for j, value in enumerate(row)
        ]
        assert cells == wanted
    over_steps = titles(charts["Gain of all layers, over steps"], "circle")
    assert len(over_steps) == 2 * len(run.steps)
    for step in run.steps:
        total = number(step.layers[-1]["gain_forward"], 6)
        assert f"forward, {step.step}: {total}" in over_steps
        loss = number(step.values["loss"], 6)
        assert f"loss, {step.step}: {loss}" in titles(charts["loss"], "circle")
    phi = titles(charts["phi, by layer and step"], "rect")
    assert phi == [
        f"layer {n + 1}, {last.layers[n]['name']}, {s.step}: "
        f"{number(s.layers[n]['grad_norm']['phi'], 6)}"
        for n in range(3)
        for s in run.steps
    ]
    for heading in (
        "h_pre over depth, step 6",
        "Mean h_post by layer and stream",
        "gamma, by layer and step",
    ):
        assert heading in charts
    assert "out_bias, by layer and step" not in charts


def test_a_long_run_is_thinned_and_says_so(recorded):
    run = read_run(recorded)
    many = [run.steps[i % 4]._replace(step=i) for i in range(1000)]
    page = render_page(run._replace(steps=many))
    assert "Lines show 400 of them, heat maps over steps 100, evenly chosen." in page
    svg = figures(page)["Gain of all layers, over steps"]
    points = [len(node.get("points").split()) for node in svg.iter("polyline")]
    assert points == [400, 400]
    assert len(page) < 2_000_000


def test_what_is_not_finite_is_left_out_and_said(recorded):
    text = recorded.read_text().splitlines()
    broken = json.loads(text[-1])
    broken["layers"][0] |= {"gain_forward": "nan", "gain_backward": "inf", "defect_row": "nan"}
    broken["layers"][0]["h_res"][0][0] = "nan"
    recorded.write_text("\n".join([*text[:-1], json.dumps(broken)]) + "\n")
    page = render_page(read_run(recorded))
    assert Outline(page).open == []
    assert "2 points not drawn (zero, NaN or infinite)" in page
    assert not re.search(r'(points|cx|cy|x|y|height|width)="[^"]*(nan|inf)', page)


def test_names_are_escaped(recorded):
    run = read_run(recorded)
    run.steps[-1].layers[0]["name"] = "<b>&"
    page = render_page(run, title="a<i>&b")
    assert Outline(page).open == []
    assert "<b>&<" not in page
    assert "a&lt;i&gt;&amp;b" in page


def test_a_line_is_where_its_axis_says():
    svg = line_chart([Line("l", [0, 50, 100], [1.0, 2.0, 4.0])], "x", "y", mark=1.0)
    tree = ElementTree.fromstring(svg[: svg.index("</svg>") + 6])
    ticks = {t.text: t for t in tree.iter("text")}
    dots = list(tree.iter("circle"))
    for dot, x, y in zip(dots, ("0", "50", "100"), ("1", "2", "4"), strict=True):
        if x in ticks:
            assert float(dot.get("cx")) == pytest.approx(float(ticks[x].get("x")), abs=0.1)
        assert float(dot.get("cy")) == pytest.approx(float(ticks[y].get("y")) - 4, abs=0.1)
    assert lines.TOP < float(dots[2].get("cy")) < float(dots[0].get("cy"))


def test_a_broken_line_and_a_log_axis():
    svg = line_chart([Line("l", range(5), [1.0, 10.0, 0.0, 100.0, math.nan])], "x", "y", log=True)
    assert svg.count("<polyline") == 2
    assert svg.count("<circle") == 3
    assert "2 points not drawn" in svg


def test_heat_map_colours_and_scale():
    scale = Scale(0.0, 1.0)
    svg = heat_map([[0.0, 1.0], [0.5, math.nan]], scale, ["a", "b"], ["1", "2"], "x", "y")
    tree = ElementTree.fromstring(svg)
    cells = [r for r in tree.iter("rect") if r.find("title") is not None]
    assert [c.get("fill") for c in cells] == [colour(0), colour(1), colour(0.5), None]
    assert "none" in cells[3].get("class")
    legend = next(g for g in tree.iter("g") if g.get("class") == "scale")
    assert [t.text for t in legend.iter("text")] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert float(cells[0].get("y")) > float(cells[2].get("y"))  # the first layer lies below


def test_matrix_has_from_downwards():
    tree = ElementTree.fromstring(matrix([[0.1, 0.2], [0.3, 0.4]], Scale(0.0, 1.0), "m"))
    cells = [r for r in tree.iter("rect") if r.find("title") is not None]
    assert cells[1].find("title").text == "m, from 1 to 2: 0.2"
    assert float(cells[1].get("x")) > float(cells[0].get("x"))
    assert cells[1].get("y") == cells[0].get("y")


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([3.0], {}),
        ([0.0, 0.0], {}),
        ([1.0, 1.0 + 1e-9], {"least_span": 0.02}),
        ([-5.0, 1e7], {}),
        ([1e-9, 3.0], {"log": True}),
        ([math.nan], {"log": True}),
        ([], {}),
        ([1e-300, 1e300], {"log": True}),
    ],
)
def test_scales_have_ticks_within_their_ends(values, options):
    scale = scale_of(values, **options)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(-1e-9 <= scale.at(t) <= 1 + 1e-9 for t in ticks)
    assert len({scale.tick_text(t) for t in ticks}) == len(ticks)
    assert all(0 <= scale.at(v) <= 1 for v in values if scale.shows(v))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (1.23456, "1.235"),
        (2.14e-7, "2.14e-7"),
        (12345.6, "12346"),
        (1e-5, "1e-5"),
        (2.5e8, "2.5e8"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_a_picture_is_a_file_of_its_own():
    """The chart's elements, a legend of its own, and colours for light and dark."""
    drawn = [Line("<a & b>", [0, 1, 2], [3.0, 1.0, 2.0], 3, band=[(2, 4), (0, 2), (1, 3)])]
    drawn.append(Line("gone", [0, 1, 2], [1.0, math.nan, 1.0], 2, thin=True))
    picture = ElementTree.fromstring(line_picture(drawn, "step", "loss", mark=1.5))
    within = ElementTree.fromstring(
        line_chart(drawn, "step", "loss", mark=1.5).partition("<div")[0]
    )
    here = "{http://www.w3.org/2000/svg}"
    for element in ("polyline", "polygon", "circle"):
        assert [node.attrib for node in picture.iter(here + element)] == [
            node.attrib for node in within.iter(element)
        ]
    assert {"<a & b>", "gone"} <= {node.text for node in picture.iter(here + "text")}
    assert "prefers-color-scheme: dark" in picture.find(f"{here}style").text
