// aclnnMhcPost: mix the streams and add a sublayer's output.
//
// x is 1, 2, 3, 4 by stream. hRes[from, to] is 1 for `to` 0 and 0 for the others, hOut 2 and hPost
// 0.5: out is 1 + 2 + 3 + 4 + 0.5 * 2 = 11 in stream 0 and 1 in the others.
#include "aclnnop/aclnn_mhc_post.h"
#include "program.h"

int main() {
    const int64_t T = 2, N = 4, D = 4;
    Program program;
    aclTensor *x = program.bf16({T, N, D}, [](int64_t i) { return float(i / D % N + 1); });
    aclTensor *hRes = program.fp32({T, N, N}, [](int64_t i) { return i % N == 0 ? 1.0f : 0.0f; });
    aclTensor *hOut = program.bf16({T, D}, all(2)), *hPost = program.fp32({T, N}, all(0.5));
    aclTensor *out = program.bf16({T, N, D}, all(0));
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnMhcPostGetWorkspaceSize(x, hRes, hOut, hPost, out, &workspaceSize, &executor),
          "aclnnMhcPostGetWorkspaceSize");
    program.run("aclnnMhcPost", aclnnMhcPost, workspaceSize, executor);
    program.print("out", out);
    return 0;
}
