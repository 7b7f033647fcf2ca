#include "call.h"

#include <cstdlib>
#include <thread>

#include "mhc_ops/mhc_ops.h"

namespace aclnn {

namespace {

// In the order of operators().
const Compute *const kComputes[] = {
    &kMhcPre,      &kMhcPreBackward,      &kMhcPost,        &kMhcPostBackward,
    &kMhcSinkhorn, &kMhcSinkhornBackward, &kMhcPreSinkhorn, &kMhcPreSinkhornBackward,
};

std::vector<bool> outputs_of(const Operator &op) {
    std::vector<bool> outputs;
    for (const TensorRow &row : op.tensors) outputs.push_back(row.output);
    return outputs;
}

std::vector<View> views_of(const Executor &executor) {
    const Operator &op = operators()[executor.op];
    std::vector<View> views;
    for (size_t i = 0; i < executor.tensors.size(); ++i)
        views.push_back(view_of(executor.tensors[i], op.tensors[i].acl));
    for (size_t i = 0; i < views.size(); ++i) {
        if (!op.tensors[i].output) continue;
        if (overlaps_itself(views[i]))
            throw Refused{std::string(op.tensors[i].acl) +
                          " must have one place in memory for each element"};
        for (size_t k = 0; k < i; ++k)
            if (op.tensors[k].output && share_bytes(views[i], views[k]))
                throw Refused{std::string(op.tensors[i].acl) + " must not share memory with " +
                              op.tensors[k].acl};
    }
    return views;
}

}  // namespace

int threads() {
    static const int count = [] {
        const char *wanted = std::getenv("OMP_NUM_THREADS");
        const int asked = wanted ? std::atoi(wanted) : 0;
        return asked > 0 ? asked : std::max(1, int(std::thread::hardware_concurrency()));
    }();
    return count;
}

void check_kernel(int status) {
    if (status == MHC_OK) return;
    if (status == MHC_NO_MEMORY) throw std::runtime_error("no memory for the kernel's workspace");
    if (status == MHC_NO_SUCH_ISA)
        throw std::runtime_error("MHC_OPS_ISA names an instruction set this machine lacks");
    throw std::runtime_error("the kernel refused its arguments");
}

aclnnStatus first_phase(int number, const char *api, std::vector<const aclTensor *> tensors,
                        std::vector<Value> attrs, uint64_t *workspace_size,
                        aclOpExecutor **executor) {
    return answered(ACLNN_ERR_INNER_NULLPTR, [&]() -> int {
        if (workspace_size) *workspace_size = 0;
        if (executor) *executor = nullptr;
        std::string why;
        const Chip *chip = current_chip(&why);
        if (!chip) return fail(ACLNN_ERR_PARAM_INVALID, std::string(api) + ": " + why);
        const Operator &op = operators()[number];
        const auto rules = op.rules.find(chip->name);
        if (rules == op.rules.end())
            return fail(ACLNN_ERR_PARAM_INVALID,
                        std::string(api) + ": not registered for " + chip->name + ".");
        std::vector<TensorPtr> found;
        Call call{
            &op,       api,       {},      attrs, workspace_size != nullptr, executor != nullptr,
            chip->aic, chip->aiv, chip->ub};
        for (size_t i = 0; i < tensors.size(); ++i) {
            found.push_back(tensors[i] ? process().tensors.find(tensors[i]) : nullptr);
            if (tensors[i] && !found.back())
                return fail(ACLNN_ERR_PARAM_INVALID, std::string(api) + ": " + op.tensors[i].acl +
                                                         " was destroyed, or is no aclTensor.");
            call.descs.push_back(found.back() ? &found.back()->desc : nullptr);
        }
        const Failure failure = first_failure(call, rules->second.checks);
        if (failure.status > 0) return fail(failure.status, failure.message);
        const bool empty = failure.status == 0;
        // A call that ends early with nothing to compute may come before its handles are looked at.
        if (!workspace_size || !executor)
            return fail(ACLNN_ERR_PARAM_NULLPTR,
                        std::string(api) + ": workspaceSize and executor must not be null.");
        const wide size = empty ? 0 : rules->second.workspace.value(call);
        auto made = std::make_shared<Executor>(
            Executor{api, number, found, attrs, uint64_t(std::min<wide>(size, INT64_MAX)), empty});
        *workspace_size = made->workspace_size;
        *executor = static_cast<aclOpExecutor *>(process().executors.add(made));
        return ACLNN_SUCCESS;
    });
}

aclnnStatus second_phase(const char *api, void *workspace, uint64_t workspace_size,
                         aclOpExecutor *executor, aclrtStream stream) {
    const auto told = [api](int code, const std::string &problem) {
        return fail(code, std::string(api) + ": " + problem + ".");
    };
    return answered(ACLNN_ERR_INNER_NULLPTR, [&]() -> int {
        if (!executor) return told(ACLNN_ERR_PARAM_NULLPTR, "executor must not be a null pointer");
        auto call = process().executors.find(executor);
        if (!call)
            return told(ACLNN_ERR_PARAM_INVALID,
                        "executor was already used, or is none; make one with the first call");
        if (call->api != api)
            return told(ACLNN_ERR_PARAM_INVALID,
                        "executor belongs to " + call->api + "; call that or make one for " + api);
        const uint64_t needed = call->workspace_size;
        if (workspace_size < needed)
            return told(ACLNN_ERR_PARAM_INVALID, "workspaceSize must be at least " +
                                                     std::to_string(needed) + " bytes, got " +
                                                     std::to_string(workspace_size));
        BlockPtr workspace_block;
        if (needed) {
            workspace_block = process().device.holding(workspace);
            const char *start = static_cast<char *>(workspace);
            if (!workspace_block ||
                uint64_t(workspace_block->data + workspace_block->size - start) < needed)
                return told(
                    ACLNN_ERR_PARAM_INVALID,
                    "workspace must have " + std::to_string(needed) + " bytes of aclrtMalloc");
        }
        if (!process().executors.take(executor))
            return told(ACLNN_ERR_PARAM_INVALID, "executor was already used by another thread");
        if (call->empty) return ACLNN_SUCCESS;
        const auto target = process().stream(stream);
        if (!target) return told(ACLNN_ERR_RUNTIME_ERROR, "failed while running: no such stream");
        const Compute &compute = *kComputes[call->op];
        std::vector<View> views;
        try {
            views = views_of(*call);
            compute.refuse(views, call->attrs);
        } catch (const Refused &refused) {
            return told(ACLNN_ERR_RUNTIME_ERROR, "failed while running: " + refused.message);
        }
        const auto outputs = outputs_of(operators()[call->op]);
        target->submit([=, &compute]() -> std::string {
            try {
                Operands operands(views, outputs);
                compute.run(operands, call->attrs);
                operands.finish();
            } catch (const std::exception &error) {
                return call->api + ": failed while running: " + error.what() + ".";
            }
            return "";
        });
        return ACLNN_SUCCESS;
    });
}

}  // namespace aclnn
