"""The Ascend surface, spelled as published: tensors, two-phase calls, status codes, chip rules.

    status, size, executor = aclnnMhcPreBackwardGetWorkspaceSize(x, phi, ..., gradGamma)
    status = aclnnMhcPreBackward(workspace, size, executor, stream)

Everything that a published call reports comes as a status code, and `aclGetRecentErrMsg()` names
the check that failed. `infer_shape` and `tiling` answer as the host code does. The rules stand in
one table per operator, `mhc_ops.aclnn.spec`.
"""

from .codes import ACL_BF16 as ACL_BF16
from .codes import ACL_BOOL as ACL_BOOL
from .codes import ACL_COMPLEX64 as ACL_COMPLEX64
from .codes import ACL_COMPLEX128 as ACL_COMPLEX128
from .codes import ACL_DOUBLE as ACL_DOUBLE
from .codes import ACL_DT_UNDEFINED as ACL_DT_UNDEFINED
from .codes import ACL_ERROR_BAD_ALLOC as ACL_ERROR_BAD_ALLOC
from .codes import ACL_ERROR_INVALID_PARAM as ACL_ERROR_INVALID_PARAM
from .codes import ACL_FLOAT as ACL_FLOAT
from .codes import ACL_FLOAT16 as ACL_FLOAT16
from .codes import ACL_FORMAT_FRACTAL_NZ as ACL_FORMAT_FRACTAL_NZ
from .codes import ACL_FORMAT_FRACTAL_Z as ACL_FORMAT_FRACTAL_Z
from .codes import ACL_FORMAT_FRACTAL_Z_3D as ACL_FORMAT_FRACTAL_Z_3D
from .codes import ACL_FORMAT_HWCN as ACL_FORMAT_HWCN
from .codes import ACL_FORMAT_NC as ACL_FORMAT_NC
from .codes import ACL_FORMAT_NC1HWC0 as ACL_FORMAT_NC1HWC0
from .codes import ACL_FORMAT_NC1HWC0_C04 as ACL_FORMAT_NC1HWC0_C04
from .codes import ACL_FORMAT_NCDHW as ACL_FORMAT_NCDHW
from .codes import ACL_FORMAT_NCHW as ACL_FORMAT_NCHW
from .codes import ACL_FORMAT_NCL as ACL_FORMAT_NCL
from .codes import ACL_FORMAT_ND as ACL_FORMAT_ND
from .codes import ACL_FORMAT_NDC1HWC0 as ACL_FORMAT_NDC1HWC0
from .codes import ACL_FORMAT_NDHWC as ACL_FORMAT_NDHWC
from .codes import ACL_FORMAT_NHWC as ACL_FORMAT_NHWC
from .codes import ACL_FORMAT_UNDEFINED as ACL_FORMAT_UNDEFINED
from .codes import ACL_INT8 as ACL_INT8
from .codes import ACL_INT16 as ACL_INT16
from .codes import ACL_INT32 as ACL_INT32
from .codes import ACL_INT64 as ACL_INT64
from .codes import ACL_MEM_MALLOC_HUGE_FIRST as ACL_MEM_MALLOC_HUGE_FIRST
from .codes import ACL_MEM_MALLOC_HUGE_ONLY as ACL_MEM_MALLOC_HUGE_ONLY
from .codes import ACL_MEM_MALLOC_NORMAL_ONLY as ACL_MEM_MALLOC_NORMAL_ONLY
from .codes import ACL_MEMCPY_DEVICE_TO_DEVICE as ACL_MEMCPY_DEVICE_TO_DEVICE
from .codes import ACL_MEMCPY_DEVICE_TO_HOST as ACL_MEMCPY_DEVICE_TO_HOST
from .codes import ACL_MEMCPY_HOST_TO_DEVICE as ACL_MEMCPY_HOST_TO_DEVICE
from .codes import ACL_MEMCPY_HOST_TO_HOST as ACL_MEMCPY_HOST_TO_HOST
from .codes import ACL_STRING as ACL_STRING
from .codes import ACL_SUCCESS as ACL_SUCCESS
from .codes import ACL_UINT8 as ACL_UINT8
from .codes import ACL_UINT16 as ACL_UINT16
from .codes import ACL_UINT32 as ACL_UINT32
from .codes import ACL_UINT64 as ACL_UINT64
from .codes import ACLNN_ERR_INNER_NULLPTR as ACLNN_ERR_INNER_NULLPTR
from .codes import ACLNN_ERR_INNER_TILING_ERROR as ACLNN_ERR_INNER_TILING_ERROR
from .codes import ACLNN_ERR_PARAM_INVALID as ACLNN_ERR_PARAM_INVALID
from .codes import ACLNN_ERR_PARAM_NULLPTR as ACLNN_ERR_PARAM_NULLPTR
from .codes import ACLNN_ERR_RUNTIME_ERROR as ACLNN_ERR_RUNTIME_ERROR
from .codes import ACLNN_SUCCESS as ACLNN_SUCCESS
from .codes import GRAPH_FAILED as GRAPH_FAILED
from .codes import GRAPH_SUCCESS as GRAPH_SUCCESS
from .errors import aclGetRecentErrMsg as aclGetRecentErrMsg
from .executor import OUT as OUT
from .executor import aclOpExecutor as aclOpExecutor
from .host import InferredShapes as InferredShapes
from .host import TilingResult as TilingResult
from .host import infer_shape as infer_shape
from .host import tiling as tiling
from .mhc_post import aclnnMhcPost as aclnnMhcPost
from .mhc_post import aclnnMhcPostGetWorkspaceSize as aclnnMhcPostGetWorkspaceSize
from .mhc_post_backward import aclnnMhcPostBackward as aclnnMhcPostBackward
from .mhc_post_backward import (
    aclnnMhcPostBackwardGetWorkspaceSize as aclnnMhcPostBackwardGetWorkspaceSize,
)
from .mhc_pre import aclnnMhcPre as aclnnMhcPre
from .mhc_pre import aclnnMhcPreGetWorkspaceSize as aclnnMhcPreGetWorkspaceSize
from .mhc_pre import aclnnMhcPreV2 as aclnnMhcPreV2
from .mhc_pre import aclnnMhcPreV2GetWorkspaceSize as aclnnMhcPreV2GetWorkspaceSize
from .mhc_pre_backward import aclnnMhcPreBackward as aclnnMhcPreBackward
from .mhc_pre_backward import (
    aclnnMhcPreBackwardGetWorkspaceSize as aclnnMhcPreBackwardGetWorkspaceSize,
)
from .mhc_pre_backward import aclnnMhcPreBackwardV2 as aclnnMhcPreBackwardV2
from .mhc_pre_backward import (
    aclnnMhcPreBackwardV2GetWorkspaceSize as aclnnMhcPreBackwardV2GetWorkspaceSize,
)
from .mhc_pre_sinkhorn import aclnnMhcPreSinkhorn as aclnnMhcPreSinkhorn
from .mhc_pre_sinkhorn import (
    aclnnMhcPreSinkhornGetWorkspaceSize as aclnnMhcPreSinkhornGetWorkspaceSize,
)
from .mhc_pre_sinkhorn_backward import aclnnMhcPreSinkhornBackward as aclnnMhcPreSinkhornBackward
from .mhc_pre_sinkhorn_backward import (
    aclnnMhcPreSinkhornBackwardGetWorkspaceSize as aclnnMhcPreSinkhornBackwardGetWorkspaceSize,
)
from .mhc_sinkhorn import aclnnMhcSinkhorn as aclnnMhcSinkhorn
from .mhc_sinkhorn import aclnnMhcSinkhornGetWorkspaceSize as aclnnMhcSinkhornGetWorkspaceSize
from .mhc_sinkhorn_backward import aclnnMhcSinkhornBackward as aclnnMhcSinkhornBackward
from .mhc_sinkhorn_backward import (
    aclnnMhcSinkhornBackwardGetWorkspaceSize as aclnnMhcSinkhornBackwardGetWorkspaceSize,
)
from .platform import Platform as Platform
from .platform import soc as soc
from .runtime import aclFinalize as aclFinalize
from .runtime import aclInit as aclInit
from .runtime import aclrtContext as aclrtContext
from .runtime import aclrtCreateContext as aclrtCreateContext
from .runtime import aclrtCreateStream as aclrtCreateStream
from .runtime import aclrtDestroyContext as aclrtDestroyContext
from .runtime import aclrtDestroyStream as aclrtDestroyStream
from .runtime import aclrtFree as aclrtFree
from .runtime import aclrtMalloc as aclrtMalloc
from .runtime import aclrtMemcpy as aclrtMemcpy
from .runtime import aclrtResetDevice as aclrtResetDevice
from .runtime import aclrtSetCurrentContext as aclrtSetCurrentContext
from .runtime import aclrtSetDevice as aclrtSetDevice
from .runtime import aclrtStream as aclrtStream
from .runtime import aclrtSynchronizeStream as aclrtSynchronizeStream
from .tensor import aclCreateTensor as aclCreateTensor
from .tensor import aclDestroyTensor as aclDestroyTensor
from .tensor import aclTensor as aclTensor
from .tensor import from_torch as from_torch
