"""The Ascend sample program of aclnnMhcPreBackward, on any machine.

The steps and the printed lines are those of the C++ program: initialise, copy host data to device
memory, wrap it in aclTensors, call in two phases, copy back, print, release. Its 16-bit host data
are the integer 1, that is the bit pattern 1: a subnormal BF16 number, 9.2e-41.

    python examples/aclnn_mhc_pre_backward.py
"""

import math
import sys

import torch

from mhc_ops.aclnn import (
    ACL_BF16,
    ACL_FLOAT,
    ACL_FORMAT_ND,
    ACL_MEM_MALLOC_HUGE_FIRST,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_SUCCESS,
    aclCreateTensor,
    aclDestroyTensor,
    aclFinalize,
    aclGetRecentErrMsg,
    aclInit,
    aclnnMhcPreBackward,
    aclnnMhcPreBackwardGetWorkspaceSize,
    aclrtCreateContext,
    aclrtCreateStream,
    aclrtDestroyContext,
    aclrtDestroyStream,
    aclrtFree,
    aclrtMalloc,
    aclrtMemcpy,
    aclrtResetDevice,
    aclrtSetCurrentContext,
    aclrtSetDevice,
    aclrtSynchronizeStream,
)

T, N, D = 1024, 4, 512
F = 2 * N + N * N

# name: shape, dtype, and the number that fills the host data
INPUTS = {
    "x": ([T, N, D], ACL_BF16, 1),
    "phi": ([F, N * D], ACL_FLOAT, 1.0),
    "alpha": ([3], ACL_FLOAT, 1.0),
    "gradHIn": ([T, D], ACL_BF16, 1),
    "gradHPost": ([T, N], ACL_FLOAT, 1.0),
    "gradHRes": ([T, N, N], ACL_FLOAT, 1.0),
    "invRms": ([T], ACL_FLOAT, 1.0),
    "hMix": ([T, F], ACL_FLOAT, 1.0),
    "hPre": ([T, N], ACL_FLOAT, 1.0),
    "hPost": ([T, N], ACL_FLOAT, 1.0),
    "gamma": ([N, D], ACL_FLOAT, 1.0),
    "gradXPostOptional": ([T, N, D], ACL_BF16, 0),
}
OUTPUTS = {
    "gradX": ([T, N, D], ACL_BF16, 0),
    "gradPhi": ([F, N * D], ACL_FLOAT, 0.0),
    "gradAlpha": ([3], ACL_FLOAT, 0.0),
    "gradBias": ([F], ACL_FLOAT, 0.0),
    "gradGamma": ([N, D], ACL_FLOAT, 0.0),
}
HOST_TYPES = {ACL_BF16: torch.int16, ACL_FLOAT: torch.float32}  # as `short` and `float` in C++


def check(ret, what):
    """Stop the program with the status of the call that failed."""
    if ret != ACL_SUCCESS:
        sys.exit(f"{what} failed. ERROR: {ret}\n{aclGetRecentErrMsg()}")


def init(device_id):
    check(aclInit(None), "aclInit")
    check(aclrtSetDevice(device_id), "aclrtSetDevice")
    ret, context = aclrtCreateContext(device_id)
    check(ret, "aclrtCreateContext")
    check(aclrtSetCurrentContext(context), "aclrtSetCurrentContext")
    ret, stream = aclrtCreateStream()
    check(ret, "aclrtCreateStream")
    return context, stream


def create_acl_tensor(shape, data_type, value):
    """Device memory filled with the host data, and a contiguous aclTensor on it."""
    host_data = torch.full((math.prod(shape),), value, dtype=HOST_TYPES[data_type])
    size = host_data.numel() * host_data.element_size()
    ret, device_addr = aclrtMalloc(size, ACL_MEM_MALLOC_HUGE_FIRST)
    check(ret, "aclrtMalloc")
    check(aclrtMemcpy(device_addr, size, host_data, size, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy")
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = shape[i + 1] * strides[i + 1]
    tensor = aclCreateTensor(shape, data_type, strides, 0, ACL_FORMAT_ND, shape, device_addr)
    return tensor, device_addr


def print_out_result(name, shape, data_type, device_addr):
    """Copy a result back and print its first ten elements."""
    host_type = torch.bfloat16 if data_type == ACL_BF16 else torch.float32
    result = torch.zeros(math.prod(shape), dtype=host_type)
    size = result.numel() * result.element_size()
    check(
        aclrtMemcpy(result, size, device_addr, size, ACL_MEMCPY_DEVICE_TO_HOST),
        "copy result from device to host",
    )
    print(f"{name} result (first 10 elements):")
    for i, value in enumerate(result[:10].tolist()):
        print(f"  [{i}] = {value:f}")


def main():
    # 1. Device, context, stream.
    device_id = 0
    context, stream = init(device_id)

    # 2. Inputs and outputs.
    made = {name: create_acl_tensor(*spec) for name, spec in {**INPUTS, **OUTPUTS}.items()}
    tensor = {name: pair[0] for name, pair in made.items()}
    hc_eps = 1e-6

    # 3. First phase: validation and workspace size.
    ret, workspace_size, executor = aclnnMhcPreBackwardGetWorkspaceSize(
        *(tensor[name] for name in INPUTS), hc_eps, *(tensor[name] for name in OUTPUTS)
    )
    check(ret, "aclnnMhcPreBackwardGetWorkspaceSize")
    workspace_addr = None
    if workspace_size > 0:
        ret, workspace_addr = aclrtMalloc(workspace_size, ACL_MEM_MALLOC_HUGE_FIRST)
        check(ret, "allocate workspace")

    # Second phase: execution.
    ret = aclnnMhcPreBackward(workspace_addr, workspace_size, executor, stream)
    check(ret, "aclnnMhcPreBackward")

    # 4. Wait for the end.
    check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream")

    # 5. Results.
    for name, (shape, data_type, _) in OUTPUTS.items():
        print_out_result(name, shape, data_type, made[name][1])

    # 6. Release tensors, memory, stream, context, device.
    for handle, device_addr in made.values():
        aclDestroyTensor(handle)
        aclrtFree(device_addr)
    if workspace_size > 0:
        aclrtFree(workspace_addr)
    aclrtDestroyStream(stream)
    aclrtDestroyContext(context)
    aclrtResetDevice(device_id)
    aclFinalize()


if __name__ == "__main__":
    main()
