/* aclnnMhcPost: Mix the n residual streams and add a sublayer's output to each of them.
 *
 * x: input, [.., n, D] BFLOAT16 or FLOAT16, the n residual streams.
 * hRes: input, optional, [.., n, n] FLOAT, mixing weights [from, to]; null, on ascend950 alone,
 *   is the identity.
 * hOut: input, [.., D] as x, output of the sublayer.
 * hPost: input, [.., n] FLOAT, gate of the sublayer's output.
 * out: output, [.., n, D] as x, the streams after the sublayer.
 *
 * [..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and
 * makes the executor, which is good for one second call; that one runs on the stream. Chips,
 * codes and the order of checks: mhc-ops describe MhcPost.
 *
 * Written by csrc/aclnn/generate.py from the operator tables; change those instead.
 */
#ifndef MHC_OPS_ACLNNOP_ACLNN_MHC_POST_H
#define MHC_OPS_ACLNNOP_ACLNN_MHC_POST_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPostGetWorkspaceSize(
    const aclTensor *x, const aclTensor *hRes, const aclTensor *hOut, const aclTensor *hPost,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);

ACL_FUNC_VISIBILITY aclnnStatus aclnnMhcPost(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif
#endif
