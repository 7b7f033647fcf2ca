// aclnnMhcPostBackward: gradients of MhcPost.
//
// gradOutput is 1, 2, 3, 4 by stream, D is 16, everything else constant: gradX is 0.25 * 10 = 2.5;
// gradHres[from, to] is 16 * 2 * (to + 1), so 32, 64, 96, 128; gradHout is 0.5 * 10 = 5; gradHpost
// is 16 * 3 * (stream + 1), so 48, 96, 144, 192.
#include "aclnnop/aclnn_mhc_post_backward.h"
#include "program.h"

int main() {
    const int64_t T = 2, N = 4, D = 16;
    Program program;
    aclTensor *gradOutput = program.bf16({T, N, D}, [](int64_t i) { return float(i / D % N + 1); });
    aclTensor *x = program.bf16({T, N, D}, all(2)), *hRes = program.fp32({T, N, N}, all(0.25));
    aclTensor *hOut = program.bf16({T, D}, all(3)), *hPost = program.fp32({T, N}, all(0.5));
    aclTensor *gradX = program.bf16({T, N, D}, all(0));
    aclTensor *gradHres = program.fp32({T, N, N}, all(0));
    aclTensor *gradHout = program.bf16({T, D}, all(0)), *gradHpost = program.fp32({T, N}, all(0));
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnMhcPostBackwardGetWorkspaceSize(gradOutput, x, hRes, hOut, hPost, gradX, gradHres,
                                               gradHout, gradHpost, &workspaceSize, &executor),
          "aclnnMhcPostBackwardGetWorkspaceSize");
    program.run("aclnnMhcPostBackward", aclnnMhcPostBackward, workspaceSize, executor);
    program.print("gradX", gradX);
    program.print("gradHres", gradHres);
    program.print("gradHout", gradHout);
    program.print("gradHpost", gradHpost);
    return 0;
}
