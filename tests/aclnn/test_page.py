"""docs/aclnn.md: its program runs, and its list of operators is that of the tables."""

import re
from pathlib import Path

from mhc_ops.aclnn.spec import OPERATORS

PAGE = Path(__file__).parents[2] / "docs" / "aclnn.md"


def test_the_program_on_the_page_runs():
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(compile(program, str(PAGE), "exec"), names)
    assert names["h_in"].isfinite().all()
    assert names["h_res"].shape == (1024, 4, 4)


def test_operators_calls_chips_and_limits_are_those_of_the_tables():
    page = PAGE.read_text(encoding="utf-8")
    (listed,) = re.findall(r"\| Operator \| Calls .*?\n\n", page, re.S)
    lines = listed.strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    expected = []
    for op in OPERATORS.values():
        names = [op.name, ", ".join(f"`{api.name}`" for api in op.apis)]
        for limits in dict.fromkeys(op.limits.values()):
            chips = ", ".join(soc for soc, text in op.limits.items() if text == limits)
            expected.append([*names, chips, limits])
            names = ["", ""]
    assert rows == expected
