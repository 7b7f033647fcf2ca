"""Choosing the format by the path, and turning what may go wrong into one sentence."""

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar, cast

from ..errors import FileError
from .atomic import replacing
from .tensor_set import Attr, Blank, Stored, StoredSet, TensorSet

_ENDINGS = {".safetensors": ".safetensors_format", ".npz": ".npz_format"}
_FOLDER = ".folder_format"


class _Format(Protocol):
    def load(self, path: Path) -> TensorSet: ...
    def save(self, path: Path, content: TensorSet) -> None: ...
    def locate(self, path: Path) -> StoredSet: ...
    def lay_out(
        self, path: Path, tensors: Mapping[str, Blank], op: str | None, attrs: Mapping[str, Attr]
    ) -> dict[str, Stored]: ...


Found = TypeVar("Found")


def read(path: str | Path) -> TensorSet:
    """Read a tensor file or folder.

    Raises FileError (a ValueError) when it is missing, of an unknown format, damaged or truncated.
    """
    return _found(Path(path), lambda form, path: form.load(path))


def locate(path: str | Path) -> StoredSet:
    """Say where the tensors of a .safetensors file or a folder lie, without reading them.

    Raises FileError as `read` does, and for an .npz archive, whose tensors cannot be mapped.
    """
    path = Path(path)
    if path.suffix.lower() == ".npz" and not path.is_dir():
        raise FileError(f"{path}: cannot be mapped; use .safetensors or a folder.")
    return _found(path, lambda form, path: form.locate(path))


def lay_out(
    path: Path, tensors: Mapping[str, Blank], op: str | None, attrs: Mapping[str, Attr]
) -> dict[str, Stored]:
    """Begin a .safetensors file or a folder whose tensors are written piece by piece.

    The caller gives each file its size and its bytes; `path` must not exist. The ending chooses
    the format. Raises OSError.
    """
    return _format(path, _target_format(path)).lay_out(path, tensors, op, attrs)


def _found(path: Path, find: Callable[[_Format, Path], Found]) -> Found:
    try:
        if not path.exists():
            raise FileError("no such file or folder")
        return find(_format(path, _FOLDER if path.is_dir() else _ending(path)), path)
    except FileError as error:
        raise FileError(_sentence(path, error)) from error
    except MemoryError as error:
        raise FileError(f"{path}: does not fit into memory.") from error
    except Exception as error:  # damaged bytes make the format libraries raise whatever they like
        raise FileError(f"{path}: cannot be read ({_sentence(None, error)}).") from error


def write(path: str | Path, content: TensorSet) -> None:
    """Write a tensor file or folder, replacing an existing one only by a complete new one.

    Raises FileError when the ending names no format or the target cannot be written; nothing is
    left behind then.
    """
    path = Path(path)
    check_target(path)
    try:
        with replacing(path.resolve()) as temporary:
            _format(path, _target_format(path)).save(temporary, content)
    except FileError as error:
        raise FileError(_sentence(path, error)) from error
    except Exception as error:  # safetensors wraps what the system says in errors of its own
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise FileError(f"{path}: cannot be written ({_sentence(None, reason)}).") from error


def check_target(path: str | Path) -> None:
    """Raise FileError when `write` could not put a file there: ask before a long computation."""
    path = Path(path)
    try:
        _check_place(path, _target_format(path))
    except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be written ({_sentence(None, reason)}).") from error


def _check_place(path: Path, form: str) -> None:
    _format(path, form)
    parent = path.resolve().parent  # a link is written through, not replaced
    if not parent.is_dir():
        raise FileError(f"{path}: cannot be written, {parent} is not a folder.")
    if form != _FOLDER and path.is_dir():
        raise FileError(f"{path}: cannot be written, it is a folder.")
    if form == _FOLDER and path.exists():
        if not path.is_dir():
            raise FileError(f"{path}: cannot become a folder, it is a file.")
        strangers = sorted({p.name for p in path.iterdir()} - _written_by_us(path))
        if strangers:
            raise FileError(f"{path}: not replaced, it also holds {strangers[0]}.")


def _written_by_us(folder: Path) -> set[str]:
    """The names in a folder that its manifest accounts for."""
    try:
        tensors = json.loads((folder / "manifest.json").read_bytes())["tensors"]
        return {"manifest.json", *(entry["file"] for entry in tensors.values())}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()


def _target_format(path: Path) -> str:
    if path.suffix.lower() in _ENDINGS or (path.suffix and not path.is_dir()):
        return _ending(path)
    return _FOLDER


def _ending(path: Path) -> str:
    form = _ENDINGS.get(path.suffix.lower())
    if form is None:
        raise FileError(
            f"{path}: unknown format {path.suffix or '(no ending)'}; use .safetensors, .npz, or a"
            " folder with a manifest.json."
        )
    return form


def _format(path: Path, module: str) -> _Format:
    try:
        return cast(_Format, importlib.import_module(module, __package__))
    except ModuleNotFoundError as error:
        raise FileError(
            f"{path}: needs the Python package {error.name}; pip install '.[cli]'."
        ) from error


def _sentence(path: Path | None, error: object) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    if path is None:
        return text
    return f"{path}: {text.removeprefix(f'{path}: ')}."
