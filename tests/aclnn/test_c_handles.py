"""What a C program can get wrong with handles, memory, workspaces and streams gives a code."""

import ctypes
import os
import subprocess
import sys

import pytest
import torch

from mhc_ops import aclnn

from . import c_surface, calls
from .c_surface import OnDevice, create, library, malloc, message, prepare
from .calls import BF16, FP32

INVALID, NULL, BAD, RUNTIME = 161002, 161001, 100000, 361001


@pytest.fixture(autouse=True)
def _library():
    library()


@pytest.fixture
def ready():
    """A valid MhcPost on device memory, ready for its second call."""
    device = OnDevice(calls.tensors(calls.post()))
    answer, executor = prepare("aclnnMhcPost", device.handles)
    assert answer.status == 0
    workspace = malloc(answer.size)
    yield device, workspace, answer.size, executor
    device.release()
    library().aclrtFree(workspace)


@pytest.fixture
def stream():
    made = ctypes.c_void_p()
    assert library().aclrtCreateStream(ctypes.byref(made)) == 0
    yield made.value
    library().aclrtDestroyStream(made)


def second(workspace, size, executor, stream=None, api="aclnnMhcPost"):
    return getattr(library(), api)(workspace, size, executor, stream)


def test_an_executor_is_good_for_one_run(ready):
    _, workspace, size, executor = ready
    assert second(workspace, size, executor) == 0
    assert second(workspace, size, executor) == INVALID
    assert "already used" in message()
    assert library().aclrtSynchronizeStream(None) == 0


def test_an_executor_of_another_call_or_of_none(ready):
    _, workspace, size, executor = ready
    assert second(workspace, size, None) == NULL
    assert second(workspace, size, executor, api="aclnnMhcPre") == INVALID
    assert "belongs to aclnnMhcPost" in message()
    for wrong in (workspace, ready[0].handles["x"], 0x10, 2**60):
        assert second(workspace, size, wrong) == INVALID
    assert second(workspace, size, executor) == 0  # not spent by what failed


def test_a_short_null_or_foreign_workspace(ready):
    _, workspace, size, executor = ready
    assert second(workspace, size - 1, executor) == INVALID
    assert second(None, size, executor) == INVALID
    assert second(workspace + 1, size, executor) == INVALID
    host = ctypes.create_string_buffer(16)
    assert second(ctypes.addressof(host), size, executor) == INVALID
    small = malloc(size - 1)
    assert second(small, size, executor) == INVALID
    assert "workspace must have" in message()
    library().aclrtFree(small)
    assert second(small, size, executor) == INVALID
    assert second(workspace, size, executor) == 0


def test_a_stream_that_is_none(ready):
    _, workspace, size, executor = ready
    assert second(workspace, size, executor, stream=0x40) == RUNTIME
    assert "no such stream" in message()
    assert second(workspace, size, executor) == INVALID  # spent, as in Python


def test_streams_end_once(stream):
    made = ctypes.c_void_p()
    assert library().aclrtCreateStream(ctypes.byref(made)) == 0
    assert library().aclrtDestroyStream(made) == 0
    assert library().aclrtDestroyStream(made) == BAD
    assert library().aclrtSynchronizeStream(made) == BAD
    assert library().aclrtDestroyStream(None) == BAD
    assert library().aclrtSynchronizeStream(stream) == 0


def test_tensors_end_once_and_are_not_used_after():
    tensor = create((2, 4, 4, 128), BF16)
    assert library().aclDestroyTensor(tensor) == 0
    assert library().aclDestroyTensor(tensor) == INVALID
    assert library().aclDestroyTensor(None) == 0
    handles = {n: create(v.shape, v.dtype) for n, v in calls.post().items()}
    answer, _ = prepare("aclnnMhcPost", handles | {"h_out": tensor})
    assert answer.status == INVALID
    assert "hOut was destroyed" in answer.message
    later = create((2, 4, 4, 128), BF16)
    assert later != tensor  # or the destroyed one would pass for it
    for handle in (*handles.values(), later):
        assert library().aclDestroyTensor(handle) == 0


