"""One aclnn call on host tensors as a whole program; aclnn_mhc_pre_backward.py has every step."""

import torch
from aclnn_mhc_pre_backward import check, init, print_out_result

from mhc_ops import aclnn

DATA_TYPES = {torch.bfloat16: aclnn.ACL_BF16, torch.float32: aclnn.ACL_FLOAT}


def run(api, parameters, outputs):
    """Start, copy to device memory, call in two phases, print the outputs, release.

    Args:
        api: name of the second call.
        parameters: those of the first call by name, in the published order: host tensors, numbers,
            None for a null pointer.
        outputs: names of the tensors that the call writes.
    Returns:
        The outputs by name, as host tensors.
    """
    context, stream = init(0)
    made = {n: to_device(p) for n, p in parameters.items() if isinstance(p, torch.Tensor)}
    arguments = [made[name][0] if name in made else p for name, p in parameters.items()]

    ret, workspace_size, executor = getattr(aclnn, f"{api}GetWorkspaceSize")(*arguments)
    check(ret, f"{api}GetWorkspaceSize")
    workspace_addr = None
    if workspace_size > 0:
        ret, workspace_addr = aclnn.aclrtMalloc(workspace_size)
        check(ret, "allocate workspace")
    check(getattr(aclnn, api)(workspace_addr, workspace_size, executor, stream), api)
    check(aclnn.aclrtSynchronizeStream(stream), "aclrtSynchronizeStream")

    results = {}
    for name in outputs:
        host = parameters[name]
        address = made[name][1]
        print_out_result(name, host.shape, DATA_TYPES[host.dtype], address)
        results[name] = address.view(host.dtype).reshape(host.shape).clone()
    for handle, address in made.values():
        aclnn.aclDestroyTensor(handle)
        aclnn.aclrtFree(address)
    if workspace_addr is not None:
        aclnn.aclrtFree(workspace_addr)
    aclnn.aclrtDestroyStream(stream)
    aclnn.aclrtDestroyContext(context)
    aclnn.aclrtResetDevice(0)
    aclnn.aclFinalize()
    return results


def to_device(host):
    """A contiguous aclTensor with the host tensor's values, and its device memory."""
    shape, size = list(host.shape), host.numel() * host.element_size()
    ret, address = aclnn.aclrtMalloc(size)
    check(ret, "aclrtMalloc")
    copied = aclnn.aclrtMemcpy(address, size, host, size, aclnn.ACL_MEMCPY_HOST_TO_DEVICE)
    check(copied, "aclrtMemcpy")
    data_type, form = DATA_TYPES[host.dtype], aclnn.ACL_FORMAT_ND
    return aclnn.aclCreateTensor(shape, data_type, None, 0, form, shape, address), address


def filled(value, *shape, dtype=torch.float32):
    """A host tensor of one number."""
    return torch.full(shape, value, dtype=dtype)
