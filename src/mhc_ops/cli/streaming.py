"""mhc-ops run on files that may be larger than memory, by one process or several."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import _native
from ..errors import ArgumentError, UnsupportedError
from ..out_of_core import FlatRows, Operation, Rows, Settings, run_files
from ..out_of_core.torchrun import Torchrun
from ..tensorfile import Attr, Stored, locate
from ..types import Impl
from .operators import BY_TOKEN, Operator
from .output import GOOD, progress
from .published import PublishedOperator
from .request import Request, report

_LANES = 8  # of a token's row in the iterates that MhcSinkhorn saves


def stream(
    request: Request,
    nproc: int | None,
    chunk: int | None,
    threads: int | None,
    resume: bool,
    by_torchrun: bool,
    as_json: bool,
) -> int:
    """Run the request, or as a rank of torchrun's that is not the first, its share."""
    if by_torchrun and nproc is not None:
        raise ArgumentError("--nproc starts processes by itself; leave it out under torchrun.")
    crew = Torchrun() if by_torchrun else None
    if crew is not None and crew.rank:
        crew.follow(request.target)
        return GOOD
    ranks = (nproc or 1) if crew is None else crew.count
    settings = Settings(chunk, ranks, threads, resume, str(request.device))
    if request.target.suffix.lower() == ".npz":
        raise ArgumentError(
            f"{request.target}: an .npz cannot be streamed; use .safetensors or a folder."
        )
    found = locate(request.source)
    attrs = request.attrs(found.op, found.attrs)
    keywords = request.operator.keywords(attrs)
    inputs, unused = request.inputs(found.tensors)
    kept = {name: value for name, value in attrs.items() if value is not None}
    impl = _implementation(request, inputs)
    with progress(None, f"{request.operator.name}, tokens") as step:
        outcome = run_files(
            _operation(request, keywords, attrs),
            inputs,
            request.target,
            op=request.operator.name,
            attrs=kept,
            made_by=_made_by(impl, settings.device),
            settings=settings,
            crew=crew,
            on_progress=step.to,
        )
    more = {
        "nproc": ranks,
        "threads": settings.threads_of_rank,
        **{name: getattr(outcome, name) for name in outcome._fields if name != "outputs"},
    }
    report(request, impl.value, kept, outcome.outputs, unused, outcome.seconds, more, as_json)
    return GOOD


def _implementation(request: Request, inputs: Mapping[str, Stored]) -> Impl:
    """What serves the run; UnsupportedError where its bits would depend on the chunk."""
    kinds = {n: torch.empty(0, dtype=s.dtype, device=request.device) for n, s in inputs.items()}
    chosen = request.operator.chosen(kinds, request.impl)
    name = request.operator.name
    if chosen is Impl.REFERENCE and name != "MhcSinkhornBackward":
        raise UnsupportedError(
            f"{name}: impl 'reference' sums in an order of its own, which chunks would change; "
            f"stream with impl 'torch', or leave the streaming options out."
        )
    return chosen


def _made_by(impl: Impl, device: str) -> dict[str, Any]:
    """What decides the bits beside the inputs."""
    kernels = _native.describe() if impl is Impl.CPU else None
    torch_version = str(torch.__version__)
    return {"impl": impl.value, "kernels": kernels, "torch": torch_version, "device": device}


def _operation(
    request: Request, keywords: Mapping[str, Any], attrs: Mapping[str, Attr]
) -> Operation:
    operator = request.operator
    rows: Mapping[str, Rows | FlatRows]
    call = partial(_call, operator, dict(keywords), dict(attrs), request.impl)
    if isinstance(operator, PublishedOperator):
        rows, leading, tail = _published_rows(operator)
    else:
        rows, leading, tail = dict.fromkeys(BY_TOKEN, Rows()), "x", 2
    return Operation(operator.name, call, rows, leading, tail)


def _call(
    operator: Operator | PublishedOperator,
    keywords: Mapping[str, Any],
    attrs: Mapping[str, Attr],
    impl: str,
    tensors: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    with torch.no_grad():
        inputs = {n: tensors[n] for n in (*operator.required, *operator.optional) if n in tensors}
        return operator.outputs(operator.call(inputs, keywords, impl), attrs)


def _published_rows(operator: PublishedOperator) -> tuple[dict[str, Rows | FlatRows], str, int]:
    """By the shapes in the operator's table, and the input that shows the tokens."""
    rows: dict[str, Rows | FlatRows] = {}
    leading = ("", 0)
    for tensor in operator.table.tensors:
        axes = tensor.shape.split()
        if "*lead" in axes:
            rows[tensor.name] = Rows(axes.index("*lead"))
            if not leading[0] and tensor.name in operator.required and axes[0] == "*lead":
                leading = tensor.name, len(axes) - 1
        elif "T" in tensor.shape.split("*"):
            rows[tensor.name] = FlatRows(_LANES)
    return rows, *leading
