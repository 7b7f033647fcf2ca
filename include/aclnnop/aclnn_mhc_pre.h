/* aclnnMhcPre: Mix n residual streams into one sublayer input and compute the gates and residual
 *   logits.
 *
 * x: input, [.., n, D] BFLOAT16 or FLOAT16, the n residual streams.
 * phi: input, [f, n*D] FLOAT, projection to the mixing logits.
 * alpha: input, [A] FLOAT, gains: pre, post, res; no res if A = 2.
 * bias: input, [f] FLOAT, offsets of the mixing logits.
 * gammaOptional: input, optional, [n, D] FLOAT, scale of x; null is 1.
 * normEps: double, added to the mean square of x.
 * hcEps: double, added to h_pre, and to h_post if A = 2.
 * hIn: output, [.., D] as x, input of the sublayer.
 * hPost: output, [.., n] FLOAT, gate of the sublayer's output.
 * hRes: output, optional, [.., n, n] FLOAT, logits; unused if A = 2.
 * invRmsOptional: output, optional, [..] FLOAT, saved for backward.
 * hMixOptional: output, optional, [.., f] FLOAT, saved for backward.
 * hPreOptional: output, optional, [.., n] FLOAT, saved for backward.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcPre.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_PRE_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPreGetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    const aclTensor *gammaOptional, double normEps, double hcEps, const aclTensor *hIn,
    const aclTensor *hPost, const aclTensor *hRes, const aclTensor *invRmsOptional,
    const aclTensor *hMixOptional, const aclTensor *hPreOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPre(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
