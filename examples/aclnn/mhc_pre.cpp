// aclnnMhcPre and aclnnMhcPreV2: gates, sublayer input and residual logits.
//
// x is 2, so invRms is 1/2; phi is 1 / (4 * D), so hMix is 2 and every normalised logit 1; alpha is
// ln 3 for the gates and 5 for the residual part: hPre is sigmoid(ln 3) = 3/4, hPost 3/2, hIn
// 4 * 3/4 * 2 = 6, hRes 5 + 1 with a bias of 1 there. HF32 rounds no operand here: V2 gives the
// same.
#include <cmath>

#include "aclnnop/aclnn_mhc_pre.h"
#include "aclnnop/aclnn_mhc_pre_v2.h"
#include "program.h"

int main() {
    const int64_t T = 2, N = 4, D = 16, F = 2 * N + N * N;
    Program program;
    aclTensor *x = program.bf16({T, N, D}, all(2));
    aclTensor *phi = program.fp32({F, N * D}, all(1.0f / (4 * D)));
    aclTensor *alpha = program.fp32({3}, [](int64_t i) { return i < 2 ? std::log(3.0f) : 5.0f; });
    aclTensor *bias = program.fp32({F}, [](int64_t k) { return k < 2 * N ? 0.0f : 1.0f; });
    for (int64_t mode : {0, 1}) {
        aclTensor *hIn = program.bf16({T, D}, all(0)), *hPost = program.fp32({T, N}, all(0));
        aclTensor *hRes = program.fp32({T, N, N}, all(0)), *invRms = program.fp32({T}, all(0));
        aclTensor *hMix = program.fp32({T, F}, all(0)), *hPre = program.fp32({T, N}, all(0));
        uint64_t workspaceSize = 0;
        aclOpExecutor *executor = nullptr;
        if (mode == 0) {
            check(aclnnMhcPreGetWorkspaceSize(x, phi, alpha, bias, nullptr, 0, 0, hIn, hPost, hRes,
                                              invRms, hMix, hPre, &workspaceSize, &executor),
                  "aclnnMhcPreGetWorkspaceSize");
            program.run("aclnnMhcPre", aclnnMhcPre, workspaceSize, executor);
        } else {
            check(
                aclnnMhcPreV2GetWorkspaceSize(x, phi, alpha, bias, nullptr, 0, 0, mode, hIn, hPost,
                                              hRes, invRms, hMix, hPre, &workspaceSize, &executor),
                "aclnnMhcPreV2GetWorkspaceSize");
            program.run("aclnnMhcPreV2", aclnnMhcPreV2, workspaceSize, executor);
        }
        program.print("hIn", hIn);
        program.print("hPost", hPost);
        program.print("hRes", hRes);
        program.print("invRms", invRms);
        program.print("hMix", hMix);
        program.print("hPre", hPre);
    }
    return 0;
}
