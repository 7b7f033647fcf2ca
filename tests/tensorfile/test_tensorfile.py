"""Every format keeps every bit, shows nothing half-written, and names what is wrong with a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from mhc_ops import tensorfile
from mhc_ops.errors import FileError
from mhc_ops.tensorfile import TensorSet, check_target, read, write

TARGETS = ["case.safetensors", "case.npz", "case"]


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same(a: TensorSet, b: TensorSet) -> None:
    assert a.tensors.keys() == b.tensors.keys()
    for name, tensor in a.tensors.items():
        other = b.tensors[name]
        assert (tensor.dtype, tensor.shape) == (other.dtype, other.shape), name
        assert bits(tensor) == bits(other), name
    assert a.op == b.op
    assert dict(a.attrs) == dict(b.attrs)


def everything() -> TensorSet:
    """All bit patterns of the 16-bit types (NaN payloads, subnormals), and the awkward shapes."""
    patterns = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    wide = torch.tensor([0x7F800001, 0x7FC12345, 0xFFFFFFFF, 1, 0x80000000], dtype=torch.uint32)
    return TensorSet(
        {
            "bf16": patterns.view(torch.bfloat16).reshape(256, 256),
            "fp16": patterns.view(torch.float16),
            "fp32": wide.view(torch.float32),
            "fp64": torch.tensor([[float("nan"), -0.0, 5e-324]], dtype=torch.float64),
            "strided": torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).t(),
            "expanded": torch.ones(1, 3, dtype=torch.float16).expand(2, 3),
            "no elements": torch.empty(0, 4, 7, dtype=torch.bfloat16),
            "no dimensions": torch.tensor(1.5, dtype=torch.bfloat16),
            "file": torch.tensor([True, False]),
            "File": torch.tensor([-(2**63)]),
            "a/b": torch.arange(5, dtype=torch.uint8),
            "..": torch.arange(5, dtype=torch.int16),
            "n" * 250: torch.arange(2, dtype=torch.int32),
        },
        "MhcPreBackward",
        {
            "hc_eps": 1e-6,
            "op_impl_mode": 1,
            "precision": "hf32",
            "text": "1",
            "flag": True,
            "nothing": None,
        },
    )


@pytest.mark.parametrize("target", TARGETS)
def test_round_trip_is_bitwise(tmp_path, target):
    content = everything()
    write(tmp_path / target, content)
    assert_same(read(tmp_path / target), content)
    assert os.listdir(tmp_path) == [target]


@pytest.mark.parametrize("target", TARGETS)
def test_plain_set_without_operator(tmp_path, target):
    content = TensorSet({})
    write(tmp_path / target, content)
    assert_same(read(tmp_path / target), content)


@pytest.mark.parametrize("target", TARGETS)
def test_overwriting_replaces_the_whole(tmp_path, target):
    write(tmp_path / target, everything())
    write(tmp_path / target, TensorSet({"x": torch.zeros(2)}))
    assert list(read(tmp_path / target).tensors) == ["x"]
    assert os.listdir(tmp_path) == [target]


@pytest.mark.parametrize("target", TARGETS)
def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path, target):
    old = TensorSet({"x": torch.ones(3)}, "MhcPre", {"hc_eps": 0.5})
    write(tmp_path / target, old)
    bad = TensorSet({"y": torch.ones(2), "__attrs__": torch.ones(2, dtype=torch.complex64)})
    if target == "case.safetensors":  # it can store complex numbers; metadata must be text
        bad = TensorSet({"y": torch.ones(2)}, op=5)
    with pytest.raises(FileError):
        write(tmp_path / target, bad)
    assert_same(read(tmp_path / target), old)
    assert os.listdir(tmp_path) == [target]


@pytest.mark.parametrize("target", TARGETS)
def test_the_target_never_exists_half_written(tmp_path, target, monkeypatch):
    """While the format writes, the target name is absent, or still the old content."""
    seen = []
    real = tensorfile.files._format

    class Spy:
        def __init__(self, form):
            self.form = form

        def save(self, path, content):
            self.form.save(path, content)
            seen.append((tmp_path / target).exists())
            assert path.name.startswith(".")

    monkeypatch.setattr(tensorfile.files, "_format", lambda path, form: Spy(real(path, form)))
    write(tmp_path / target, TensorSet({"x": torch.ones(3)}))
    assert seen == [False]


@pytest.mark.parametrize("target", TARGETS)
def test_a_link_is_written_through(tmp_path, target):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / target).symlink_to(tmp_path / target)
    write(tmp_path / "links" / target, SMALL)
    assert (tmp_path / "links" / target).is_symlink()
    assert_same(read(tmp_path / target), SMALL)
    write(tmp_path / "links" / target, TensorSet({}))
    assert not read(tmp_path / target).tensors


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a.npz").symlink_to(tmp_path / "b.npz")
    (tmp_path / "b.npz").symlink_to(tmp_path / "a.npz")
    with pytest.raises(FileError):
        write(tmp_path / "a.npz", SMALL)
    with pytest.raises(FileError):
        read(tmp_path / "a.npz")


def test_manifest_as_documented(tmp_path):
    x = torch.tensor([[1.0, -2.0]], dtype=torch.bfloat16)
    write(tmp_path / "case", TensorSet({"x": x}, "MhcPre", {"hc_eps": 1e-6}))
    assert json.loads((tmp_path / "case/manifest.json").read_text()) == {
        "format": 1,
        "op": "MhcPre",
        "attrs": {"hc_eps": 1e-6},
        "tensors": {"x": {"file": "x.bin", "dtype": "bfloat16", "shape": [1, 2]}},
    }
    assert (tmp_path / "case/x.bin").read_bytes() == b"\x80\x3f\x00\xc0"


def test_foreign_npz(tmp_path):
    """Big-endian arrays, column-major ones, and the JSON entries as bytes."""
    np.savez_compressed(
        tmp_path / "a.npz",
        x=np.array([[1.5, 2.5]], dtype=">f4"),
        f=np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
        b=np.array([0x3F80, 0xC000], dtype=np.uint16),
        __dtypes__=np.frombuffer(b'{"b": "BF16"}', dtype=np.uint8),
        __attrs__=np.array(b'{"hc_eps": 1e-3}'),
    )
    content = read(tmp_path / "a.npz")
    assert content.tensors["x"].tolist() == [[1.5, 2.5]]
    assert content.tensors["f"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert content.tensors["b"].dtype == torch.bfloat16
    assert content.tensors["b"].tolist() == [1.0, -2.0]
    assert content.attrs == {"hc_eps": 1e-3}


def test_foreign_safetensors_metadata(tmp_path):
    path = tmp_path / "a.safetensors"
    metadata = {"format": "pt", "op": "MhcPre", "hc_eps": "1e-3", "attrs": '{"norm_eps": 2}'}
    save_file({"x": torch.ones(2)}, path, metadata)
    assert read(path).attrs == {"hc_eps": 1e-3, "norm_eps": 2}
    save_file({"x": torch.ones(2)}, path)
    assert read(path)[1:] == (None, {})


MANIFEST_FAULTS = {
    "not json": (b"{", "not JSON"),
    "not utf-8": (b"\xff\xfe", "not JSON"),
    "list": (b"[]", '"format": 1'),
    "future": (b'{"format": 2}', '"format": 1'),
    "no tensors": (b'{"format": 1}', '"tensors"'),
    "op": (b'{"format": 1, "op": 3, "tensors": {}}', "op must be a string"),
    "attrs": (b'{"format": 1, "attrs": [1], "tensors": {}}', "JSON object"),
    "attr": (b'{"format": 1, "attrs": {"a": [1]}, "tensors": {}}', "attribute a"),
    "deep": (b'{"format": 1, "tensors": ' + b"[" * 100_000, "not JSON"),
}


@pytest.mark.parametrize("fault", MANIFEST_FAULTS)
def test_bad_manifest(tmp_path, fault):
    text, message = MANIFEST_FAULTS[fault]
    (tmp_path / "manifest.json").write_bytes(text)
    with pytest.raises(FileError) as caught:
        read(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


ENTRY_FAULTS = {
    "entry": ("x.bin", "object of file"),
    "dtype": ({"file": "x.bin", "dtype": "float12", "shape": [2]}, "'float12'"),
    "shape": ({"file": "x.bin", "dtype": "float32", "shape": [-2]}, "list of sizes"),
    "shape bool": ({"file": "x.bin", "dtype": "float32", "shape": [True]}, "list of sizes"),
    "short": ({"file": "x.bin", "dtype": "float32", "shape": [3]}, "has 8 bytes"),
    "long": ({"file": "x.bin", "dtype": "float32", "shape": [1]}, "has 8 bytes"),
    "missing": ({"file": "y.bin", "dtype": "float32", "shape": [2]}, "missing"),
    "bool": ({"file": "x.bin", "dtype": "bool", "shape": [8]}, "other than 0 and 1"),
    "no file": ({"dtype": "float32", "shape": [2]}, "names no file"),
    "folder": ({"file": ".", "dtype": "float32", "shape": [2]}, "missing"),
    "parent": ({"file": "../secret.bin", "dtype": "float32", "shape": [2]}, "outside"),
    "backslash": ({"file": "..\\secret.bin", "dtype": "float32", "shape": [2]}, "outside"),
    "link": ({"file": "link.bin", "dtype": "float32", "shape": [2]}, "outside"),
    "null": ({"file": "x\0.bin", "dtype": "float32", "shape": [2]}, "outside"),
}


@pytest.mark.parametrize("fault", ENTRY_FAULTS)
def test_bad_manifest_entry(tmp_path, fault):
    entry, message = ENTRY_FAULTS[fault]
    folder = tmp_path / "case"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(8))
    (folder / "x.bin").write_bytes(b"\x02" * 8)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    manifest = {"format": 1, "op": None, "attrs": {}, "tensors": {"x": entry}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileError, match=message):
        read(folder)


def test_absolute_file_name_is_refused(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(8))
    entry = {"file": str(tmp_path / "x.bin"), "dtype": "float32", "shape": [2]}
    manifest = {"format": 1, "tensors": {"x": entry}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileError, match="outside"):
        read(tmp_path)


NPZ_FAULTS = {
    "pickle": ({"x": np.array([{"a": 1}], dtype=object)}, "pickle"),
    "text": ({"x": np.array("hello")}, "no tensor"),
    "complex": ({"x": np.array([1j])}, "no tensor"),
    "dtypes": ({"x": np.zeros(2), "__dtypes__": np.array("[1]")}, "__dtypes__"),
    "dtypes name": ({"x": np.zeros(2), "__dtypes__": np.array('{"y": "bf16"}')}, "__dtypes__"),
    "width": ({"x": np.zeros(2), "__dtypes__": np.array('{"x": "bfloat16"}')}, "too wide"),
    "dtypes json": ({"x": np.zeros(2), "__dtypes__": np.array("{")}, "not JSON"),
    "attrs number": ({"x": np.zeros(2), "__attrs__": np.array(1.0)}, "should be text"),
}


@pytest.mark.parametrize("fault", NPZ_FAULTS)
def test_bad_npz(tmp_path, fault):
    entries, message = NPZ_FAULTS[fault]
    np.savez(tmp_path / "a.npz", **entries)
    with pytest.raises(FileError, match=message):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["missing.npz", "missing", "file.pt", "plain"])
def test_unreadable_paths(tmp_path, name):
    (tmp_path / "file.pt").write_bytes(b"")
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(FileError, match=r"no such file|unknown format"):
        read(tmp_path / name)


def test_folder_without_manifest(tmp_path):
    with pytest.raises(FileError, match="without a manifest"):
        read(tmp_path)


def test_unwritable_targets(tmp_path):
    (tmp_path / "plain").write_bytes(b"mine")
    (tmp_path / "dir.npz").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    content = TensorSet({"x": torch.zeros(1)})
    for name, message in {
        "a.pt": "unknown format",
        "no/where.npz": "not a folder",
        "plain/a.npz": "not a folder",
        "plain": "it is a file",
        "dir.npz": "it is a folder",
        "full": "it also holds notes.txt",
    }.items():
        for act in (check_target, lambda path: write(path, content)):
            with pytest.raises(FileError, match=message):
                act(tmp_path / name)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["dir.npz", "full", "notes.txt", "plain"]


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a"])
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that refuses files")
def test_what_the_system_refuses_is_one_sentence(name):
    with pytest.raises(FileError, match="cannot be written") as caught:
        write(Path("/proc/self") / name, TensorSet({"x": torch.zeros(1)}))
    assert "\n" not in str(caught.value)


SMALL = TensorSet(
    {"x": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), "y": torch.zeros(3)},
    "MhcPre",
    {"hc_eps": 1e-6},
)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("originals")
    for target in TARGETS:
        write(folder / target, SMALL)
    return folder


@pytest.mark.parametrize("name", ["case.safetensors", "case.npz", "case/manifest.json"])
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_files_raise_file_error_or_read_something(name, data, originals, tmp_path):
    """Truncated anywhere, or with bytes changed: FileError or a result, never another exception."""
    damaged = bytearray((originals / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    for side in ("x.bin", "y.bin"):
        (path.parent / side).write_bytes((originals / "case" / side).read_bytes())
    path.write_bytes(damaged)
    message = ""
    try:
        read(path.parent if name.startswith("case/") else path)
    except FileError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 500


@pytest.mark.parametrize("name", ["case.safetensors", "case.npz"])
def test_a_truncated_file_is_an_error(name, originals, tmp_path):
    whole = (originals / name).read_bytes()
    for length in (*range(0, len(whole), 3), len(whole) - 1):
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(FileError):
            read(tmp_path / name)


def test_import_costs_neither_numpy_nor_safetensors():
    code = "import sys, mhc_ops.tensorfile; print({'safetensors', 'rich'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "mhc_ops.tensorfile.safetensors_format", raising=False)
    with pytest.raises(FileError, match=r"safetensors; pip install '.\[cli\]'"):
        write(tmp_path / "a.safetensors", TensorSet({}))
