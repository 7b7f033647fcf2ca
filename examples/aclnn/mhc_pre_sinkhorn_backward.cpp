// aclnnMhcPreSinkhornBackward: gradients of MhcPreSinkhorn.
//
// The saved tensors are those of mhc_pre_sinkhorn.cpp for one token. The gradient of hPost is 1:
// hPost (1 - hPost / 2) = 3/8 for each of its 4 logits, in gradBias, and 4 * 3/8 = 3/2 in
// gradAlpha. A gradient of 1 for the first mixing weight gives 9/64 there, -3/64 in the rest of its
// row and column and 1/64 elsewhere, as in mhc_sinkhorn_backward.cpp. Those 16 sum to 0. gradPhi is
// ln 3 times gradBias, and gradX 0: the logits do not depend on the scale of x.
#include <cmath>

#include "aclnnop/aclnn_mhc_pre_sinkhorn_backward.h"
#include "program.h"

int main() {
    const int64_t B = 1, S = 1, N = 4, D = 128, F = N * N + 2 * N, steps = 2 * 20;
    Program program;
    aclTensor *gradHin = program.bf16({B, S, D}, all(0));
    aclTensor *gradHPost = program.fp32({B, S, N}, all(1));
    aclTensor *gradHRes =
        program.fp32({B, S, N, N}, [](int64_t i) { return i == 0 ? 1.0f : 0.0f; });
    aclTensor *x = program.bf16({B, S, N, D}, all(2));
    aclTensor *phi = program.fp32({F, N * D}, all(1.0f / (4 * D)));
    aclTensor *alpha = program.fp32({3}, all(std::log(3.0f))), *bias = program.fp32({F}, all(0));
    aclTensor *hPre = program.fp32({B, S, N}, all(0.75));
    aclTensor *hcBeforeNorm = program.fp32({B, S, F}, all(2));
    aclTensor *invRms = program.fp32({B, S, 1}, all(0.5));
    aclTensor *sumOut = program.fp32({steps, B, S, N}, all(1));
    aclTensor *normOut = program.fp32({steps, B, S, N, N}, all(0.25));
    aclTensor *gradX = program.bf16({B, S, N, D}, all(1));
    aclTensor *gradPhi = program.fp32({F, N * D}, all(0));
    aclTensor *gradAlpha = program.fp32({3}, all(0)), *gradBias = program.fp32({F}, all(0));
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnMhcPreSinkhornBackwardGetWorkspaceSize(
              gradHin, gradHPost, gradHRes, x, phi, alpha, bias, hPre, hcBeforeNorm, invRms, sumOut,
              normOut, 0, gradX, gradPhi, gradAlpha, gradBias, &workspaceSize, &executor),
          "aclnnMhcPreSinkhornBackwardGetWorkspaceSize");
    program.run("aclnnMhcPreSinkhornBackward", aclnnMhcPreSinkhornBackward, workspaceSize,
                executor);
    program.print("gradX", gradX);
    program.print("gradPhi", gradPhi);
    program.print("gradAlpha", gradAlpha);
    program.print("gradBias", gradBias);
    return 0;
}
