"""mhc-ops run: an operator on tensors from a file, its results to a file."""

import time
from pathlib import Path
from typing import Annotated

import torch
import typer

from ..errors import ArgumentError
from ..tensorfile import Attr, TensorSet, check_target, read, write
from ..tensorfile.tensor_set import attr_of
from .operators import find_operator, fold_operator
from .output import GOOD, JsonFlag, complain, console, dtype_name, print_json, shape_name, table


def run(
    op: Annotated[str, typer.Argument(metavar="OP", help="An operator that `describe` lists.")],
    source: Annotated[
        Path,
        typer.Option("--in", help="Inputs: .safetensors, .npz or a folder with manifest.json."),
    ],
    target: Annotated[
        Path,
        typer.Option("--out", help="Results; the ending chooses the format, none is a folder."),
    ],
    attr: Annotated[
        list[str] | None,
        typer.Option("--attr", metavar="NAME=VALUE", help="Attribute, wins over the file's."),
    ] = None,
    impl: Annotated[str, typer.Option(help="auto, reference, torch, cpu, triton or npu.")] = "auto",
    precision: Annotated[str | None, typer.Option(help="fp32 or hf32.")] = None,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")] = "cpu",
    as_json: JsonFlag = False,
) -> int:
    """Run an operator on the tensors of a file and write what it returns."""
    operator = find_operator(op)
    overrides = dict(_assignment(text) for text in attr or ())
    if precision is not None:
        overrides["precision"] = precision
        overrides.setdefault("op_impl_mode", None)
    check_target(target)
    where = parse_device(device)
    content = read(source)
    if content.op is not None and fold_operator(content.op) != fold_operator(operator.name):
        raise ArgumentError(f"{source}: its tensors are for {content.op}, not {operator.name}.")
    attrs: dict[str, Attr] = {**content.attrs, **overrides}
    keywords = operator.keywords(attrs)
    inputs, unused = operator.select(content.tensors)
    if unused:
        complain(f"not inputs of {operator.name}, left alone: {', '.join(unused)}.")

    begin = time.perf_counter()
    inputs = {name: tensor.to(where) for name, tensor in inputs.items()}
    with torch.no_grad():
        result = operator.call(inputs, keywords, impl)
    seconds = time.perf_counter() - begin
    results = operator.outputs(result, attrs)
    kept = {name: value for name, value in attrs.items() if value is not None}
    write(target, TensorSet(results, operator.name, kept))

    chosen = operator.chosen(inputs, impl).value
    if as_json:
        outputs = {
            name: {"dtype": dtype_name(t), "shape": list(t.shape)} for name, t in results.items()
        }
        print_json(
            {
                "op": operator.name,
                "impl": chosen,
                "attrs": kept,
                "in": str(source),
                "out": str(target),
                "outputs": outputs,
                "unused": unused,
                "seconds": seconds,
            }
        )
        return GOOD
    out = console()
    rows = [(name, dtype_name(t), shape_name(t)) for name, t in results.items()]
    out.print(table(("output", "dtype", "shape"), rows))
    out.print(f"{operator.name} by impl '{chosen}' in {seconds * 1e3:.1f} ms; written to {target}")
    return GOOD


def parse_device(name: str) -> torch.device:
    """A device that this torch has; ArgumentError otherwise."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ArgumentError(f"device {name!r} cannot be used here: {reason}.") from error
    if device.type == "meta":
        raise ArgumentError("device 'meta' holds no values; name one that computes.")
    return device


def _assignment(text: str) -> tuple[str, Attr]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentError(f"--attr expects NAME=VALUE, such as hc_eps=1e-6, got {text!r}.")
    return name.strip(), attr_of(value.strip())
