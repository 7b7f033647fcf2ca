// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
#include "call.h"

#include "aclnnop/aclnn_mhc_pre.h"
#include "aclnnop/aclnn_mhc_pre_v2.h"
#include "aclnnop/aclnn_mhc_pre_backward.h"
#include "aclnnop/aclnn_mhc_pre_backward_v2.h"
#include "aclnnop/aclnn_mhc_post.h"
#include "aclnnop/aclnn_mhc_post_backward.h"
#include "aclnnop/aclnn_mhc_sinkhorn.h"
#include "aclnnop/aclnn_mhc_sinkhorn_backward.h"
#include "aclnnop/aclnn_mhc_pre_sinkhorn.h"
#include "aclnnop/aclnn_mhc_pre_sinkhorn_backward.h"

aclnnStatus aclnnMhcPreGetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    const aclTensor *gammaOptional, double normEps, double hcEps, const aclTensor *hIn,
    const aclTensor *hPost, const aclTensor *hRes, const aclTensor *invRmsOptional,
    const aclTensor *hMixOptional, const aclTensor *hPreOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    return aclnn::first_phase(0, "aclnnMhcPre",
                              {x, phi, alpha, bias, gammaOptional, hIn, hPost, hRes,
                               invRmsOptional, hMixOptional, hPreOptional},
                              {normEps, hcEps, int64_t(0), int64_t(0)},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPre(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPre", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPreV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    const aclTensor *gammaOptional, double normEps, double hcEps, int64_t opImplMode,
    const aclTensor *hIn, const aclTensor *hPost, const aclTensor *hRes,
    const aclTensor *invRmsOptional, const aclTensor *hMixOptional, const aclTensor *hPreOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor) {
    return aclnn::first_phase(0, "aclnnMhcPreV2",
                              {x, phi, alpha, bias, gammaOptional, hIn, hPost, hRes,
                               invRmsOptional, hMixOptional, hPreOptional},
                              {normEps, hcEps, opImplMode, int64_t(0)},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPreV2(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPreV2", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPreBackwardGetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *gradHIn,
    const aclTensor *gradHPost, const aclTensor *gradHRes, const aclTensor *invRms,
    const aclTensor *hMix, const aclTensor *hPre, const aclTensor *hPost,
    const aclTensor *gammaOptional, const aclTensor *gradXPostOptional, float hcEps,
    const aclTensor *gradX, const aclTensor *gradPhi, const aclTensor *gradAlpha,
    const aclTensor *gradBias, const aclTensor *gradGamma, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    return aclnn::first_phase(1, "aclnnMhcPreBackward",
                              {x, phi, alpha, gradHIn, gradHPost, gradHRes, invRms, hMix, hPre,
                               hPost, gammaOptional, gradXPostOptional, gradX, gradPhi, gradAlpha,
                               gradBias, gradGamma},
                              {hcEps, int64_t(0)},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPreBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPreBackward", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPreBackwardV2GetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *gradHIn,
    const aclTensor *gradHPost, const aclTensor *gradHRes, const aclTensor *invRms,
    const aclTensor *hMix, const aclTensor *hPre, const aclTensor *hPost,
    const aclTensor *gammaOptional, const aclTensor *gradXPostOptional, float hcEps,
    int64_t opImplMode, const aclTensor *gradX, const aclTensor *gradPhi,
    const aclTensor *gradAlpha, const aclTensor *gradBias, const aclTensor *gradGamma,
    uint64_t *workspaceSize, aclOpExecutor **executor) {
    return aclnn::first_phase(1, "aclnnMhcPreBackwardV2",
                              {x, phi, alpha, gradHIn, gradHPost, gradHRes, invRms, hMix, hPre,
                               hPost, gammaOptional, gradXPostOptional, gradX, gradPhi, gradAlpha,
                               gradBias, gradGamma},
                              {hcEps, opImplMode},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPreBackwardV2(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPreBackwardV2", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPostGetWorkspaceSize(
    const aclTensor *x, const aclTensor *hRes, const aclTensor *hOut, const aclTensor *hPost,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor) {
    return aclnn::first_phase(2, "aclnnMhcPost",
                              {x, hRes, hOut, hPost, out},
                              {},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPost(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPost", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPostBackwardGetWorkspaceSize(
    const aclTensor *gradOutput, const aclTensor *x, const aclTensor *hRes, const aclTensor *hOut,
    const aclTensor *hPost, const aclTensor *gradX, const aclTensor *gradHres,
    const aclTensor *gradHout, const aclTensor *gradHpost, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    return aclnn::first_phase(3, "aclnnMhcPostBackward",
                              {gradOutput, x, hRes, hOut, hPost, gradX, gradHres, gradHout,
                               gradHpost},
                              {},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPostBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPostBackward", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcSinkhornGetWorkspaceSize(
    const aclTensor *x, float eps, int64_t numIters, const aclTensor *output,
    const aclTensor *normOut, const aclTensor *sumOut, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    return aclnn::first_phase(4, "aclnnMhcSinkhorn",
                              {x, output, normOut, sumOut},
                              {eps, numIters, int64_t(0)},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcSinkhorn(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcSinkhorn", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcSinkhornBackwardGetWorkspaceSize(
    const aclTensor *gradOutput, const aclTensor *normOut, const aclTensor *sumOut,
    const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor) {
    return aclnn::first_phase(5, "aclnnMhcSinkhornBackward",
                              {gradOutput, normOut, sumOut, out},
                              {},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcSinkhornBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcSinkhornBackward", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPreSinkhornGetWorkspaceSize(
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    int64_t hcMult, int64_t numIters, double hcEps, double normEps, bool needBackward,
    const aclTensor *hin, const aclTensor *hPost, const aclTensor *hRes, const aclTensor *hPre,
    const aclTensor *hcBeforeNorm, const aclTensor *invRms, const aclTensor *sumOut,
    const aclTensor *normOut, uint64_t *workspaceSize, aclOpExecutor **executor) {
    return aclnn::first_phase(6, "aclnnMhcPreSinkhorn",
                              {x, phi, alpha, bias, hin, hPost, hRes, hPre, hcBeforeNorm, invRms,
                               sumOut, normOut},
                              {hcMult, numIters, hcEps, normEps, needBackward},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPreSinkhorn(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPreSinkhorn", workspace, workspaceSize,
                               executor, stream);
}

aclnnStatus aclnnMhcPreSinkhornBackwardGetWorkspaceSize(
    const aclTensor *gradHin, const aclTensor *gradHPost, const aclTensor *gradHRes,
    const aclTensor *x, const aclTensor *phi, const aclTensor *alpha, const aclTensor *bias,
    const aclTensor *hPre, const aclTensor *hcBeforeNorm, const aclTensor *invRms,
    const aclTensor *sumOut, const aclTensor *normOut, double hcEps, const aclTensor *gradX,
    const aclTensor *gradPhi, const aclTensor *gradAlpha, const aclTensor *gradBias,
    uint64_t *workspaceSize, aclOpExecutor **executor) {
    return aclnn::first_phase(7, "aclnnMhcPreSinkhornBackward",
                              {gradHin, gradHPost, gradHRes, x, phi, alpha, bias, hPre,
                               hcBeforeNorm, invRms, sumOut, normOut, gradX, gradPhi, gradAlpha,
                               gradBias},
                              {hcEps},
                              workspaceSize, executor);
}

aclnnStatus aclnnMhcPreSinkhornBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    return aclnn::second_phase("aclnnMhcPreSinkhornBackward", workspace, workspaceSize,
                               executor, stream);
}
