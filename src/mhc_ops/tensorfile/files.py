"""Choosing the format by the path, and turning what may go wrong into one sentence."""

import importlib
import json
from pathlib import Path
from typing import Protocol, cast

from ..errors import FileError
from .atomic import replacing
from .tensor_set import TensorSet

_ENDINGS = {".safetensors": ".safetensors_format", ".npz": ".npz_format"}
_FOLDER = ".folder_format"


class _Format(Protocol):
    def load(self, path: Path) -> TensorSet: ...
    def save(self, path: Path, content: TensorSet) -> None: ...


def read(path: str | Path) -> TensorSet:
    """Read a tensor file or folder.

    Raises FileError (a ValueError) when it is missing, of an unknown format, damaged or truncated.
    """
    path = Path(path)
    try:
        if not path.exists():
            raise FileError("no such file or folder")
        return _format(path, _FOLDER if path.is_dir() else _ending(path)).load(path)
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