def test_handles_of_another_kind(ready, stream):
    device, workspace, size, executor = ready
    for wrong in (stream, workspace, executor, 0x8):
        answer, _ = prepare("aclnnMhcPost", device.handles | {"x": wrong})
        assert answer.status == INVALID
        assert library().aclDestroyTensor(wrong) == INVALID
        assert library().aclDestroyScalar(ctypes.c_void_p(wrong)) == INVALID
    assert library().aclrtFree(device.handles["x"]) == BAD
    assert library().aclrtDestroyStream(ctypes.c_void_p(device.handles["x"])) == BAD
    assert library().aclrtSetCurrentContext(ctypes.c_void_p(stream)) == BAD
    assert second(workspace, size, executor) == 0


def test_a_tensor_destroyed_between_the_calls_is_kept_by_the_executor():
    values = calls.tensors(calls.post())
    want = {name: value.clone() for name, value in values.items()}
    assert c_surface.run("aclnnMhcPost", want) == ""
    device = OnDevice(values)
    answer, executor = prepare("aclnnMhcPost", device.handles)
    workspace = malloc(answer.size)
    for handle in device.handles.values():
        assert library().aclDestroyTensor(handle) == 0
    assert second(workspace, answer.size, executor) == 0
    assert library().aclrtSynchronizeStream(None) == 0
    device.fetch()
    assert torch.equal(values["y"], want["y"])
    for memory in (*device.memory.values(), workspace):
        assert library().aclrtFree(memory) == 0


@pytest.mark.parametrize("name", calls.post())
def test_memory_that_is_null_foreign_freed_or_too_small(name):
    device = OnDevice(calls.tensors(calls.post()))
    host = device.hosts[name]
    bytes_needed = host.numel() * host.element_size()
    freed, short = malloc(bytes_needed), malloc(bytes_needed - 1)
    library().aclrtFree(freed)
    for data, offset, word in (
        (None, 0, "no memory"),
        (host.data_ptr(), 0, "no memory of aclrtMalloc"),
        (freed, 0, "no memory of aclrtMalloc"),
        (short, 0, "bytes of memory"),
        (device.memory[name], 1, "bytes of memory"),
        (device.memory[name] + 1, 0, "cannot address"),
        (device.memory[name], 2**62, "bytes of memory"),
    ):
        dtype = c_surface.DTYPES[host.dtype]
        tensor = create(tuple(host.shape), dtype, None, offset, data=data)
        answer, executor = prepare("aclnnMhcPost", device.handles | {name: tensor})
        assert answer.status == 0
        workspace = malloc(answer.size)
        assert second(workspace, answer.size, executor) == RUNTIME
        assert word in message(), message()
        library().aclrtFree(workspace)
        library().aclDestroyTensor(tensor)
    library().aclrtFree(short)
    device.release()


def test_outputs_that_share_bytes():
    device = OnDevice(calls.tensors(calls.post_backward()))
    handles = device.handles | {"grad_x": device.handles["grad_h_res"]}
    handles["grad_h_res"] = create(
        (2, 4, 4, 4), FP32, (0, 0, 4, 1), data=device.memory["grad_h_res"]
    )
    for changed, word in (
        ({"grad_h_res": handles["grad_h_res"]}, "one place"),
        ({"grad_h_post": create((2, 4, 4), FP32, data=device.memory["grad_h_res"])}, "share"),
    ):
        answer, executor = prepare("aclnnMhcPostBackward", device.handles | changed)
        assert answer.status == 0
        workspace = malloc(answer.size)
        run = second(workspace, answer.size, executor, api="aclnnMhcPostBackward")
        assert run == RUNTIME
        assert word in message()
        library().aclrtFree(workspace)
        for handle in changed.values():
            library().aclDestroyTensor(handle)
    device.release()


