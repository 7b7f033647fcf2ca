"""mhc-ops golden: inputs and float64-derived outputs of an operator, as files."""

import re
from pathlib import Path
from typing import Annotated

import typer

from ..aclnn.spec import OPERATORS
from ..conformance import load_cases
from ..conformance.cases import Case
from ..conformance.goldens import case_of_sizes, make_golden, write_golden
from ..errors import ArgumentError
from ..tensorfile.tensor_set import attr_of
from .operators import find_operator
from .output import GOOD, JsonFlag, console, print_json, progress

_DTYPES = {"bf16": "BFLOAT16", "fp16": "FLOAT16"}


def golden(
    op: Annotated[str, typer.Argument(metavar="OP", help="An operator that `describe` lists.")],
    out: Annotated[Path, typer.Option(help="Folder for the goldens, one folder each.")],
    cases: Annotated[
        Path | None, typer.Option(help="A case file: its numeric cases of the operator.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Sizes instead of cases: T=1024,n=4,D=512 or B=1,S=8,...")
    ] = None,
    attr: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Attribute, with --shape.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="bf16 or fp16, with --shape.")] = "bf16",
    seed: Annotated[int, typer.Option(help="Another one draws other numbers.")] = 0,
    form: Annotated[
        str, typer.Option("--format", help="folder (.bin files), npz or safetensors.")
    ] = "folder",
    as_json: JsonFlag = False,
) -> int:
    """Write inputs, expected outputs and their float64 truth, drawn from a seed."""
    name = find_operator(op).name
    if (cases is None) == (shape is None):
        raise ArgumentError("golden takes either --cases or --shape.")
    values = ""
    if cases is not None:
        chosen = [c for c in load_cases(cases) if c.op == name and c.layer == "st"]
        if not chosen:
            raise ArgumentError(f"{cases}: holds no numeric (st) case of {name}.")
    else:
        chosen = [_case(name, shape or "", attr or [], dtype, seed)]
        values = "".join(f" {key}={value}" for key, value in chosen[0].attrs.items())
    folders: list[str] = []
    with progress(len(chosen), "writing goldens") as step:
        for case in chosen:
            folder = out / re.sub(r"[^\w.=,-]+", "_", case.name + values)
            write_golden(make_golden(case), folder, form)
            folders.append(str(folder))
            step(case.name)
    if as_json:
        print_json({"op": name, "goldens": folders})
    else:
        for path in folders:
            console().print(path)
    return GOOD


def _case(op: str, shape: str, attrs: list[str], dtype: str, seed: int) -> Case:
    if dtype not in _DTYPES:
        raise ArgumentError(f"--dtype must be bf16 or fp16, got {dtype!r}.")
    sizes: dict[str, int] = {}
    for part in shape.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or not value.isdecimal():
            raise ArgumentError(f"--shape expects T=1024,n=4,D=512, got {shape!r}.")
        if key in sizes:
            raise ArgumentError(f"--shape gives {key} twice, got {shape!r}.")
        sizes[key] = int(value)
    values = dict(_assignment(op, text) for text in attrs)
    return case_of_sizes(op, sizes, _DTYPES[dtype], values, seed)


def _assignment(op: str, text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    spec = OPERATORS[op].attr(key)
    if not equals or spec is None:
        known = ", ".join(a.name for a in OPERATORS[op].attrs) or "none"
        raise ArgumentError(f"--attr expects NAME=VALUE with one of {known}, got {text!r}.")
    return spec.name, attr_of(value)
