"""Every first call in C gives the status, workspace and message that the Python surface gives."""

import random
from pathlib import Path

import pytest

from mhc_ops import aclnn
from mhc_ops.aclnn.codes import DTYPE_NAMES, FORMAT_NAMES
from mhc_ops.aclnn.spec import OPERATORS, SOCS
from mhc_ops.conformance.cases import load_cases
from mhc_ops.conformance.layers import api_of, attributes

from . import c_surface, calls
from .calls import FP32, T
from .shared import shared
from .test_every_tensor import MAKE as OF_THE_SIX_OTHERS

MAKE = {"MhcPre": calls.pre, "MhcPreBackward": calls.backward, **OF_THE_SIX_OTHERS}
APIS = [(op, api.name) for op, table in OPERATORS.items() for api in table.apis]
CASES = Path(__file__).parents[1] / "conformance"


def python_answer(api, values, soc, workspace_size=True, executor=True):
    handles = {"workspaceSize": workspace_size, "executor": executor}
    nulls = {name: None for name, given in handles.items() if not given}
    with aclnn.soc(soc):
        status, size, _ = calls.prepare(api, values, **nulls)
    return c_surface.Answer(status, size, aclnn.aclGetRecentErrMsg())


def check(api, values, soc, **handles):
    expected = python_answer(api, values, soc, **handles)
    assert c_surface.ask(api, values, soc, **handles) == expected
    return expected.status


def shapes(shape):
    """Other shapes for a tensor: ranks, sizes and orders of the ways to go wrong."""
    yield from ((), (0,), (1, *shape), shape[:-1], shape[1:], (*shape, 1), shape[::-1])
    for i, size in enumerate(shape):
        for other in (0, 1, size - 1, size + 1, 2 * size, size * size, 2**40):
            yield (*shape[:i], other, *shape[i + 1 :])


def changes(op, values):
    """(name, another value) for all that a caller can get wrong about one argument."""
    table = OPERATORS[op]
    for name, value in values.items():
        if isinstance(value, T):
            yield name, None
            for shape in shapes(tuple(value.shape)):
                yield name, value._replace(shape=shape)
            for dtype in DTYPE_NAMES:
                yield name, value._replace(dtype=dtype)
            for form in FORMAT_NAMES:
                yield name, value._replace(format=form)
        elif value is None:
            yield name, T(FP32, (2, 4))
        elif table.attr(name).type == "int64_t":
            for number in (-1, 0, 1, 2, 3, 5, 19, 20, 21, 100, 101, 2**62):
                yield name, number
        elif table.attr(name).type == "bool":
            yield name, not value


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize(("op", "api"), APIS)
def test_each_thing_that_can_be_wrong(op, api, soc):
    seen = {check(api, MAKE[op](), soc)}
    for form in ({"lead": (3,)}, {"lead": ()}, {"lead": (1, 2, 3)}, {"lead": (2, 0)}):
        seen.add(check(api, MAKE[op](**form), soc))
    for null in ({"workspace_size": False}, {"executor": False}):
        seen.add(check(api, MAKE[op](), soc, **null))
    for name, value in changes(op, MAKE[op]()):
        seen.add(check(api, MAKE[op]() | {name: value}, soc))
    registered = soc in OPERATORS[op].op_api
    assert seen >= ({0, 161001, 161002} if registered else {161002})


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize(("op", "api"), APIS)
def test_two_things_wrong_at_once_are_told_in_the_same_order(op, api, soc):
    draw = random.Random(f"{api} {soc}")
    single = list(changes(op, MAKE[op]()))
    for _ in range(300):
        values = MAKE[op]() | dict(draw.sample(single, 2))
        null = draw.choice([{}, {}, {}, {"workspace_size": False}, {"executor": False}])
        check(api, values, soc, **null)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 8, 9])
@pytest.mark.parametrize("d", [8, 64, 100, 128])
@pytest.mark.parametrize("soc", SOCS)
def test_streams_and_widths(n, d, soc):
    factorial = {1: 1, 2: 2, 3: 6, 4: 24}.get(n, 120)
    for rows in (None, factorial + 2 * n, 2 * n):
        for h_res in ((n, n), (factorial,)):
            values = calls.pre(n, d, rows=rows, h_res=h_res)
            check("aclnnMhcPre", values, soc)
            check("aclnnMhcPreBackward", calls.backward(n, d, rows=rows, h_res=h_res), soc)
    check("aclnnMhcPre", calls.pre(n, d, alpha=2), soc)
    check("aclnnMhcPost", calls.post(n, d), soc)
    check("aclnnMhcPostBackward", calls.post_backward(n, d), soc)
    check("aclnnMhcSinkhorn", calls.sinkhorn(n), soc)
    check("aclnnMhcSinkhornBackward", calls.sinkhorn_backward(n), soc)
    check("aclnnMhcPreSinkhorn", calls.pre_sinkhorn(d, n=n), soc)
    check("aclnnMhcPreSinkhornBackward", calls.pre_sinkhorn_backward(d, n=n), soc)


def test_published_cases(case_files):
    """Every op_api case, on every chip: what the case expects is the conformance kit's business."""
    nulls = {"workspaceSize": "workspace_size", "executor": "executor"}
    compared = 0
    for path in case_files:
        for case in load_cases(path):
            table = OPERATORS.get(case.op)
            if case.layer != "op_api" or table is None:
                continue
            numbers = attributes(table, case.attrs)
            values = {t.name: None for t in table.tensors} | numbers
            for name, desc in {**case.inputs, **case.outputs}.items():
                if desc is not None:
                    values[table.tensor(name).name] = T(
                        *(_number(DTYPE_NAMES, desc.dtype), desc.shape),
                        _number(FORMAT_NAMES, desc.format),
                    )
            for soc in SOCS:
                missing = {nulls[handle]: False for handle in case.null_handles}
                check(api_of(case, table).name, values, soc, **missing)
            compared += 1
    assert compared > 50


@pytest.fixture(params=["kept", "shared"])
def case_files(request):
    """The case files of the repository, and the shared one where it is at hand."""
    if request.param == "kept":
        return [CASES / "mhc_pre_cases.json", CASES / "mhc_family_cases.json"]
    return [shared("spec", "cann-mhc-cases.json")]


def _number(names, wanted):
    return next(number for number, name in names.items() if name == wanted)
