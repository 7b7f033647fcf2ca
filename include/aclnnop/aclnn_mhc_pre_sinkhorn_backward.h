/* aclnnMhcPreSinkhornBackward: Gradients of MhcPreSinkhorn for x, phi, alpha and bias, from what
 *   the forward saved.
 *
 * gradHin: input, [.., D] BFLOAT16 or FLOAT16, gradient of hin.
 * gradHPost: input, [.., n] FLOAT, gradient of hPost.
 * gradHRes: input, [.., n, n] FLOAT, gradient of hRes, may be flat.
 * x: input, [.., n, D] BFLOAT16 or FLOAT16, the n residual streams.
 * phi: input, [f, n*D] FLOAT, projection to the mixing logits.
 * alpha: input, [3] FLOAT, gains: pre, post, res.
 * bias: input, [f] FLOAT, offsets of the mixing logits.
 * hPre: input, [.., n] FLOAT, saved by the forward.
 * hcBeforeNorm: input, [.., f] FLOAT, saved by the forward.
 * invRms: input, [.., 1] FLOAT, saved by the forward.
 * sumOut: input, [k, .., n] FLOAT, saved by the forward.
 * normOut: input, [k, .., n, n] FLOAT, saved by the forward.
 * hcEps: double, the forward's hcEps.
 * gradX: output, [.., n, D] as gradHin, gradient of x.
 * gradPhi: output, [f, n*D] FLOAT, gradient of phi.
 * gradAlpha: output, [3] FLOAT, gradient of alpha.
 * gradBias: output, [f] FLOAT, gradient of bias.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcPreSinkhornBackward.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_SINKHORN_BACKWARD_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_SINKHORN_BACKWARD_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreSinkhornBackwardGetWorkspaceSize(
    const aclTensor *gradHin, const aclTensor *gradHPost, const aclTensor *gradHRes,
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    const aclTensor *hPre, const aclTensor *hcBeforeNorm, const aclTensor *invRms,
    const aclTensor *sumOut, const aclTensor *normOut, double hcEps, const aclTensor *gradX,
    const aclTensor *gradPhi, const aclTensor *gradAlpha, const aclTensor *gradBias,
    uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreSinkhornBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
