"""Where tensors lie in files: what `locate` says and `lay_out` begins, the readers agree with."""

import math

import pytest
import torch
from safetensors.torch import load_file

from mhc_ops.errors import FileError
from mhc_ops.tensorfile import Blank, Stored, TensorSet, lay_out, locate, read, write
from mhc_ops.tensorfile.tensor_set import DTYPES

TARGETS = ["case.safetensors", "case"]


def of_every_dtype() -> TensorSet:
    draw = torch.Generator().manual_seed(1)
    tensors = {
        name: torch.randint(0, 2, (3, 5 + i), generator=draw).to(dtype)
        for i, (name, dtype) in enumerate(DTYPES.items())
    }
    tensors |= {"none": torch.empty(0, 4), "one": torch.tensor(2.5)}
    return TensorSet(tensors, "MhcPre", {"hc_eps": 1e-6, "text": "a"})


def bytes_of(stored: Stored) -> bytes:
    return stored.file.read_bytes()[stored.offset : stored.offset + stored.nbytes]


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_locate(tmp_path, target):
    content = of_every_dtype()
    write(tmp_path / target, content)
    found = locate(tmp_path / target)
    assert (found.op, dict(found.attrs)) == (content.op, dict(content.attrs))
    assert found.tensors.keys() == content.tensors.keys()
    for name, tensor in content.tensors.items():
        stored = found.tensors[name]
        assert (stored.dtype, stored.shape) == (tensor.dtype, tuple(tensor.shape))
        assert bytes_of(stored) == raw(tensor)


@pytest.mark.parametrize("target", TARGETS)
def test_lay_out(tmp_path, target):
    content = of_every_dtype()
    blanks = {name: Blank(t.dtype, tuple(t.shape)) for name, t in content.tensors.items()}
    places = lay_out(tmp_path / target, blanks, content.op, content.attrs)
    for name, stored in places.items():
        assert stored.offset % stored.dtype.itemsize == 0
        assert stored.nbytes == math.prod(stored.shape) * stored.dtype.itemsize
        with stored.file.open("r+b" if stored.file.exists() else "xb") as file:
            file.seek(stored.offset)
            file.write(raw(content.tensors[name]))
    assert locate(tmp_path / target).tensors == places
    back = read(tmp_path / target)
    assert (back.op, dict(back.attrs)) == (content.op, dict(content.attrs))
    for name, tensor in content.tensors.items():
        assert raw(back.tensors[name]) == raw(tensor)
        assert back.tensors[name].shape == tensor.shape
    if target.endswith(".safetensors"):
        assert load_file(tmp_path / target).keys() == content.tensors.keys()


def test_what_cannot_be_located(tmp_path):
    write(tmp_path / "case.npz", of_every_dtype())
    with pytest.raises(FileError, match=r"cannot be mapped; use \.safetensors or a folder"):
        locate(tmp_path / "case.npz")
    with pytest.raises(FileError, match="no such file or folder"):
        locate(tmp_path / "nothing")
    path = tmp_path / "case.safetensors"
    write(path, of_every_dtype())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileError, match="cannot be read"):
        locate(path)
