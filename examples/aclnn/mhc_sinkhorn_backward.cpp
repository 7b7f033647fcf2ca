// aclnnMhcSinkhornBackward: gradient of the logits from what the forward saved.
//
// The saved weights of one iteration are all 1/4, with sums of 1, as for equal logits and eps 0.
// From a gradient of 1 in entry (0, 0) and 0 elsewhere, the mean over the column is taken, then
// that over the row, and a quarter remains: 9/64 there, -3/64 in the rest of its row and column,
// else 1/64.
#include "aclnnop/aclnn_mhc_sinkhorn_backward.h"
#include "program.h"

int main() {
    const int64_t T = 1, N = 4, numIters = 1;
    Program program;
    aclTensor *gradOutput = program.fp32({T, N, N}, [](int64_t i) { return i == 0 ? 1.0f : 0.0f; });
    aclTensor *normOut = program.fp32({2 * numIters * T * N * 8}, all(0.25));
    aclTensor *sumOut = program.fp32({2 * numIters * T * 8}, all(1));
    aclTensor *out = program.fp32({T, N, N}, all(0));
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnMhcSinkhornBackwardGetWorkspaceSize(gradOutput, normOut, sumOut, out, &workspaceSize,
                                                   &executor),
          "aclnnMhcSinkhornBackwardGetWorkspaceSize");
    program.run("aclnnMhcSinkhornBackward", aclnnMhcSinkhornBackward, workspaceSize, executor);
    program.print("out", out);
    return 0;
}
