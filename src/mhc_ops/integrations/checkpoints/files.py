"""Converting checkpoints on disk, in pieces and in one step: what is not complete is never seen."""

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from torch import Tensor

from ...convention import Convention
from ...errors import FileError
from ...tensorfile.atomic import replacing
from .conventions import METADATA_KEY
from .layouts import Layout
from .plan import Group, Options, Plan, make_plan
from .safetensors_io import Planned, bytes_of, header_of, in_file_order
from .source import INDEX, SIDECAR, Checkpoint, open_checkpoint, sidecar_of

Progress = Callable[[int, int], None]
_OTHER_FORMATS = (".bin", ".json", ".npz", ".pt", ".pth")


class Report(NamedTuple):
    """What a conversion did.

    source, target: layouts. connections, heads, passed: how many hyper-connections and heads were
    converted and how many tensors stayed as they were. bytes: of all tensors written. files: names
    of those written, the sidecar's last. convention: to compute with the result. changed: fields of
    the convention that the target's library cannot follow, with their old values.
    """

    source: str
    target: str
    connections: int
    heads: int
    passed: int
    bytes: int
    files: list[str]
    convention: Convention
    changed: Mapping[str, Any]


def convert_checkpoint(
    source_path: str | Path,
    target_path: str | Path,
    *,
    source: str | Layout | None = None,
    target: str | Layout,
    convention: Convention | None = None,
    numbers: Mapping[str, Any] | None = None,
    gamma: str = "keep",
    rename: Sequence[tuple[str, str]] = (),
    accept_mismatch: bool = False,
    float32: bool = False,
    keep_heads: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Bring the hyper-connections of a checkpoint from one library's layout into another's.

    Tensors of hyper-connections are converted one module at a time; all others are copied byte for
    byte in pieces, so that memory does not grow with the checkpoint. The convention goes into the
    files' metadata (key mhc_ops.convention) and into convention.json beside them.

    Args:
        source_path: a .safetensors file, a folder of shards, or its model.safetensors.index.json.
        target_path: a .safetensors file (shards become one), or a folder, which must not exist or
            be empty; shards keep their names.
        source, target: names in LAYOUTS. source may be None where mhc_ops wrote the checkpoint.
        convention: the numbers the parameters were trained with; by default those written beside
            the source, else the source library's own.
        numbers: fields of that convention which are other here, such as {"num_iters": 10}.
        gamma: "keep"; or "fold" it into phi (each product rounded once; there is no way back).
        rename: (pattern, replacement) pairs of re.sub, for the prefixes of hyper-connections.
        accept_mismatch: convert although the target's library computes some numbers in its own way;
            they are listed under `changed`.
        float32: store converted 16-bit tensors as float32, which the operators want.
        keep_heads: leave learned heads as they are.
        progress: called with the bytes written so far and those of all tensors.

    Returns: Report. Bits of every value are kept, unless gamma is folded.

    Raises:
        ArgumentError (a ValueError): the checkpoint has no hyper-connection in that layout, or one
        that the target cannot hold; the sentence says what would help. FileError (a ValueError): a
        file cannot be read or written; nothing is left behind.
    """
    options = Options(
        convention=convention,
        numbers=numbers or {},
        gamma=gamma,
        rename=tuple(rename),
        accept_mismatch=accept_mismatch,
        float32=float32,
        keep_heads=keep_heads,
    )
    path = Path(target_path)
    _check_target(path)
    checkpoint = open_checkpoint(source_path)
    described = {name: entry.meta() for name, entry in checkpoint.tensors.items()}
    plan = make_plan(described, source, target, options, checkpoint.stored)
    try:
        return _write(path, checkpoint, plan, progress or (lambda done, total: None))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "no space left there" if full else error.strerror or error
        raise FileError(f"{path}: cannot be written ({reason}).") from error


def read_convention(path: str | Path) -> Convention:
    """The convention that was written beside a checkpoint, for mhc_ops' `convention=`.

    Raises FileError when there is none, or the files are damaged.
    """
    stored = open_checkpoint(path).stored
    if stored is None:
        raise FileError(
            f"{path}: carries no convention; take the library's preset, such as "
            f"Convention.megatron()."
        )
    return stored.convention


class _File(NamedTuple):
    """One file to write: tensors handed through, groups to convert, metadata."""

    passed: list[str]
    groups: list[Group]
    metadata: dict[str, str]


def _write(path: Path, checkpoint: Checkpoint, plan: Plan, progress: Progress) -> Report:
    files = _files(path, checkpoint, plan)
    planned = {file: _planned(checkpoint, content) for file, content in files.items()}
    total = sum(t.size for tensors in planned.values() for t in tensors.values())
    done = 0

    def step(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    progress(0, total)
    sidecar = plan.stored.to_json() + "\n"
    written = list(files)
    with ExitStack() as stack:
        if path.suffix == ".safetensors":
            beside = stack.enter_context(replacing(sidecar_of(path).resolve()))
            beside.write_text(sidecar, encoding="utf-8")
            folder, names = None, {path.name: stack.enter_context(replacing(path.resolve()))}
            written.append(sidecar_of(path).name)
        else:
            folder = stack.enter_context(replacing(path.resolve()))
            folder.mkdir()
            names = {file: folder / file for file in files}
        for file, content in files.items():
            with names[file].open("xb") as out:
                out.write(header_of(planned[file], content.metadata))
                _write_tensors(out, checkpoint, plan, content, planned[file], step)
                out.flush()
                os.fsync(out.fileno())
        if folder is not None:
            if len(files) > 1:
                weight_map = {name: file for file, made in planned.items() for name in sorted(made)}
                index = {"metadata": {"total_size": total}, "weight_map": weight_map}
                (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
                written.append(INDEX)
            (folder / SIDECAR).write_text(sidecar, encoding="utf-8")
            written.append(SIDECAR)
    heads = sum(group.is_head for group in plan.groups)
    stored = plan.stored
    return Report(
        plan.source.name,
        plan.target.name,
        len(plan.groups) - heads,
        heads,
        len(plan.passed),
        total,
        written,
        stored.convention,
        stored.changed,
    )


def _files(path: Path, checkpoint: Checkpoint, plan: Plan) -> dict[str, _File]:
    """What goes into which file: a hyper-connection is where its first tensor was."""
    single = path.suffix == ".safetensors"
    lone = len(checkpoint.metadata) == 1
    files: dict[str, _File] = {}
    place: dict[Path, _File] = {}
    for source, metadata in checkpoint.metadata.items():
        name = path.name if single else "model.safetensors" if lone else source.name
        place[source] = files.setdefault(name, _File([], [], {}))
        place[source].metadata.update(metadata)
    for content in files.values():
        content.metadata[METADATA_KEY] = plan.stored.to_json()
        # transformers refuses a file whose metadata does not say "pt".
        content.metadata.setdefault("format", "pt")
    for name in plan.passed:
        place[checkpoint.tensors[name].path].passed.append(name)
    for group in plan.groups:
        first = next(iter(group.site.names.values()))
        place[checkpoint.tensors[first].path].groups.append(group)
    return files


def _planned(checkpoint: Checkpoint, content: _File) -> dict[str, Planned]:
    made = {}
    for name in content.passed:
        entry = checkpoint.tensors[name]
        made[name] = Planned(entry.dtype, entry.shape, entry.size)
    for group in content.groups:
        made.update({name: Planned.like(meta) for name, meta in group.outputs.items()})
    return made


def _write_tensors(
    out: BinaryIO,
    checkpoint: Checkpoint,
    plan: Plan,
    content: _File,
    planned: Mapping[str, Planned],
    step: Callable[[int], None],
) -> None:
    """The data of one file, in file order, with at most one group in memory.

    A group whose tensors differ in width is not in one place, and is converted once a place.
    """
    owner = {name: group for group in content.groups for name in group.outputs}
    current: Group | None = None
    tensors: dict[str, Tensor] = {}
    for name in in_file_order(planned):
        if name not in owner:
            for piece in checkpoint.tensors[name].pieces():
                out.write(piece)
                step(len(piece))
            continue
        if owner[name] is not current:
            current = owner[name]
            names = current.site.names.items()
            given = {role: checkpoint.tensors[n].load() for role, n in names}
            tensors = plan.convert(current.site, given)
        out.write(bytes_of(tensors[name]))
        step(planned[name].size)


def _check_target(path: Path) -> None:
    """Refuse early what could not be written, before anything is read."""
    try:
        reason = _obstacle(path)
    except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
        reason = f"cannot be written ({getattr(error, 'strerror', None) or error})"
    if reason is not None:
        raise FileError(f"{path}: {reason}.")


def _obstacle(path: Path) -> str | None:
    parent = path.resolve().parent
    if not parent.is_dir():
        return f"cannot be written, {parent} is not a folder"
    if path.suffix == ".safetensors":
        return "cannot be written, it is a folder" if path.is_dir() else None
    if path.suffix in _OTHER_FORMATS:
        return f"unknown format {path.suffix}; give a name ending in .safetensors, or a folder"
    if path.exists() and not path.is_dir():
        return "cannot become a folder, it is a file"
    if path.exists() and any(path.iterdir()):
        return "not replaced, it already holds files; name an empty folder"
    return None
