/* aclnnMhcSinkhorn: Make residual logits doubly stochastic: a softmax, then columns and rows in
 *   turn.
 *
 * x: input, [.., n, n] FLOAT, residual logits [from, to].
 * eps: float, added to each softmax entry and to each sum.
 * numIters: int64_t, normalisations of the columns.
 * output: output, [.., n, n] FLOAT, mixing weights [from, to].
 * normOut: output, optional, [2*num_iters*T*n*8] FLOAT, saved for backward: 2*num_iters matrices
 *   a token, columns padded to 8.
 * sumOut: output, optional, [2*num_iters*T*8] FLOAT, saved for backward: 2*num_iters vectors a
 *   token, padded to 8.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcSinkhorn.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_SINKHORN_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_SINKHORN_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcSinkhornGetWorkspaceSize(
    const aclTensor *x, float eps, int64_t numIters, const aclTensor *output,
    const aclTensor *normOut, const aclTensor *sumOut, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcSinkhorn(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
