"""The page of a judgement: well formed, self-contained, and drawn from its numbers."""

import re

import pytest
import torch

from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.conformance.judging import judge_golden, render_judgement
from tests.conformance.judging.wrong import computed, telling
from tests.monitor.test_page import Outline, figures, titles


@pytest.mark.parametrize("op", OPERATORS)
def test_self_contained(op):
    golden = telling(op)
    results = computed(golden)
    next(iter(results.values())).flatten()[0] = torch.nan
    page = render_judgement(judge_golden(golden, results), "a <b> & c")
    outline = Outline(page)
    assert outline.open == []
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.tags)
    assert not [a for a in outline.attributes if a[1] in ("src", "href", "srcset")]
    assert "url(" not in page
    assert "a &lt;b&gt; &amp; c" in page
    for name in golden.expected.tensors:
        if op != "MhcSinkhorn" or name == "y":
            assert f"<summary>{name}" in page


def test_the_map_shows_where_the_error_is():
    golden = telling("MhcPost")
    results = computed(golden)
    results["y"][5, 2, 100:] = 50.0
    found = figures(render_judgement(judge_golden(golden, results), "x"))
    cells = {t.rpartition(": ")[0]: t.rpartition(": ")[2] for t in titles(found[MAP], "rect")}
    loud = {place for place, share in cells.items() if float(share) > 1}
    assert loud
    assert {place.partition(", feature")[0].split(",")[1].strip() for place in loud} == {"stream 2"}
    assert {place.split(",")[0] for place in loud} <= {"token 4..5"}


def test_the_histogram_counts_every_element():
    golden = telling("MhcPost")
    results = computed(golden)
    results["y"][:] = torch.nan
    found = figures(render_judgement(judge_golden(golden, results), "x"))
    columns = titles(found["Errors in units in the last place"], "rect")
    shares = [float(t.rpartition(" ")[2]) for t in columns if t.startswith("this library")]
    assert sum(shares) == pytest.approx(1, abs=0.01)
    assert [t for t in columns if t.startswith("device")] == ["device, more: 1"]


def test_a_nan_is_a_cell_of_its_own_colour():
    golden = telling("MhcPreBackward")
    results = computed(golden)
    results["grad_bias"][3] = torch.nan
    page = render_judgement(judge_golden(golden, results), "x")
    assert page.count('class="cell bad"') == 1


def test_the_verdict_is_at_the_top():
    golden = telling("MhcPost")
    results = computed(golden)
    good = render_judgement(judge_golden(golden, results), "x")
    assert "All 1 outputs pass" in good
    assert "Known mistake" not in good
    wrong = {"y": results["y"].flip(1).contiguous()}
    bad = render_judgement(judge_golden(golden, wrong), "x")
    assert re.search(r"1 of 1 outputs fail.*No known pattern explains it", bad)
    none = render_judgement(judge_golden(golden, {"z": wrong["y"]}), "x")
    assert "y is missing" in none
    assert "z: the golden has no such output" in none


MAP = "Where the errors are"