REFUSED = [
    ("aclnnMhcPre", calls.pre(rows=32), "ascend910b", "rows of phi"),
    ("aclnnMhcPre", calls.pre() | {"norm_eps": -1.0}, "ascend950", "normEps"),
    ("aclnnMhcPre", calls.pre() | {"hc_eps": float("inf")}, "ascend950", "hcEps"),
    ("aclnnMhcPreBackward", calls.backward(rows=32), "ascend950", "rows of phi"),
    ("aclnnMhcPreBackward", calls.backward(h_res=(24,)), "ascend910b", "rows of phi"),
    (
        "aclnnMhcPostBackward",
        calls.post_backward()
        | {"h_out": calls.T(1, (2, 4, 128))}
        | {"grad_h_out": calls.T(1, (2, 4, 128))},
        "ascend950",
        "one dtype",
    ),
    ("aclnnMhcSinkhorn", calls.sinkhorn() | {"eps": 1.0}, "ascend950", "eps"),
    (
        "aclnnMhcSinkhornBackward",
        calls.sinkhorn_backward() | {"sum": calls.T(FP32, (5,))},
        "ascend950",
        "sumOut",
    ),
    ("aclnnMhcPreSinkhorn", calls.pre_sinkhorn() | {"hc_eps": -0.5}, "ascend950", "eps"),
    (
        "aclnnMhcPreSinkhornBackward",
        calls.pre_sinkhorn_backward()
        | {"sum_out": calls.T(FP32, (39, 2, 4, 4)), "norm_out": calls.T(FP32, (39, 2, 4, 4, 4))},
        "ascend950",
        "sumOut",
    ),
]


@pytest.mark.parametrize(("api", "values", "soc", "word"), REFUSED)
def test_what_only_the_second_call_refuses(api, values, soc, word):
    values = calls.tensors(values)
    with aclnn.soc(soc):
        assert calls.run(api, values) == RUNTIME
    library().mhc_aclnn_set_soc(soc.encode())
    told = c_surface.run(api, values)
    assert told.startswith("361001 ")
    assert word in told
    library().mhc_aclnn_set_soc(None)


def test_an_empty_call_runs_nothing_on_no_stream():
    handles = {n: create(v.shape, v.dtype) for n, v in calls.post(lead=(2, 0)).items()}
    answer, executor = prepare("aclnnMhcPost", handles)
    assert (answer.status, answer.size) == (0, 0)
    assert second(None, 0, executor) == 0
    assert second(None, 0, executor) == INVALID
    for handle in handles.values():
        library().aclDestroyTensor(handle)


@pytest.mark.parametrize(
    "arguments",
    [
        ((-1, 4), FP32, None, 0, aclnn.ACL_FORMAT_ND, (4,)),
        ((2, 4), FP32, (-1, 1), 0, aclnn.ACL_FORMAT_ND, (8,)),
        ((2, 4), FP32, None, -1, aclnn.ACL_FORMAT_ND, (8,)),
        ((2, 4), FP32, None, 0, aclnn.ACL_FORMAT_ND, (-8,)),
        ((2, 4), 5, None, 0, aclnn.ACL_FORMAT_ND, (8,)),
        ((2, 4), FP32, None, 0, 77, (8,)),
    ],
)
def test_tensors_that_cannot_be_made_give_null_and_the_words_of_the_python_surface(arguments):
    dims, dtype, stride, offset, form, storage = arguments
    assert aclnn.aclCreateTensor(dims, dtype, stride, offset, form, storage, None) is None
    assert create(dims, dtype, stride, offset, form, storage) is None
    shown, told = message(), aclnn.aclGetRecentErrMsg()
    if -1 in dims:  # without strides none can be derived there
        shown, told = shown.split("stride")[0], told.split("stride")[0]
    assert shown == told


def test_queries_give_what_the_tensor_was_made_from():
    tensor = create((2, 3), BF16, (5, 1), 7, aclnn.ACL_FORMAT_NCHW, (4, 5), 0x1234)
    sizes, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    for name, expected in (
        ("ViewShape", [2, 3]),
        ("ViewStrides", [5, 1]),
        ("StorageShape", [4, 5]),
    ):
        ask = getattr(library(), f"aclGet{name}")
        handle = ctypes.c_void_p(tensor)
        assert ask(handle, ctypes.byref(sizes), ctypes.byref(count)) == 0
        assert sizes[: count.value] == expected
        assert ask(handle, None, ctypes.byref(count)) == NULL
        assert ask(None, ctypes.byref(sizes), ctypes.byref(count)) == NULL
        assert ask(ctypes.c_void_p(8), ctypes.byref(sizes), ctypes.byref(count)) == INVALID
    number = ctypes.c_int64()
    for name, expected in (("ViewOffset", 7), ("Format", 0), ("DataType", BF16)):
        number.value = 0
        assert (
            getattr(library(), f"aclGet{name}")(ctypes.c_void_p(tensor), ctypes.byref(number)) == 0
        )
        assert number.value == expected
    address = ctypes.c_void_p()
    assert library().aclGetRawTensorAddr(ctypes.c_void_p(tensor), ctypes.byref(address)) == 0
    assert address.value == 0x1234
    library().aclDestroyTensor(tensor)


