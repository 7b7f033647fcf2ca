"""Tables of tiles that `mhc-ops tune` measured, used instead of the rules where one is named.

The variable MHC_OPS_TRITON_TABLE holds the path of one; it is read once a process and device, and
one that does not fit this device and these versions is an error. A tile is looked up by kernel, N,
D, rows of phi and dtype, never by T, so that a token's bits still depend on nothing else.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from ...errors import FileError
from ...version import __version__
from .triton_host import Tile, target

VARIABLE = "MHC_OPS_TRITON_TABLE"
FORMAT = 1
_CANDIDATES = {
    "pre_mix_fwd_kernel": (
        *(Tile(64, 32, 4, 3), Tile(64, 32, 8, 2), Tile(64, 32, 8, 3)),
        *(Tile(32, 32, 4, 2), Tile(32, 32, 4, 3)),
    ),
    "pre_main_bwd_kernel": (
        *(Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(32, 32, 4, 2), Tile(64, 32, 8, 2)),
    ),
    "post_fwd_kernel": tuple(
        Tile(tokens, columns, warps)
        for tokens, columns, warps in (
            *((1, 1024, 4), (1, 1024, 8), (1, 512, 4), (2, 512, 4), (4, 256, 4), (16, 64, 4)),
        )
    ),
    "post_bwd_kernel": (Tile(16, 64), Tile(16, 64, 8), Tile(16, 32), Tile(32, 32)),
    "post_pre_bwd_kernel": (Tile(64, 16), Tile(64, 16, 8), Tile(16, 32), Tile(16, 64, 8)),
}
KERNELS = tuple(_CANDIDATES)


def candidates(kernel: str, target: str) -> tuple[Tile, ...]:
    """What may be measured: none spills at N = 4 in bfloat16 on the targets of docs/gpu.md.

    Eight waves of 64 lanes, on gfx942, have too few registers each.
    """
    most_warps = 4 if target.startswith("gfx") else 8
    return tuple(tile for tile in _CANDIDATES[kernel] if tile.warps <= most_warps)


class Key(NamedTuple):
    """What a tile may depend on; rows are those of phi, 0 where a kernel has none."""

    kernel: str
    streams: int
    dim: int
    rows: int
    dtype: str


Table = Mapping[Key, Tile]
_trial: list[Table] = []


def chosen(kernel: str, x: Tensor, streams: int, rows: int, by_rule: Tile) -> Tile:
    """The measured tile for these sizes, or else that of the rule."""
    table = _trial[-1] if _trial else _loaded(x.device, os.environ.get(VARIABLE))
    return table.get(key(kernel, x, streams, rows), by_rule)


def key(kernel: str, x: Tensor, streams: int, rows: int) -> Key:
    """The entry for a kernel and x [.., D]."""
    return Key(kernel, streams, x.shape[-1], rows, str(x.dtype).removeprefix("torch."))


@contextmanager
def trying(table: Table) -> Iterator[None]:
    """Use this table and no other, in this process."""
    _trial.append(table)
    try:
        yield
    finally:
        _trial.pop()


def device_name(device: torch.device) -> str:
    """What a table calls the device that it was made on."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def write(path: Path, device: torch.device, table: Table, times: Mapping[Key, float]) -> None:
    """Write a table and the microseconds that each tile took."""
    rows = [
        key._asdict() | tile._asdict() | {"microseconds": times[key]} for key, tile in table.items()
    ]
    record = {"format": FORMAT, **_versions(device), "tiles": rows}
    try:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise FileError(f"tune: cannot write {path}: {error.strerror}.") from None


def read(path: Path, device: torch.device) -> dict[Key, Tile]:
    """Read a table and check that it was made for this device by these versions.

    Raises FileError, which says what is wrong, for anything else.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _refused(path, f"cannot be read ({error})") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise _refused(path, f"is no table of format {FORMAT}")
    for name, value in _versions(device).items():
        if record.get(name) != value:
            raise _refused(path, f"was made for {name} {record.get(name)!r}, and this is {value!r}")
    rows = record.get("tiles")
    if not isinstance(rows, list):
        raise _refused(path, "has no list of tiles")
    table: dict[Key, Tile] = {}
    for number, row in enumerate(rows):
        entry, tile = _entry(path, number, row, target(device))
        if entry in table:
            raise _refused(path, f"has tile {number} twice ({entry})")
        table[entry] = tile
    return table


@cache
def _loaded(device: torch.device, path: str | None) -> Table:
    return read(Path(path), device) if path else {}


def _versions(device: torch.device) -> dict[str, str]:
    return {
        "device": device_name(device),
        "mhc_ops": __version__,
        "triton": str(triton.__version__),
    }


def _entry(path: Path, number: int, row: Any, target: str) -> tuple[Key, Tile]:
    try:
        entry = Key(*(row[name] for name in Key._fields))
        tile = Tile(*(row[name] for name in Tile._fields))
    except (KeyError, TypeError) as error:
        raise _refused(path, f"has a tile {number} that lacks {error}") from None
    numbers = (*entry[1:4], *tile)
    if not isinstance(entry.kernel, str) or any(type(value) is not int for value in numbers):
        raise _refused(path, f"has a tile {number} that is not a kernel's name and integers: {row}")
    if entry.dtype not in ("bfloat16", "float16", "float32"):
        raise _refused(path, f"has a tile {number} for an unknown dtype {entry.dtype!r}")
    if entry.kernel not in KERNELS:
        raise _refused(path, f"has a tile {number} for an unknown kernel {entry.kernel!r}")
    if tile not in candidates(entry.kernel, target):
        raise _refused(path, f"has a tile {number} that {entry.kernel} does not take: {tile}")
    return entry, tile


def _refused(path: Path, why: str) -> FileError:
    return FileError(
        f"{VARIABLE}: {path} {why}; unset the variable, or make a table with mhc-ops tune."
    )
