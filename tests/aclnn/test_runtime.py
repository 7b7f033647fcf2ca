"""The bits of the AscendCL runtime, and the sample program that uses them."""

import array
import runpy
from pathlib import Path

import pytest
import torch

from mhc_ops import aclnn

EXAMPLE = Path(__file__).parents[2] / "examples" / "aclnn_mhc_pre_backward.py"


def test_the_published_numbers():
    assert (aclnn.ACLNN_SUCCESS, aclnn.ACL_SUCCESS) == (0, 0)
    assert aclnn.ACLNN_ERR_PARAM_NULLPTR == 161001
    assert aclnn.ACLNN_ERR_PARAM_INVALID == 161002
    assert aclnn.ACLNN_ERR_RUNTIME_ERROR == 361001
    assert aclnn.ACLNN_ERR_INNER_TILING_ERROR == 561002
    assert aclnn.ACLNN_ERR_INNER_NULLPTR == 561103
    assert (aclnn.ACL_FLOAT, aclnn.ACL_FLOAT16, aclnn.ACL_BF16) == (0, 1, 27)
    assert (aclnn.ACL_INT8, aclnn.ACL_INT32, aclnn.ACL_UINT8, aclnn.ACL_INT64) == (2, 3, 4, 9)
    assert (aclnn.ACL_DOUBLE, aclnn.ACL_BOOL) == (11, 12)
    assert (aclnn.ACL_FORMAT_NCHW, aclnn.ACL_FORMAT_NHWC, aclnn.ACL_FORMAT_ND) == (0, 1, 2)
    assert (aclnn.ACL_FORMAT_NC1HWC0, aclnn.ACL_FORMAT_FRACTAL_Z) == (3, 4)
    assert (aclnn.ACL_FORMAT_NC1HWC0_C04, aclnn.ACL_FORMAT_FRACTAL_NZ) == (12, 29)
    assert (aclnn.ACL_FORMAT_NDC1HWC0, aclnn.ACL_FORMAT_FRACTAL_Z_3D) == (32, 33)


def test_memory_there_and_back():
    host = array.array("f", [1.0, -2.5, 3.0])
    status, device = aclnn.aclrtMalloc(12)
    assert (status, device.dtype, device.numel()) == (0, torch.uint8, 12)
    assert aclnn.aclrtMemcpy(device, 12, host, 12, aclnn.ACL_MEMCPY_HOST_TO_DEVICE) == 0
    assert device.view(torch.float32).tolist() == [1.0, -2.5, 3.0]
    back = torch.zeros(3, dtype=torch.bfloat16)
    assert aclnn.aclrtMemcpy(back, 6, device, 4, aclnn.ACL_MEMCPY_DEVICE_TO_HOST) == 0
    assert back.view(torch.int16).tolist() == [0, 0x3F80, 0]
    assert aclnn.aclrtFree(device) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((None, 4, bytearray(4), 4, 1), "must not be null"),
        ((bytearray(4), 4, None, 4, 1), "must not be null"),
        ((bytearray(4), 3, bytearray(4), 4, 1), "cannot copy 4 bytes from 4 to 3"),
        ((bytearray(4), 9, bytearray(9), 9, 1), "cannot copy 9 bytes from 9 to 4"),
        ((bytearray(4), 4, bytearray(4), -1, 1), "cannot copy -1 bytes"),
        ((b"1234", 4, bytearray(4), 4, 1), "dst is read-only"),
        ((torch.zeros(4, 4).t(), 64, bytearray(64), 64, 1), "must be contiguous"),
        ((bytearray(64), 64, torch.zeros(16, device="meta"), 64, 1), "in host memory"),
    ],
)
def test_copies_that_cannot_be(arguments, text):
    assert aclnn.aclrtMemcpy(*arguments) == 100000
    assert text in aclnn.aclGetRecentErrMsg()


def test_devices_streams_contexts():
    assert aclnn.aclInit(None) == 0
    assert aclnn.aclrtSetDevice(0) == 0
    assert aclnn.aclrtSetDevice(1) == 100000
    assert aclnn.aclrtCreateContext(1) == (100000, None)
    status, context = aclnn.aclrtCreateContext(0)
    assert status == aclnn.aclrtSetCurrentContext(context) == 0
    assert aclnn.aclrtSetCurrentContext(None) == 100000
    status, stream = aclnn.aclrtCreateStream()
    assert status == aclnn.aclrtSynchronizeStream(stream) == aclnn.aclrtSynchronizeStream(None) == 0
    assert aclnn.aclrtDestroyStream(stream) == 0
    assert aclnn.aclrtSynchronizeStream(stream) == aclnn.aclrtDestroyStream(stream) == 100000
    assert aclnn.aclrtDestroyContext(context) == aclnn.aclrtResetDevice(0) == 0
    assert aclnn.aclrtMalloc(0) == (100000, None)
    assert aclnn.aclrtFree(None) == 100000
    assert aclnn.aclFinalize() == 0


def test_the_sample_program_prints_the_known_numbers(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    sections = {"gradX": 10, "gradPhi": 10, "gradAlpha": 3, "gradBias": 10, "gradGamma": 10}
    expected = {
        "gradX": [18.0] * 10,
        "gradPhi": [0.0] * 10,
        "gradAlpha": [0.0, 2048.0, 16384.0],
        "gradBias": [0.0] * 4 + [512.0] * 4 + [1024.0] * 2,
        "gradGamma": [0.0] * 10,
    }
    lines = []
    for name, count in sections.items():
        lines.append(f"{name} result (first 10 elements):")
        lines += [f"  [{i}] = {expected[name][i]:f}" for i in range(count)]
    assert printed == lines
