"""The .safetensors file; operator and attributes are its metadata: op, and one key per attribute.

Attributes may also come together, as a JSON object under `attrs`. The key `format`, which other
writers leave there, means nothing here.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from .tensor_set import Attr, TensorSet, attr_of, attrs_of


def load(path: Path) -> TensorSet:
    with safe_open(path, framework="pt") as file:
        metadata = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    metadata.pop("format", None)
    op = metadata.pop("op", None)
    attrs = attrs_of(metadata.pop("attrs", None))
    attrs.update({name: attr_of(text) for name, text in metadata.items()})
    return TensorSet(tensors, op, attrs)


def save(path: Path, content: TensorSet) -> None:
    metadata = {name: _text(value) for name, value in content.attrs.items()}
    if content.op is not None:
        metadata["op"] = content.op
    tensors = {name: _own(tensor) for name, tensor in content.tensors.items()}
    save_file(tensors, path, metadata=metadata or None)  # an empty one makes an unreadable header


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """Contiguous and sharing memory with no other tensor, as the format demands."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _text(value: Attr) -> str:
    """The text that attr_of reads back as `value`."""
    return value if isinstance(value, str) and attr_of(value) == value else json.dumps(value)
