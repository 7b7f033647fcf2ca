"""mhc-ops run: an operator on tensors from a file, its results to a file."""

import os
import time
from pathlib import Path
from typing import Annotated

import torch
import typer

from ..errors import ArgumentError, UnsupportedError
from ..tensorfile import Attr, Blank, TensorSet, check_target, read, write
from ..tensorfile.tensor_set import attr_of
from .operators import find_operator
from .output import GOOD, JsonFlag
from .request import Request, report


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
    nproc: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stream the files, in N processes.")
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Stream, so many at a time: a multiple of 256."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stream, with N threads a process.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Stream, and go on with an unfinished run.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Run an operator on the tensors of a file and write what it returns.

    With --nproc, --chunk, --threads or --resume, or under torchrun, the files are streamed: they
    may be larger than memory. The results are the same.
    """
    operator = find_operator(op)
    overrides = dict(_assignment(text) for text in attr or ())
    if precision is not None:
        overrides["precision"] = precision
        overrides.setdefault("op_impl_mode", None)
    check_target(target)
    request = Request(operator, source, target, overrides, parse_device(device), impl)
    by_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    if not (resume or by_torchrun or nproc or chunk or threads):
        return _in_memory(request, as_json)
    if os.name != "posix":
        raise UnsupportedError("run: files can be streamed on POSIX systems alone.")
    from .streaming import stream

    return stream(request, nproc, chunk, threads, resume, by_torchrun, as_json)


def _in_memory(request: Request, as_json: bool) -> int:
    operator = request.operator
    content = read(request.source)
    attrs = request.attrs(content.op, content.attrs)
    keywords = operator.keywords(attrs)
    inputs, unused = request.inputs(content.tensors)

    begin = time.perf_counter()
    inputs = {name: tensor.to(request.device) for name, tensor in inputs.items()}
    with torch.no_grad():
        result = operator.call(inputs, keywords, request.impl)
    seconds = time.perf_counter() - begin
    results = operator.outputs(result, attrs)
    kept = {name: value for name, value in attrs.items() if value is not None}
    write(request.target, TensorSet(results, operator.name, kept))

    outputs = {name: Blank(t.dtype, tuple(t.shape)) for name, t in results.items()}
    chosen = operator.chosen(inputs, request.impl).value
    report(request, chosen, kept, outputs, unused, seconds, {}, as_json)
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
