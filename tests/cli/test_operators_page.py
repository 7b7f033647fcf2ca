"""docs/operators.md: written from the tables, complete, and what describe prints."""

import re
from pathlib import Path

import pytest

from mhc_ops.aclnn.spec import OPERATORS, SOCS
from mhc_ops.cli.operator_facts import check_rows, tilings
from mhc_ops.cli.operators_page import operator_section, operators_page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_is_up_to_date():
    told = "run: mhc-ops describe --markdown > docs/operators.md"
    assert PAGE.read_text(encoding="utf-8") == operators_page(), told


def plain(markdown):
    return markdown.replace("\\", "")


@pytest.mark.parametrize("op", OPERATORS)
def test_everything_of_a_table_is_there(op):
    spec, text = OPERATORS[op], plain(operator_section(OPERATORS[op]))
    for item in (*spec.tensors, *spec.attrs):
        assert f"| {item.name} |" in text
        assert item.doc in text
    for soc in SOCS:
        found = re.search(rf"first call on [\w, ]*{soc}\b.*?\n\n(.*?)\n\n", text, re.DOTALL)
        assert bool(found) is (soc in spec.op_api)
        if found:
            rows = check_rows(spec.op_api[soc], codes=True)
            listed = re.findall(r"^\| (\d+) \| (.*) \| (\d+ \w+) \|$", found[1], re.MULTILINE)
            assert [tuple(map(plain, row)) for row in rows] == listed
    for where, tiling in tilings(spec):
        assert f"tiling {where}" in text
        assert tiling.workspace in text
    for name in spec.infershape.outputs:
        assert f"- {name} is [" in text


def test_markdown_of_one_and_of_all(mhc_ops):
    one = mhc_ops("describe", "aclnnMhcPost", "--markdown")
    assert one.status == 0
    assert one.out == operator_section(OPERATORS["MhcPost"])
    assert mhc_ops("describe", "--markdown").out == operators_page()
    assert "not both" in mhc_ops("describe", "--markdown", "--json").complaint
