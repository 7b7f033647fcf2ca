"""docs/aclnn.md: its program runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "aclnn.md"


def test_the_program_on_the_page_runs():
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(compile(program, str(PAGE), "exec"), names)
    assert names["h_in"].isfinite().all()
    assert names["h_res"].shape == (1024, 4, 4)