def test_copies_stay_inside_their_memory():
    memory, host = malloc(64), ctypes.create_string_buffer(128)
    here = ctypes.addressof(host)
    put = library().aclrtMemcpy
    assert put(memory, 64, here, 64, 1) == 0
    assert put(memory + 32, 32, here, 32, 1) == 0
    for wrong in (
        (memory, 63, here, 64, 1),
        (memory, 128, here, 65, 1),
        (memory + 1, 64, here, 64, 1),
        (here, 64, here, 64, 1),
        (here, 128, memory, 65, 2),
        (here, 64, here, 64, 3),
        (None, 64, here, 64, 1),
        (memory, 64, None, 64, 1),
        (memory, 64, here, 64, 9),
    ):
        assert put(*wrong) == BAD, wrong
        assert message()
    assert library().aclrtFree(memory) == 0
    assert put(memory, 64, here, 64, 1) == BAD
    assert library().aclrtFree(memory) == BAD
    assert library().aclrtFree(None) == BAD


def test_memory_that_cannot_be_had():
    pointer = ctypes.c_void_p(5)
    ask = library().aclrtMalloc
    assert ask(ctypes.byref(pointer), 2**62, 0) == 200000
    assert pointer.value is None
    assert ask(ctypes.byref(pointer), 0, 0) == BAD
    assert ask(ctypes.byref(pointer), 8, 77) == BAD
    assert ask(None, 8, 0) == BAD


FAILS_ON_THE_STREAM = """
import torch
from tests.aclnn import c_surface, calls
values = calls.tensors(calls.post())
device = c_surface.OnDevice(values)
answer, executor = c_surface.prepare("aclnnMhcPost", device.handles)
workspace = c_surface.malloc(answer.size)
library = c_surface.library()
print(library.aclnnMhcPost(workspace, answer.size, executor, None))
print(library.aclrtSynchronizeStream(None), c_surface.message())
print(library.aclrtSynchronizeStream(None))
"""


def in_another_process(text, **environment):
    command = [sys.executable, "-c", text]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
        cwd=__file__.rpartition("/tests/")[0],
    ).stdout.splitlines()


def test_a_failure_on_the_stream_is_told_by_synchronise_once():
    first, told, again = in_another_process(FAILS_ON_THE_STREAM, MHC_OPS_ISA="nonsense")
    assert first == "0"
    assert told.startswith("361001 aclnnMhcPost: failed while running: MHC_OPS_ISA names")
    assert again == "0"


CHIP = """
from tests.aclnn.c_surface import library, message, prepare, create
from tests.aclnn import calls
print(library().aclInit(None), library().aclrtGetSocName())
handles = {n: create(v.shape, v.dtype) if v else None for n, v in calls.post(h_res=False).items()}
print(prepare("aclnnMhcPost", handles)[0].status, message())
"""


def test_the_environment_chooses_the_chip():
    init, first = in_another_process(CHIP, MHC_OPS_SOC="ascend910_93")
    assert init == "0 b'Ascend910_93'"
    assert first == "361001 aclnnMhcPost: hRes must not be null."
    init, first = in_another_process(CHIP, MHC_OPS_SOC="ascend999")
    assert init == "100000 None"
    assert first.startswith("161002 aclnnMhcPost: MHC_OPS_SOC must be one of ascend950, ")


def test_a_chip_of_that_name_only():
    assert library().mhc_aclnn_set_soc(b"ascend310") == BAD
    assert "ascend950, ascend910b, ascend910_93" in message()
    assert library().aclrtGetSocName() == b"Ascend950"
