"""Pages with commands are true: their examples run, end as they say, and print what they show."""

import re
import shlex
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("page", "expected"),
    [("cli.md", 18), ("checkpoints.md", 4), ("out-of-core.md", 5), ("judge.md", 5)],
)
def test_every_example_of_the_page(mhc_ops, folder, page, expected):
    commands = 0
    names: dict[str, object] = {}
    for kind, body in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(body, page, "exec"), names)
            continue
        for example in body.split("$ ")[1:]:
            line, *shown = example.splitlines()
            command, _, remark = line.partition("#")
            program, *arguments = shlex.split(command)
            assert program == "mhc-ops"
            done = mhc_ops(*arguments)
            wanted = re.search(r"exit status (\d)", remark)
            assert done.status == int(wanted[1] if wanted else 0), f"{line}\n{done.out}{done.err}"
            printed = squeezed(done.out + done.err)
            for part in (piece for row in shown for piece in row.split("...")):
                assert squeezed(part) in printed, f"{line} does not print {part!r}"
            commands += 1
    assert commands >= expected
