"""benchmarks/model_step.py on a tiny model: mHC within the whole, and the page shows it."""

import json

import pytest

from benchmarks import model_step, page


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    sizes = ["--hidden", "256", "--layers", "1", "--tokens", "12", "--threads", "1"]
    run = ["--repeats", "1", "--dtypes", "float32", "--out", str(folder)]
    assert model_step.main([*sizes, *run]) == 0
    (file,) = folder.glob("model-*-1.jsonl")
    page.write(folder, file.stem.removeprefix("model-"), folder)
    return [json.loads(line) for line in file.read_text().splitlines()], folder


def test_rows(rows):
    assert [row["mode"] for row in rows[0]] == ["step", "prefill"]
    for row in rows[0]:
        for form in ("unpatched", "patched"):
            assert 0 < row["mhc_ms"][form] < row["ms"][form]
            assert row["peak_mb"][form] > 0
    step, prefill = rows[0]
    assert step["peak_mb"]["unpatched"] > 2 * prefill["peak_mb"]["unpatched"]  # the gradients


def test_page(rows):
    text = (rows[1] / "performance.md").read_text()
    assert all(page.model_line(row) in text for row in rows[0])


def test_both_clocks_run_and_stop():
    """In a backward too, and nothing is left hanging on the model."""
    options = model_step._options(["--hidden", "256", "--layers", "2", "--tokens", "12"])
    model = model_step.build(options, "float32")
    tokens = model_step.torch.arange(12)[None]
    with model_step.Marks(model) as marks:
        loss = model(tokens, labels=tokens).loss
        assert marks.forward.seconds > 0
        assert marks.backward.seconds == 0
        loss.backward()
    assert marks.backward.seconds > 0
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
