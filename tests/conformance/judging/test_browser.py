"""The page of a judgement in a real browser: verdict, hint and pictures are painted."""

import pytest
import torch

from mhc_ops.conformance.judging import judge_golden, render_judgement
from tests.conformance.judging.wrong import computed, telling
from tests.monitor.test_browser import CHROMIUM, near, rgb, shot

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)"),
]

BAD, HINT, GOOD, DEVICE = "#c0392b", "#fff6e3", "#2f7d4f", "#c4552d"


def painted(folder, results, golden):
    page = render_judgement(judge_golden(golden, results), "a test")
    rows = shot(folder, page)
    return lambda colour: sum(near(pixel, rgb(colour)) for row in rows for pixel in row)


def test_a_failure(tmp_path):
    golden = telling("MhcPost")
    wrong = golden.inputs.tensors["h_res"].mT.contiguous()
    count = painted(tmp_path, computed(golden, inputs={"h_res": wrong}), golden)
    assert count(BAD) > 200  # the bar beside the verdict
    assert count(HINT) > 2000
    assert count(DEVICE) > 30  # the device's dot


def test_a_success(tmp_path):
    golden = telling("MhcPost")
    count = painted(tmp_path, computed(golden), golden)
    assert count(GOOD) > 200
    assert count(HINT) == 0


def test_nan_has_a_colour_of_its_own(tmp_path):
    golden = telling("MhcPost", T=8)
    results = computed(golden)
    results["y"][:] = torch.nan
    page = render_judgement(judge_golden(golden, results), "a test")
    start = page.index("<figure><h3>Where the errors are")
    end = page.index("</figure>", start) + len("</figure>")
    head, _, _ = page.partition("<main>")
    rows = shot(tmp_path, f"{head}<main>{page[start:end]}</main></body></html>")
    assert sum(near(pixel, rgb(BAD)) for row in rows for pixel in row) > 20000
