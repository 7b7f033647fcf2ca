"""The C library behind the same arguments as the Python calls of calls.py, by way of ctypes."""

import ctypes
import functools
from typing import NamedTuple

import pytest
import torch

from mhc_ops import _native, aclnn
from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.cli.aclnn_flags import LIBRARY

from .calls import BF16, FP16, FP32, T

TO_DEVICE, TO_HOST = aclnn.ACL_MEMCPY_HOST_TO_DEVICE, aclnn.ACL_MEMCPY_DEVICE_TO_HOST
DTYPES = {torch.bfloat16: BF16, torch.float16: FP16, torch.float32: FP32}
_C_TYPES = {
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "int64_t": ctypes.c_int64,
    "bool": ctypes.c_bool,
}


class Answer(NamedTuple):
    """What a first call answers; the executor is left out of comparisons."""

    status: int
    size: int
    message: str


@functools.cache
def library():
    """The library, or a skip with its reason where this install has none."""
    found = [f for folder in _native.folders() if (f := folder / LIBRARY).exists()]
    if not found:
        pytest.skip("the aclnn library was not built")
    lib = ctypes.CDLL(str(found[0]))
    address, size = ctypes.c_void_p, ctypes.c_size_t
    for name in ("aclGetRecentErrMsg", "aclrtGetSocName"):
        getattr(lib, name).restype = ctypes.c_char_p
    for name in ("aclCreateTensor", "aclCreateScalar"):
        getattr(lib, name).restype = address
    numbers, count = ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64
    lib.aclCreateTensor.argtypes = [
        *(numbers, count, ctypes.c_int, numbers, ctypes.c_int64, ctypes.c_int, numbers, count),
        address,
    ]
    lib.aclDestroyTensor.argtypes = [address]
    lib.aclrtMalloc.argtypes = [ctypes.POINTER(address), size, ctypes.c_int]
    lib.aclrtFree.argtypes = [address]
    lib.aclrtMemcpy.argtypes = [address, size, address, size, ctypes.c_int]
    lib.aclrtSynchronizeStream.argtypes = lib.aclrtDestroyStream.argtypes = [address]
    lib.aclFloat16ToFloat.restype = ctypes.c_float
    lib.aclFloat16ToFloat.argtypes = [ctypes.c_uint16]
    lib.aclFloatToFloat16.restype = ctypes.c_uint16
    lib.aclFloatToFloat16.argtypes = [ctypes.c_float]
    for table in OPERATORS.values():
        for api in table.apis:
            first, second = getattr(lib, f"{api.name}GetWorkspaceSize"), getattr(lib, api.name)
            first.argtypes = [*(_c_type(table, p) for p in api.parameters), address, address]
            second.argtypes = [address, count, address, address]
    return lib


def _c_type(table, name):
    attr = table.attr(name)
    return ctypes.c_void_p if table.tensor(name) else _C_TYPES[attr.type]


def message():
    return library().aclGetRecentErrMsg().decode()


def create(shape, dtype, stride=None, offset=0, form=aclnn.ACL_FORMAT_ND, storage=None, data=None):
    """aclCreateTensor; None where it fails."""
    storage = shape if storage is None else storage
    steps = None if stride is None else _array(stride)
    return library().aclCreateTensor(
        *(_array(shape), len(shape), dtype, steps, offset, form, _array(storage), len(storage)),
        data,
    )


def _array(sizes):
    return (ctypes.c_int64 * len(sizes))(*sizes)


def prepare(api, handles, workspace_size=True, executor=True):
    """First phase on handles and numbers by snake case name; the answer and the executor."""
    table = next(spec for spec in OPERATORS.values() if spec.api(api))
    size, made = ctypes.c_uint64(7), ctypes.c_void_p()
    status = getattr(library(), f"{api}GetWorkspaceSize")(
        *(handles[name] for name in table.api(api).parameters),
        ctypes.byref(size) if workspace_size else None,
        ctypes.byref(made) if executor else None,
    )
    return Answer(status, size.value if workspace_size else 0, message()), made.value


def ask(api, values, soc, **handles):
    """The first phase on T without memory; the answer."""
    assert library().mhc_aclnn_set_soc(soc.encode()) == 0
    made = {
        name: create(value.shape, value.dtype, form=value.format) if isinstance(value, T) else value
        for name, value in values.items()
    }
    try:
        return prepare(api, made, **handles)[0]
    finally:
        for name, value in values.items():
            if isinstance(value, T):
                assert library().aclDestroyTensor(made[name]) == 0
        library().mhc_aclnn_set_soc(None)


class OnDevice:
    """Torch tensors by name in device memory with the strides they have, as handles."""

    def __init__(self, values):
        self.hosts = {n: v for n, v in values.items() if isinstance(v, torch.Tensor)}
        self.handles = dict(values)
        self.memory = {}
        for name, host in self.hosts.items():
            room = host.untyped_storage()
            self.memory[name] = malloc(room.nbytes())
            copy(self.memory[name], room.data_ptr(), room.nbytes(), TO_DEVICE)
            self.handles[name] = create(
                *(host.shape, DTYPES[host.dtype], host.stride(), host.storage_offset()),
                storage=[room.nbytes() // host.element_size()],
                data=self.memory[name],
            )
            assert self.handles[name], message()

    def fetch(self):
        """Bring the tensors' memory back into the torch tensors."""
        for name, host in self.hosts.items():
            room = host.untyped_storage()
            copy(room.data_ptr(), self.memory[name], room.nbytes(), TO_HOST)

    def release(self):
        for name in self.hosts:
            assert library().aclDestroyTensor(self.handles[name]) == 0
            assert library().aclrtFree(self.memory[name]) == 0


def malloc(size):
    pointer = ctypes.c_void_p()
    assert library().aclrtMalloc(ctypes.byref(pointer), size, 0) == 0, message()
    return pointer.value


def copy(dst, src, size, kind):
    assert library().aclrtMemcpy(dst, size, src, size, kind) == 0, message()


def run(api, values, stream=None):
    """Both phases and the synchronisation on torch tensors: "", or the first code and message."""
    device = OnDevice(values)
    workspace = None
    try:
        answer, executor = prepare(api, device.handles)
        if answer.status:
            return f"{answer.status} {answer.message}"
        workspace = malloc(answer.size) if answer.size else None
        status = getattr(library(), api)(workspace, answer.size, executor, stream)
        status = status or library().aclrtSynchronizeStream(stream)
        told = f"{status} {message()}" if status else ""
        device.fetch()
        return told
    finally:
        device.release()
        if workspace:
            assert library().aclrtFree(workspace) == 0
