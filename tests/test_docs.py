"""The Python examples of README.md and the pages under docs run as printed, block after block."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/nn.md",
        "docs/monitor.md",
        "docs/pre.md",
        "docs/conventions.md",
        "docs/transformers.md",
        "docs/train_lm.md",
    ],
)
def test_examples_run(page):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_pages_exist():
    for page in ROOT.glob("**/*.md"):
        if ".venv" in page.parts:
            continue
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
