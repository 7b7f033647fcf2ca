"""The .npz archive; bfloat16 lies there as uint16, named in the JSON entry `__dtypes__`.

Further text entries: `__attrs__`, a JSON object, and `__op__`. Pickled objects are refused.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FileError
from .tensor_set import TensorSet, attrs_of, dtype_of, parse_json

_DTYPES, _ATTRS, _OP = "__dtypes__", "__attrs__", "__op__"


def load(path: Path) -> TensorSet:
    with path.open("rb") as file:  # numpy would leave a damaged file open
        try:
            archive = np.load(file, allow_pickle=False)
        except ValueError:  # numpy's own text recommends pickle, which must not be tried on it
            archive = None
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise FileError("is not an .npz archive")
        entries: dict[str, Any] = {name: archive[name] for name in archive.files}
    dtypes = parse_json(_string(entries.pop(_DTYPES, "{}")))
    if not isinstance(dtypes, dict) or not dtypes.keys() <= entries.keys():
        raise FileError(f"{_DTYPES} must be a JSON object from tensor names to dtypes")
    attrs = attrs_of(_string(entries.pop(_ATTRS, "{}")))
    op = _string(entries.pop(_OP)) if _OP in entries else None
    tensors = {name: _tensor(name, array, dtypes.get(name)) for name, array in entries.items()}
    return TensorSet(tensors, op, attrs)


def save(path: Path, content: TensorSet) -> None:
    reserved = {_DTYPES, _ATTRS, _OP} & content.tensors.keys()
    if reserved:
        raise FileError(f"{sorted(reserved)[0]} cannot be the name of a tensor in an .npz")
    entries: dict[str, Any] = {}
    dtypes: dict[str, str] = {}
    for name, tensor in content.tensors.items():
        plain = tensor.detach().cpu().contiguous()
        if plain.dtype == torch.bfloat16:
            dtypes[name], plain = "bfloat16", plain.view(torch.uint16)
        entries[name] = plain.numpy()
    entries[_DTYPES] = np.array(json.dumps(dtypes))
    entries[_ATTRS] = np.array(json.dumps(dict(content.attrs)))
    if content.op is not None:
        entries[_OP] = np.array(content.op)
    # numpy.savez would take a tensor named `file` for its own argument.
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in entries.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _tensor(name: str, array: Any, dtype: object) -> Tensor:
    if array.dtype.kind not in "fiub":
        raise FileError(f"{name} holds {array.dtype}, which is no tensor")
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    tensor = torch.from_numpy(native.reshape(array.shape))
    if dtype is None:
        return tensor
    wanted = dtype_of(dtype)
    if wanted.itemsize != tensor.dtype.itemsize:
        raise FileError(f"{name} is stored as {array.dtype}, too wide or narrow for {dtype}")
    return tensor.view(wanted)


def _string(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if entry.dtype.kind == "U" and entry.ndim == 0:
        return str(entry[()])
    if entry.dtype.kind == "S" and entry.ndim == 0:
        return bytes(entry[()]).decode()
    if entry.dtype == np.uint8:
        return bytes(entry.tobytes()).decode()
    raise FileError("an entry that should be text holds something else")
