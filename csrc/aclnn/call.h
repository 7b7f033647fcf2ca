// The two phases of every aclnn call: all validation first, then one execution on a stream.
#pragma once

#include <vector>

#include "objects.h"
#include "views.h"

namespace aclnn {

// Validates and makes the executor. op: place in operators(); tensors and attrs in the order of its
// table.
aclnnStatus first_phase(int op, const char *api, std::vector<const aclTensor *> tensors,
                        std::vector<Value> attrs, uint64_t *workspace_size,
                        aclOpExecutor **executor);

// 161001 for a null executor; 161002 for one of another call or already used, and for a workspace
// that is null or too short; 361001 for what cannot run: no such stream, no memory behind a tensor,
// sizes that the operator cannot compute. What fails on the stream is told by its synchronisation.
aclnnStatus second_phase(const char *api, void *workspace, uint64_t workspace_size,
                         aclOpExecutor *executor, aclrtStream stream);

// Of one operator: `refuse` throws Refused for what it cannot compute, before anything runs; `run`
// is its math, on the stream's thread.
struct Compute {
    void (*refuse)(const std::vector<View> &, const std::vector<Value> &);
    void (*run)(Operands &, const std::vector<Value> &);
};
extern const Compute kMhcPre, kMhcPreBackward, kMhcPost, kMhcPostBackward, kMhcSinkhorn,
    kMhcSinkhornBackward, kMhcPreSinkhorn, kMhcPreSinkhornBackward;

// Throws for a status of the kernels other than good.
void check_kernel(int status);
int threads();

}  // namespace aclnn
