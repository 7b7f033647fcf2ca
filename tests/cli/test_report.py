"""mhc-ops report: the page it writes, its statuses, and one line for every mistake."""

import pytest
import torch

from mhc_ops.monitor import Monitor, read_run, render_page
from mhc_ops.nn import HyperConnectionStack


@pytest.fixture
def run(folder):
    stack = HyperConnectionStack([torch.nn.Linear(8, 8) for _ in range(3)], 8, 4)
    with Monitor(stack, "run", tensorboard=False) as monitor:
        for _ in range(2):
            (stack(torch.randn(5, 4, 8)) * torch.randn(5, 4, 8)).mean().backward()
            monitor.step(loss=1.5)
    return folder / "run"


@pytest.mark.parametrize("given", ["run", "run/monitor.jsonl"])
def test_page_beside_the_run(mhc_ops, run, given):
    done = mhc_ops("report", given)
    assert done.status == 0, done.err
    assert done.err == ""
    assert (run / "report.html").read_text() == render_page(read_run(run))
    for words in ("2 steps, 0 to 1", "3 over 4 streams", "loss  1.5", "run/report.html"):
        assert words in " ".join(done.out.replace("loss    ", "loss  ").split(" ")), done.out


def test_out_title_and_json(mhc_ops, run):
    done = mhc_ops("report", "run", "--out", "page.html", "--title", "My run", "--json")
    assert done.status == 0, done.err
    last = read_run(run).steps[-1].layers
    assert done.json["layers"] == [f"connections.{i}" for i in range(3)]
    assert done.json["forward_gain"] == last[-1]["gain_forward"]
    assert done.json["backward_gain"] == last[0]["gain_backward"]
    assert done.json["defect_row"] == max(layer["defect_row"] for layer in last)
    assert (done.json["steps"], done.json["streams"], done.json["values"]) == (2, 4, {"loss": 1.5})
    assert done.json["out"] == "page.html"
    assert "<h1>My run</h1>" in (run.parent / "page.html").read_text()
    assert not (run / "report.html").exists()


def test_a_half_written_line_is_said(mhc_ops, run):
    file = run / "monitor.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    done = mhc_ops("report", "run")
    assert done.status == 0
    assert "The last line was not complete and is left out." in done.out
    assert "The last line was not complete" in (run / "report.html").read_text()
    assert mhc_ops("report", "run", "--json").json["notes"]


def test_bad_input(mhc_ops, run):
    assert "give the .jsonl that Monitor wrote" in mhc_ops("report", "absent").complaint
    (run / "bad.jsonl").write_text("{}\n")
    assert "line 1 of run/bad.jsonl" in mhc_ops("report", "run/bad.jsonl").complaint
    assert "cannot write" in mhc_ops("report", "run", "--out", "no/page.html").complaint
    assert "RUN" in mhc_ops("report").complaint
