/* aclnnMhcSinkhornBackward: Gradient of MhcSinkhorn for its logits, from the matrices and sums
 *   that it saved.
 *
 * gradOutput: input, [.., n, n] FLOAT, gradient of output.
 * normOut: input, [2*num_iters*T*n*8] FLOAT, saved by MhcSinkhorn.
 * sumOut: input, [2*num_iters*T*8] FLOAT, saved by MhcSinkhorn.
 * out: output, [.., n, n] FLOAT, gradient of the logits.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcSinkhornBackward.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_SINKHORN_BACKWARD_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_SINKHORN_BACKWARD_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcSinkhornBackwardGetWorkspaceSize(
    const aclTensor *gradOutput, const aclTensor *normOut, const aclTensor *sumOut,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcSinkhornBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
