// aclnnMhcSinkhorn: residual logits to mixing weights.
//
// All logits are equal and eps is 1/4: an entry is 1/4 after the softmax, 1/2 with eps, then 2/9
// after the columns, 8/41 after the rows and 32/169 = 0.189349 after the columns again. normOut
// holds the four matrices, 1/4 without eps first, in rows of 8 of which N are used; sumOut the sums
// that divided them, from the second on: 9/4, 41/36, 169/164.
#include "aclnnop/aclnn_mhc_sinkhorn.h"
#include "program.h"

int main() {
    const int64_t T = 2, N = 4, numIters = 2;
    Program program;
    aclTensor *x = program.fp32({T, N, N}, all(3)), *output = program.fp32({T, N, N}, all(0));
    aclTensor *normOut = program.fp32({2 * numIters * T * N * 8}, all(0));
    aclTensor *sumOut = program.fp32({2 * numIters * T * 8}, all(0));
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    check(aclnnMhcSinkhornGetWorkspaceSize(x, 0.25f, numIters, output, normOut, sumOut,
                                           &workspaceSize, &executor),
          "aclnnMhcSinkhornGetWorkspaceSize");
    program.run("aclnnMhcSinkhorn", aclnnMhcSinkhorn, workspaceSize, executor);
    program.print("output", output);
    program.print("normOut", normOut);
    program.print("sumOut", sumOut);
    return 0;
}
