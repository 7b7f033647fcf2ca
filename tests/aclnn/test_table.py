"""The tables themselves: data that stands alone, and agrees with the functions it drives."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from mhc_ops import aclnn
from mhc_ops.aclnn import spec
from mhc_ops.aclnn.spec import OPERATORS, SOCS
from mhc_ops.aclnn.spec.expression import evaluate, symbols
from mhc_ops.aclnn.validation import Call, Desc, UnknownSize

ALONE = """
import importlib.util, sys
path = sys.argv[1]
found = importlib.util.spec_from_file_location(
    "tables", path + "/__init__.py", submodule_search_locations=[path])
module = importlib.util.module_from_spec(found)
sys.modules["tables"] = module
found.loader.exec_module(module)
assert {"MhcPre", "MhcPreBackward", "MhcPost"} <= set(module.OPERATORS)
assert module.OPERATORS["MhcPre"].api("aclnnMhcPreV2").parameters[7] == "op_impl_mode"
assert "torch" not in sys.modules and "mhc_ops" not in sys.modules
"""


def test_the_tables_load_without_torch_and_without_this_package():
    where = Path(spec.__file__).parent
    subprocess.run([sys.executable, "-c", ALONE, str(where)], check=True)


APIS = [(op, api) for op in OPERATORS.values() for api in op.apis]


@pytest.mark.parametrize(("op", "api"), APIS, ids=[api.name for _, api in APIS])
def test_each_function_takes_what_its_table_lists(op, api):
    function = getattr(aclnn, f"{api.name}GetWorkspaceSize")
    parameters = inspect.signature(function).parameters
    expected = [(op.tensor(p) or op.attr(p)).acl for p in api.parameters]
    assert list(parameters) == [*expected, "workspaceSize", "executor"]
    assert all(
        parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        for name in ("workspaceSize", "executor")
    )
    assert list(inspect.signature(getattr(aclnn, api.name)).parameters) == [
        "workspace",
        "workspaceSize",
        "executor",
        "stream",
    ]


@pytest.mark.parametrize("op", OPERATORS.values(), ids=list(OPERATORS))
def test_every_name_in_a_table_is_declared_there(op):
    names = {t.name for t in op.tensors}
    known = {*op.symbols, *(a.name for a in op.attrs), "T", "aic", "aiv", "ub"}
    assert set(op.op_api) == set(op.tiling) == set(op.limits) <= set(SOCS)
    checks = [*op.infershape.checks]
    tilings = [*op.tiling.values(), *([op.unnamed_tiling] if op.unnamed_tiling else [])]
    for rules in (*op.op_api.values(), *(tiling.checks for tiling in tilings)):
        checks += rules
    for check in checks:
        assert set(getattr(check, "names", ())) <= names
        assert {getattr(check, "name", op.tensors[0].name)} <= names
        formulas = [check.when] if check.when else []
        formulas += getattr(check, "ranks", ())
        for shape in getattr(check, "shapes", ()):
            formulas += [token for token in shape.split() if token[0] not in "*?"]
            assert {token[1:] for token in shape.split() if token[0] in "*?"} <= {"lead", *names}
        if hasattr(check, "condition"):
            formulas.append(check.condition)
            assert check.tensor in names
        for formula in formulas:
            assert set(symbols(formula)) <= known, formula
        if hasattr(check, "attr"):
            assert op.attr(check.attr)
    for tiling in tilings:
        for formula in (tiling.workspace, *tiling.data.values()):
            assert set(symbols(formula)) <= known
    for name, forms in op.infershape.outputs.items():
        assert op.tensor(name).kind == "output"
        assert not forms[-1].when
        for form in forms:
            sizes = [token for token in form.shape.split() if token[0] not in "*?"]
            for formula in (*sizes, *([form.when] if form.when else [])):
                assert set(symbols(formula)) <= known


class Numbers(dict):
    def symbol(self, name):
        return self[name]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n*n+2*n", 24),
        ("fact(n)+2*n", 32),
        ("fact(D)", 2**63 - 1),
        ("n in (4, 6, 8)", 1),
        ("n in (3, 5)", 0),
        ("0 < D <= 100", 1),
        ("0 < D < 64", 0),
        ("D % 48 == 0 and n == 4", 0),
        ("D % 48 == 0 or n == 4", 1),
        ("not n == 4", 0),
        ("2 if n == 4 else 3", 2),
        ("align(D+1, 32) + ceil_div(D, 10)", 103),
        ("-n + max(n, D) - min(n, D) + D//n", 72),
    ],
)
def test_formulas(text, value):
    assert evaluate(text, Numbers(n=4, D=64)) == value


@pytest.mark.parametrize(
    ("shape", "known"),
    [((3, 5), {"size(x)": 15}), ((), {"size(x)": 1}), ((3, -1), {}), ((-2,), {"rank(y)": 2})],
)
def test_formulas_on_tensors_that_are_known_in_part(shape, known):
    descs = {"x": Desc("FLOAT", shape), "y": Desc("FLOAT", (2, 2)), "z": None}
    call = Call(OPERATORS["MhcPost"], "MhcPost", descs, {}, dynamic=True)
    assert evaluate("unknown_rank(x)", call) == (shape == (-2,))
    assert evaluate("unknown_dim(x)", call) == (-1 in shape)
    assert evaluate("unknown_rank(z) or unknown_dim(z) or given(z)", call) == 0
    for formula, value in known.items():
        assert evaluate(formula, call) == value
    if "size(x)" not in known:
        with pytest.raises(UnknownSize):
            evaluate("size(x)", call)


def test_what_is_not_of_the_language_is_refused():
    with pytest.raises(ValueError, match="not part of the table language"):
        evaluate("[n]", Numbers(n=4))
    with pytest.raises(ValueError, match="unknown function 'open'"):
        evaluate("open(n)", Numbers(n=4))
