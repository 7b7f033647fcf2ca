// The aclnn library from several threads, and its start and end. Built and run by run.sh, under the
// sanitizers too: what leaks, races or touches freed memory shows there.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_mhc_post.h"
#include "aclnnop/aclnn_mhc_pre.h"
#include "aclnnop/aclnn_mhc_sinkhorn.h"
#include "mhc_ops/mhc_ops.h"

namespace {

std::atomic<int> passed{0}, failed{0};

void check(bool good, const char *what) {
    if (good)
        ++passed;
    else if (failed++ < 20)
        std::printf("FAILED %s: %s\n", what, aclGetRecentErrMsg());
}

void good(int status, const char *what) { check(status == ACL_SUCCESS, what); }

using Shape = std::vector<int64_t>;

uint16_t bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return uint16_t(bits >> 16);
}

// A tensor full of one value, with its memory.
struct Made {
    aclTensor *tensor = nullptr;
    void *memory = nullptr;
    size_t bytes = 0;
    // first: the first dimension's stride, 0 for a dense tensor.
    Made(Shape shape, float value, bool half, int64_t first = 0) {
        size_t count = 1;
        for (int64_t size : shape) count *= size_t(size);
        bytes = count * (half ? 2 : 4);
        std::vector<char> host(bytes);
        const uint16_t narrow = bf16(value);
        for (size_t i = 0; i < count; ++i)
            std::memcpy(&host[i * (half ? 2 : 4)], half ? (void *)&narrow : (void *)&value,
                        half ? 2 : 4);
        good(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        good(aclrtMemcpy(memory, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE),
             "to device");
        std::vector<int64_t> strides(shape.size(), 1);
        for (size_t d = shape.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * shape[d];
        if (first) strides[0] = first;
        tensor = aclCreateTensor(shape.data(), shape.size(), half ? ACL_BF16 : ACL_FLOAT,
                                 strides.data(), 0, ACL_FORMAT_ND, shape.data(), shape.size(),
                                 memory);
        check(tensor, "aclCreateTensor");
    }
    Made(const Made &) = delete;
    ~Made() {
        good(aclDestroyTensor(tensor), "aclDestroyTensor");
        good(aclrtFree(memory), "aclrtFree");
    }
    bool holds(float value, float tolerance) const {
        std::vector<char> host(bytes);
        good(aclrtMemcpy(host.data(), bytes, memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST), "to host");
        aclDataType dtype;
        good(aclGetDataType(tensor, &dtype), "aclGetDataType");
        const size_t size = aclDataTypeSize(dtype);
        for (size_t i = 0; i < bytes; i += size) {
            uint32_t bits = 0;
            std::memcpy(&bits, &host[i], size);
            if (size == 2) bits <<= 16;
            float got;
            std::memcpy(&got, &bits, sizeof got);
            if (!(got >= value - tolerance && got <= value + tolerance)) return false;
        }
        return true;
    }
};

// The second phase; its workspace may go at once, while the work still waits.
template <class Second>
void launch(int first, Second second, uint64_t size, aclOpExecutor *executor, aclrtStream stream) {
    good(first, "first phase");
    void *workspace = nullptr;
    if (size) good(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_NORMAL_ONLY), "workspace");
    good(second(workspace, size, executor, stream), "second phase");
    if (size) good(aclrtFree(workspace), "free the workspace");
    check(second(workspace, size, executor, stream) == ACLNN_ERR_PARAM_INVALID, "used twice");
}

void post(float value, aclrtStream stream) {
    const int64_t T = 3, N = 4, D = 32;
    Made x({T, N, D}, value, true), mix({T, N, N}, 0.25f, false), h_out({T, D}, value, true);
    Made gate({T, N}, 1, false), out({T, N, D}, -1, true);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int first = aclnnMhcPostGetWorkspaceSize(x.tensor, mix.tensor, h_out.tensor, gate.tensor,
                                                   out.tensor, &size, &executor);
    launch(first, aclnnMhcPost, size, executor, stream);
    good(aclrtSynchronizeStream(stream), "synchronise");
    check(out.holds(2 * value, 0), "post");
}

void pre(float value, aclrtStream stream) {
    const int64_t T = 5, N = 4, D = 64, F = 24;
    Made x({T, N, D}, value, true), phi({F, N * D}, 0, false), alpha({3}, 1, false);
    Made bias({F}, 0, false), h_in({T, D}, -1, true), h_post({T, N}, -1, false);
    Made h_res({T, N, N}, -1, false);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int first = aclnnMhcPreGetWorkspaceSize(
        x.tensor, phi.tensor, alpha.tensor, bias.tensor, nullptr, 0, 0, h_in.tensor, h_post.tensor,
        h_res.tensor, nullptr, nullptr, nullptr, &size, &executor);
    launch(first, aclnnMhcPre, size, executor, stream);
    good(aclrtSynchronizeStream(stream), "synchronise");
    // Logits of 0: gates of 1/2 and 1, so h_in is 4 * value / 2.
    check(h_in.holds(2 * value, value / 64), "h_in");
    check(h_post.holds(1, 1e-6f) && h_res.holds(0, 0), "gates");
}

void sinkhorn(float value, aclrtStream stream) {
    const int64_t T = 7, N = 4, iters = 5;
    Made x({T, N, N}, value, false), y({T, N, N}, -1, false);
    Made norm({2 * iters * T * N * 8}, -1, false), sum({2 * iters * T * 8}, -1, false);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int first = aclnnMhcSinkhornGetWorkspaceSize(x.tensor, 0, iters, y.tensor, norm.tensor,
                                                       sum.tensor, &size, &executor);
    launch(first, aclnnMhcSinkhorn, size, executor, stream);
    good(aclrtSynchronizeStream(stream), "synchronise");
    check(y.holds(0.25f, 1e-6f), "sinkhorn");
}

// 1000 calls of 4 threads on 4 streams, every thread on every stream.
void interleave(const std::vector<aclrtStream> &streams) {
    const std::function<void(float, aclrtStream)> calls[] = {post, pre, sinkhorn};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 250; ++i)
                calls[i % 3](float(1 + (i + 7 * t) % 31), streams[(i + t) % 4]);
        });
    for (auto &thread : threads) thread.join();
}

