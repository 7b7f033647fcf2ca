"""mhc-ops convert: a checkpoint's hyper-connections from one library's layout into another's."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArgumentError
from ..integrations.checkpoints import LAYOUTS, convert_checkpoint
from ..tensorfile.tensor_set import attr_of
from .output import GOOD, JsonFlag, console, print_json, progress, table

_MEBIBYTE = 1 << 20
_NAMES = ", ".join(LAYOUTS)


def convert(
    source_path: Annotated[
        Path,
        typer.Option("--in", help="A .safetensors file, a folder of shards or its index.json."),
    ],
    target_path: Annotated[
        Path, typer.Option("--out", help="A .safetensors file, or a folder for shards.")
    ],
    target: Annotated[str, typer.Option("--to", help=f"Layout to write: {_NAMES}.")],
    source: Annotated[
        str | None,
        typer.Option("--from", help="Layout of --in; not needed where mhc-ops wrote it."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A number the model was trained with, such as num_iters=10.",
        ),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN=TEXT", help="Rename prefixes, as re.sub does it."),
    ] = None,
    gamma: Annotated[str, typer.Option(help="keep, or fold it into phi for good.")] = "keep",
    accept_mismatch: Annotated[
        bool, typer.Option("--accept-mismatch", help="Convert although the numbers will differ.")
    ] = False,
    float32: Annotated[
        bool, typer.Option("--float32", help="Store converted 16-bit tensors as float32.")
    ] = False,
    keep_heads: Annotated[
        bool, typer.Option("--keep-heads", help="Leave learned heads as they are.")
    ] = False,
    as_json: JsonFlag = False,
) -> int:
    """Convert the hyper-connections of a checkpoint; all other tensors are copied as they are."""
    numbers = {name: attr_of(value) for name, value in (_pair("--set", s) for s in settings or ())}
    with progress(None, "converting, MiB") as bar:
        report = convert_checkpoint(
            source_path,
            target_path,
            source=source,
            target=target,
            numbers=numbers,
            gamma=gamma,
            rename=[_pair("--rename", text) for text in rename or ()],
            accept_mismatch=accept_mismatch,
            float32=float32,
            keep_heads=keep_heads,
            progress=lambda done, total: bar.to(done // _MEBIBYTE, total // _MEBIBYTE),
        )
    if as_json:
        facts = {**report._asdict(), "convention": asdict(report.convention)}
        print_json({"in": str(source_path), "out": str(target_path), **facts})
        return GOOD
    out = console()
    rows = [
        ("hyper-connections", f"{report.connections}, {report.source} to {report.target}"),
        ("heads", str(report.heads)),
        ("other tensors", f"{report.passed}, untouched"),
        ("written", f"{', '.join(report.files)}: {report.bytes / _MEBIBYTE:.1f} MiB of tensors"),
        ("convention", str(report.convention).removeprefix("Convention")),
    ]
    rows += [("not followed", f"{k} was {v}") for k, v in report.changed.items()]
    out.print(table(("", ""), rows, header=False))
    return GOOD


def _pair(option: str, text: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not left or not equals:
        raise ArgumentError(f"{option} expects A=B, got {text!r}.")
    return left.strip(), right.strip()
