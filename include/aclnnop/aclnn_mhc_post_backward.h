/* aclnnMhcPostBackward: Gradients of MhcPost for x, hRes, hOut and hPost.
 *
 * gradOutput: input, [.., n, D] BFLOAT16 or FLOAT16, gradient of MhcPost's out.
 * x: input, [.., n, D] BFLOAT16 or FLOAT16, the n residual streams.
 * hRes: input, optional, [.., n, n] FLOAT, mixing weights [from, to]; null, on ascend950 alone,
 *   is the identity.
 * hOut: input, [.., D] BFLOAT16 or FLOAT16, output of the sublayer.
 * hPost: input, [.., n] FLOAT, gate of the sublayer's output.
 * gradX: output, [.., n, D] as x, gradient of x.
 * gradHres: output, [.., n, n] as hRes, gradient of hRes, computed without hRes too.
 * gradHout: output, [.., D] as hOut, gradient of hOut.
 * gradHpost: output, [.., n] as hPost, gradient of hPost.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcPostBackward.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_POST_BACKWARD_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_POST_BACKWARD_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPostBackwardGetWorkspaceSize(
    const aclTensor *gradOutput, const aclTensor *x, const aclTensor *hRes, const aclTensor *hOut,
    const aclTensor *hPost, const aclTensor *gradX, const aclTensor *gradHres,
    const aclTensor *gradHout, const aclTensor *gradHpost, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPostBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
