/* aclnnMhcPreSinkhorn: MhcPre without gamma, then MhcSinkhorn on its residual logits.
 *
 * x: input, [.., n, D] BFLOAT16 or FLOAT16, the n residual streams.
 * phi: input, [n*n+2*n, n*D] FLOAT, projection to the mixing logits.
 * alpha: input, [3] FLOAT, gains: pre, post, res.
 * bias: input, [n*n+2*n] FLOAT, offsets of the mixing logits.
 * hcMult: int64_t, number of streams.
 * numIters: int64_t, normalisations of the columns.
 * hcEps: double, added to h_pre, each softmax entry and each sum.
 * normEps: double, added to the mean square of x.
 * needBackward: bool, whether the saved tensors are wanted.
 * hin: output, [.., D] BFLOAT16 or FLOAT16, input of the sublayer.
 * hPost: output, [.., n] FLOAT, gate of the sublayer's output.
 * hRes: output, [.., n*n] FLOAT, mixing weights, from before to.
 * hPre: output, optional, [.., n] FLOAT, saved for backward.
 * hcBeforeNorm: output, optional, [.., n*n+2*n] FLOAT, saved for backward: x @ phi^T, not
 *   normalised.
 * invRms: output, optional, [.., 1] FLOAT, saved for backward.
 * sumOut: output, optional, [2*num_iters, .., n] FLOAT, saved for backward.
 * normOut: output, optional, [2*num_iters, .., n, n] FLOAT, saved for backward.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcPreSinkhorn.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_SINKHORN_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_SINKHORN_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreSinkhornGetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    int64_t hcMult, int64_t numIters, double hcEps, double normEps, bool needBackward,
    const aclTensor *hin, const aclTensor *hPost, const aclTensor *hRes, const aclTensor *hPre,
    const aclTensor *hcBeforeNorm, const aclTensor *invRms, const aclTensor *sumOut,
    const aclTensor *normOut, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreSinkhorn(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
