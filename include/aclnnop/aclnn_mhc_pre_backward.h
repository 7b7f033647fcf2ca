/* aclnnMhcPreBackward: Gradients of MhcPre for x, phi, alpha, bias and gamma, from what the
 *   forward saved.
 *
 * x: input, [.., n, D] BFLOAT16 or FLOAT16, the n residual streams.
 * phi: input, [f, n*D] FLOAT, projection to the mixing logits.
 * alpha: input, [3] FLOAT, gains: pre, post, res.
 * gradHIn: input, [.., D] as x, gradient of hIn.
 * gradHPost: input, [.., n] FLOAT, gradient of hPost.
 * gradHRes: input, [.., n, n] FLOAT, gradient of hRes.
 * invRms: input, [..] FLOAT, saved by the forward.
 * hMix: input, [.., f] FLOAT, saved by the forward.
 * hPre: input, [.., n] FLOAT, saved by the forward.
 * hPost: input, [.., n] FLOAT, output of the forward.
 * gammaOptional: input, optional, [n, D] FLOAT, scale of x; null is 1.
 * gradXPostOptional: input, optional, [.., n, D] as x, MhcPost's gradient of x, added to gradX;
 *   null is 0.
 * hcEps: float, the forward's hcEps.
 * gradX: output, [.., n, D] as x, gradient of x.
 * gradPhi: output, [f, n*D] FLOAT, gradient of phi.
 * gradAlpha: output, [3] FLOAT, gradient of alpha.
 * gradBias: output, [f] FLOAT, gradient of bias.
 * gradGamma: output, optional, [n, D] FLOAT, gradient of gamma; zeros if given without gamma.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcPreBackward.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_BACKWARD_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_BACKWARD_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreBackwardGetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *gradHIn,
    const aclTensor *gradHPost, const aclTensor *gradHRes, const aclTensor *invRms,
    const aclTensor *hMix, const aclTensor *hPre, const aclTensor *hPost,
    const aclTensor *gammaOptional, const aclTensor *gradXPostOptional, float hcEps,
    const aclTensor *gradX, const aclTensor *gradPhi, const aclTensor *gradAlpha,
    const aclTensor *gradBias, const aclTensor *gradGamma, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
