"""mhc-ops tune: measure the Triton kernels' tiles on this GPU and write them as a table."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from ..errors import ArgumentError, FileError
from ..impls import obstacle
from ..types import Impl
from .output import GOOD, JsonFlag, console, print_json, progress, table

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def tune(
    out: Annotated[
        Path, typer.Option("--out", help="Table to write; MHC_OPS_TRITON_TABLE then names it.")
    ] = Path("mhc-ops-tiles.json"),
    streams: Annotated[int, typer.Option(min=1, max=8, help="N.")] = 4,
    dims: Annotated[
        list[int] | None, typer.Option("--dim", min=1, help="D; may be given again. 4096, 7168.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="bf16, fp16 or fp32.")] = "bf16",
    tokens: Annotated[
        int, typer.Option(min=1, help="T to measure with; tiles do not depend on it.")
    ] = 4096,
    device: Annotated[str, typer.Option(help="The GPU.")] = "cuda",
    as_json: JsonFlag = False,
) -> int:
    """Time each kernel's candidate tiles on this GPU and write the best of them."""
    if dtype not in _DTYPES:
        raise ArgumentError(f"tune: --dtype must be bf16, fp16 or fp32, got {dtype!r}.")
    where = _gpu(device)
    if not out.absolute().parent.is_dir():
        raise FileError(f"tune: --out {out} lies in no folder that exists; make it first.")
    from .. import tuning
    from ..ops.common import triton_host, triton_table

    timer = tuning.Stopwatch(where)
    found: list[tuning.Tuned] = []
    shapes = [tuning.Shape(streams, dim, _DTYPES[dtype]) for dim in dims or (4096, 7168)]
    kernels = len(triton_table.KERNELS)
    with progress(len(shapes) * kernels, "kernels") as step:
        for shape in shapes:
            for tuned in tuning.tune(shape, tokens, where, timer):
                found.append(tuned)
                step()
    better = {t.key: t.tile for t in found if t.tile is not None}
    triton_table.write(out, where, better, {t.key: t.times[t.tile] for t in found})
    by_rule = dict.fromkeys(triton_host.Tile._fields)
    rows = [
        t.key._asdict()
        | (by_rule if t.tile is None else t.tile._asdict())
        | {"microseconds": t.times[t.tile], "microseconds_by_rule": t.times[None]}
        for t in found
    ]
    if as_json:
        print_json({"out": str(out), "device": triton_table.device_name(where), "tiles": rows})
        return GOOD
    show = console()
    cells = (["by rule" if value is None else str(value) for value in row.values()] for row in rows)
    show.print(table([*rows[0]], cells))
    show.print("by rule: no candidate was faster, and the table leaves the kernel out.")
    show.print(f"{out}; to use it: {triton_table.VARIABLE}={out}")
    return GOOD


def _gpu(name: str) -> torch.device:
    """The device, if Triton kernels run there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ArgumentError(
            f"tune: --device must name a GPU, such as cuda, got {name!r}."
        ) from None
    reason = obstacle(Impl.TRITON, device, torch.bfloat16)
    if device.type != "cuda" or not torch.cuda.is_available():
        reason = f"{name} is no GPU of this machine"
    if reason is not None:
        raise ArgumentError(f"tune: the Triton kernels do not run here: {reason}; tune on a GPU.")
    return device
