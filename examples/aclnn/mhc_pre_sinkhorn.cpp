// aclnnMhcPreSinkhorn: gates, sublayer input and mixing weights in one call.
//
// x is 2, so invRms is 1/2; phi is 1 / (4 * D), so hcBeforeNorm is 2 and every normalised logit 1;
// alpha is ln 3: hPre is sigmoid(ln 3) = 3/4, hPost 3/2, hin 4 * 3/4 * 2 = 6. The residual logits
// are equal, so the weights are 1/4; of the saved iterates normOut is 1/4 and sumOut 1, but 4, the
// sum of four exponentials, in its first vector.
#include <cmath>

#include "aclnnop/aclnn_mhc_pre_sinkhorn.h"
#include "program.h"

int main() {
    const int64_t B = 1, S = 2, N = 4, D = 128, F = N * N + 2 * N, numIters = 20;
    Program program;
    aclTensor *x = program.bf16({B, S, N, D}, all(2));
    aclTensor *phi = program.fp32({F, N * D}, all(1.0f / (4 * D)));
    aclTensor *alpha = program.fp32({3}, all(std::log(3.0f))), *bias = program.fp32({F}, all(0));
    aclTensor *hin = program.bf16({B, S, D}, all(0)), *hPost = program.fp32({B, S, N}, all(0));
    aclTensor *hRes = program.fp32({B, S, N * N}, all(0)), *hPre = program.fp32({B, S, N}, all(0));
    aclTensor *hcBeforeNorm = program.fp32({B, S, F}, all(0));
    aclTensor *invRms = program.fp32({B, S, 1}, all(0));
    aclTensor *sumOut = program.fp32({2 * numIters, B, S, N}, all(0));
    aclTensor *normOut = program.fp32({2 * numIters, B, S, N, N}, all(0));
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnMhcPreSinkhornGetWorkspaceSize(x, phi, alpha, bias, N, numIters, 0, 0, true, hin,
                                              hPost, hRes, hPre, hcBeforeNorm, invRms, sumOut,
                                              normOut, &workspaceSize, &executor),
          "aclnnMhcPreSinkhornGetWorkspaceSize");
    program.run("aclnnMhcPreSinkhorn", aclnnMhcPreSinkhorn, workspaceSize, executor);
    program.print("hin", hin);
    program.print("hPost", hPost);
    program.print("hRes", hRes);
    program.print("hPre", hPre);
    program.print("hcBeforeNorm", hcBeforeNorm);
    program.print("invRms", invRms);
    program.print("sumOut", sumOut);
    program.print("normOut", normOut);
    return 0;
}