// Each step doubles what the step before wrote: right in order alone.
void order(aclrtStream stream) {
    const int64_t T = 64, N = 4, D = 64;
    Made x({T, N, D}, 1, true), mix({T, N, N}, 0.5f, false), h_out({T, D}, 0, true);
    Made gate({T, N}, 1, false), out({T, N, D}, 0, true), end({T, N, D}, 0, true);
    for (int step = 0; step < 7; ++step) {
        uint64_t size = 0;
        aclOpExecutor *executor = nullptr;
        const int first = aclnnMhcPostGetWorkspaceSize(x.tensor, mix.tensor, h_out.tensor,
                                                       gate.tensor, out.tensor, &size, &executor);
        launch(first, aclnnMhcPost, size, executor, stream);
        good(aclrtMemcpyAsync(x.memory, x.bytes, out.memory, out.bytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                              stream),
             "copy");
    }
    good(aclrtMemcpyAsync(end.memory, end.bytes, x.memory, x.bytes, ACL_MEMCPY_DEFAULT, stream),
         "last copy");
    good(aclrtMemsetAsync(x.memory, x.bytes, 0, x.bytes, stream), "memset");
    good(aclrtSynchronizeStream(stream), "synchronise");
    check(end.holds(128, 0), "order");
    check(x.holds(0, 0), "memset in order");
}

// The stride of a single token is never taken.
void stride_of_one(aclrtStream stream) {
    const int64_t N = 4, D = 32;
    Made x({1, N, D}, 3, true, INT64_MAX), mix({1, N, N}, 0.25f, false, INT64_MAX);
    Made h_out({1, D}, 1, true), gate({1, N}, 2, false), out({1, N, D}, 0, true, INT64_MAX);
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const int first = aclnnMhcPostGetWorkspaceSize(x.tensor, mix.tensor, h_out.tensor, gate.tensor,
                                                   out.tensor, &size, &executor);
    launch(first, aclnnMhcPost, size, executor, stream);
    good(aclrtSynchronizeStream(stream), "synchronise");
    check(out.holds(5, 0), "the stride of one");
}

