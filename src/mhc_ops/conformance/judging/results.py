"""What a device wrote, from files of any form that a test program finds easy to write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from ...aclnn.spec import OPERATORS
from ...errors import ArgumentError, FileError
from ...tensorfile import read
from ...tensorfile.tensor_set import dtype_name
from ..criteria import canonical_name
from ..goldens import Golden


def read_results(path: Path, golden: Golden) -> dict[str, Tensor]:
    """The results under `path`, by the names that they have there.

    A .safetensors or .npz file, a folder with a manifest.json, or a folder of bare .bin files, one
    an output, named hPost.bin or h_post.bin: those have the golden's dtypes and shapes, raw,
    little-endian and row-major. Raises FileError for files that are none, and for an operator other
    than the golden's.
    """
    if path.is_dir() and not (path / "manifest.json").exists():
        return _bare(path, golden)
    content = read(path)
    if content.op not in (None, golden.truth.op):
        raise FileError(f"{path}: holds results of {content.op}, the golden is {golden.truth.op}.")
    return content.tensors


def output_name(op: str, name: str) -> str:
    """The operator definition's name of an output in any spelling: hIn, h_in and hin are one."""
    spec = OPERATORS[op].tensor(name)
    if spec is not None and spec.kind == "output":
        return spec.name
    outputs = {canonical_name(known): known for known in OPERATORS[op].names("output")}
    return outputs.get(canonical_name(name), name)


def by_output(op: str, names: Iterable[str]) -> dict[str, str]:
    """Names in any spelling, by those of the operator definition's outputs.

    Raises ArgumentError for two spellings of one output, of which one may be an old result.
    """
    found: dict[str, str] = {}
    for name in names:
        output = output_name(op, name)
        if output in found:
            raise ArgumentError(
                f"{op}: the results hold {output} twice, as {found[output]} and {name}; keep one."
            )
        found[output] = name
    return found


def _bare(folder: Path, golden: Golden) -> dict[str, Tensor]:
    op, known = str(golden.truth.op), golden.expected.tensors
    files = by_output(op, sorted(file.stem for file in folder.glob("*.bin")))
    found = {name: f"{stem}.bin" for name, stem in files.items() if name in known}
    if not found:
        raise FileError(
            f"{folder}: holds neither a manifest.json nor a .bin file of an output; the outputs "
            f"are {', '.join(golden.expected.tensors)}."
        )
    return {name: _raw(folder, name, file, known[name]) for name, file in found.items()}


def _raw(folder: Path, name: str, file: str, like: Tensor) -> Tensor:
    from ...tensorfile.folder_format import tensor_of  # brings numpy, which files alone need

    entry = {"file": file, "dtype": dtype_name(like.dtype), "shape": list(like.shape)}
    try:
        return tensor_of(folder, name, entry)
    except FileError as error:
        raise FileError(f"{folder}: {error}.") from error