// Everything goes while the work still waits.
void release_early(aclrtStream stream) {
    for (int i = 0; i < 20; ++i) {
        const int64_t T = 64, N = 4, D = 128;
        Made x({T, N, D}, 1, true), h_out({T, D}, 0, true), gate({T, N}, 1, false);
        Made out({T, N, D}, 0, true);
        uint64_t size = 0;
        aclOpExecutor *executor = nullptr;
        const int first = aclnnMhcPostGetWorkspaceSize(x.tensor, nullptr, h_out.tensor, gate.tensor,
                                                       out.tensor, &size, &executor);
        launch(first, aclnnMhcPost, size, executor, stream);
    }
    good(aclrtSynchronizeStream(stream), "synchronise");
}

void start_and_end() {
    check(aclFinalize() == ACL_ERROR_UNINITIALIZE, "finalize before init");
    good(aclInit(nullptr), "aclInit");
    check(aclInit(nullptr) == ACL_ERROR_REPEAT_INITIALIZE, "aclInit twice");
    check(aclrtSetDevice(1) == ACL_ERROR_INVALID_PARAM, "device 1");
    good(aclrtSetDevice(0), "device 0");
    aclrtContext context = nullptr, now = nullptr;
    check(aclrtGetCurrentContext(&now) == ACL_ERROR_INVALID_PARAM, "no context");
    good(aclrtCreateContext(&context, 0), "context");
    good(aclrtGetCurrentContext(&now), "current context");
    check(now == context, "the context made last");
    std::vector<aclrtStream> streams(4);
    for (auto &stream : streams) good(aclrtCreateStream(&stream), "stream");
    {
        Made left({4}, 1, false);
        uint64_t size = 0;
        aclOpExecutor *unused = nullptr;
        Made x({2, 4, 4}, 0, false), y({2, 4, 4}, 0, false);
        good(aclnnMhcSinkhornGetWorkspaceSize(x.tensor, 0, 5, y.tensor, nullptr, nullptr, &size,
                                              &unused),
             "an executor that never runs");
        check(aclFinalize() == ACL_ERROR_FAILURE, "finalize with everything alive");
        const std::string told = aclGetRecentErrMsg();
        check(told.find("4 streams") != std::string::npos, "streams told");
        check(told.find("3 tensors") != std::string::npos, "tensors told");
        check(left.holds(1, 0), "nothing was given up");
    }
    interleave(streams);
    order(streams[0]);
    order(nullptr);
    stride_of_one(streams[2]);
    release_early(streams[1]);
    good(aclrtSynchronizeDevice(), "synchronise the device");
    for (auto stream : streams) good(aclrtDestroyStream(stream), "destroy");
    check(aclrtDestroyStream(streams[0]) == ACL_ERROR_INVALID_PARAM, "destroy twice");
    good(aclrtDestroyContext(context), "context");
    check(aclrtDestroyContext(context) == ACL_ERROR_INVALID_PARAM, "context twice");
    check(aclrtSetCurrentContext(context) == ACL_ERROR_INVALID_PARAM, "destroyed context");
    float one = 1;
    aclScalar *scalar = aclCreateScalar(&one, ACL_FLOAT);
    check(scalar && aclFinalize() == ACL_ERROR_FAILURE, "finalize with a scalar");
    good(aclDestroyScalar(scalar), "scalar");
    check(aclDestroyScalar(scalar) == ACLNN_ERR_PARAM_INVALID, "scalar twice");
    void *host = nullptr;
    good(aclrtMallocHost(&host, 16), "host memory");
    check(aclrtFree(host) == ACL_ERROR_INVALID_PARAM, "host memory is no device memory");
    good(aclrtFreeHost(host), "host memory");
    good(aclrtResetDevice(0), "reset");
    good(aclFinalize(), "aclFinalize");
    check(aclFinalize() == ACL_ERROR_UNINITIALIZE, "aclFinalize twice");
    good(aclInit(nullptr), "again");
    good(aclFinalize(), "again");
}

}  // namespace

int main() {
    if (!mhc_ops_isa()) return 2;
    start_and_end();
    std::printf("aclnn, %s: %d passed, %d failed\n", mhc_ops_isa(), passed.load(), failed.load());
    return failed != 0;
}
