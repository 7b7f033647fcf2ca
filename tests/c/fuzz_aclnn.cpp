// Calls of the aclnn library with drawn arguments: fuzz_aclnn SECONDS [SEED]. Nothing but a crash,
// a hang or a sanitizer's complaint is wrong. Every call starts from a good one and changes some of
// it: shapes, types, formats, strides, offsets, nulls, destroyed and foreign handles, freed memory.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_mhc_post.h"
#include "aclnnop/aclnn_mhc_post_backward.h"
#include "aclnnop/aclnn_mhc_pre_backward_v2.h"
#include "aclnnop/aclnn_mhc_pre_sinkhorn.h"
#include "aclnnop/aclnn_mhc_pre_sinkhorn_backward.h"
#include "aclnnop/aclnn_mhc_pre_v2.h"
#include "aclnnop/aclnn_mhc_sinkhorn.h"
#include "aclnnop/aclnn_mhc_sinkhorn_backward.h"
#include "mhc_ops/aclnn.h"

namespace {

using Shape = std::vector<int64_t>;

std::mt19937_64 draw;
int64_t below(int64_t limit) { return int64_t(draw() % uint64_t(limit)); }
bool once_in(int64_t n) { return below(n) == 0; }

std::vector<void *> handles;  // of every kind, live and dead
std::vector<void *> memories;
std::vector<aclTensor *> tensors;
std::vector<aclrtStream> streams;
std::map<int, long> codes;

void *any_handle() {
    if (handles.empty() || once_in(4)) return reinterpret_cast<void *>(draw() >> below(64));
    return handles[below(int64_t(handles.size()))];
}

int64_t odd_number() {
    const int64_t numbers[] = {0, 1, -1, 2, 3, 7, 8, 16, 100, 128, 1 << 20, INT64_MAX, INT64_MIN};
    return once_in(3) ? int64_t(draw()) >> below(64) : numbers[below(13)];
}

void note(int code) { ++codes[code]; }

// Memory for so many bytes, sometimes fewer, freed, null or inside another.
void *memory_of(size_t bytes) {
    if (once_in(60)) return any_handle();
    if (!memories.empty() && once_in(40)) return memories[below(int64_t(memories.size()))];
    if (once_in(60)) bytes = bytes / 2 + 1;
    void *memory = nullptr;
    note(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    if (!memory) return nullptr;
    memories.push_back(memory);
    handles.push_back(memory);
    note(aclrtMemset(memory, bytes, once_in(2) ? 0x3c : int(below(256)), bytes));
    if (once_in(60)) note(aclrtFree(memory));
    return memory;
}

const aclTensor *tensor(Shape shape, aclDataType dtype) {
    if (once_in(120)) return nullptr;
    if (once_in(120)) return static_cast<aclTensor *>(any_handle());
    if (once_in(40) && !shape.empty()) shape[below(int64_t(shape.size()))] = odd_number();
    if (once_in(80)) shape.insert(shape.begin() + below(int64_t(shape.size()) + 1), odd_number());
    if (once_in(80) && !shape.empty()) shape.pop_back();
    if (once_in(60)) dtype = aclDataType(below(30) - 1);
    const aclFormat format = once_in(80) ? aclFormat(below(50) - 1) : ACL_FORMAT_ND;
    const int64_t stretched = once_in(8) ? 2 : 1;
    Shape strides(shape.size(), 1);
    __int128 count = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        strides[i] = int64_t(count) * stretched;
        count *= shape[i] < 0 ? 1 : shape[i];
        if (count > (1 << 24)) count = 1 << 24;
    }
    int64_t offset = once_in(10) ? below(5) : 0;
    if (once_in(80) && !strides.empty()) strides[below(int64_t(strides.size()))] = odd_number();
    if (once_in(120)) offset = odd_number();
    const size_t item = dtype == ACL_FLOAT ? 4 : 2;
    const size_t bytes =
        (size_t(count) * stretched + (offset > 0 && offset < 5 ? offset : 0)) * item;
    aclTensor *made = aclCreateTensor(
        shape.data(), shape.size(), dtype, once_in(4) && stretched == 1 ? nullptr : strides.data(),
        offset, format, shape.data(), shape.size(), memory_of(bytes ? bytes : 1));
    if (!made) return nullptr;
    tensors.push_back(made);
    handles.push_back(made);
    if (once_in(150)) note(aclDestroyTensor(made));
    return made;
}

const aclTensor *maybe(bool given, Shape shape, aclDataType dtype) {
    return given ? tensor(std::move(shape), dtype) : nullptr;
}

struct Phases {
    int first;
    decltype(&aclnnMhcPost) second;
};

Shape with(Shape lead, std::initializer_list<int64_t> more) {
    lead.insert(lead.end(), more);
    return lead;
}

double some_eps() {
    const double values[] = {1e-6, 0, 0.25, -1, 1, 1e300, __builtin_nan(""), __builtin_inf()};
    return once_in(8) ? values[below(8)] : 1e-6;
}

Phases first_phase(uint64_t *size, aclOpExecutor **executor) {
    const int64_t ns[] = {4, 4, 4, 6, 8, 1, 2, 3, 5};
    const int64_t n = ns[below(9)], D = 16 * (1 + below(16)), T = 1 + below(5);
    const Shape lead = once_in(2) ? Shape{T} : Shape{1 + below(3), T};
    const aclDataType half = once_in(2) ? ACL_BF16 : ACL_FLOAT16, full = ACL_FLOAT;
    int64_t f = n * n + 2 * n, tokens = 1, iters = 1 + below(4), factorial = 1;
    for (int64_t each : lead) tokens *= each;
    for (int64_t k = 2; k <= n; ++k) factorial *= k;
    if (once_in(6) && n < 5) f = factorial + 2 * n;
    if (once_in(10)) f = 2 * n;
    const int64_t mode = once_in(20) ? odd_number() : below(2);
    const bool saved = once_in(2), gamma = once_in(2);
    const Shape x = with(lead, {n, D}), h = with(lead, {D}), gate = with(lead, {n});
    const Shape res =
        with(lead, f == factorial + 2 * n && once_in(2) ? std::initializer_list<int64_t>{factorial}
                                                        : std::initializer_list<int64_t>{n, n});
    switch (below(8)) {
        case 0:
            return {
                aclnnMhcPreV2GetWorkspaceSize(
                    tensor(x, half), tensor({f, n * D}, full), tensor({f == 2 * n ? 2 : 3}, full),
                    tensor({f}, full), maybe(gamma, {n, D}, full), some_eps(), some_eps(), mode,
                    tensor(h, half), tensor(gate, full), maybe(f != 2 * n || once_in(2), res, full),
                    maybe(saved, lead, full), maybe(saved, with(lead, {f}), full),
                    maybe(saved, gate, full), size, executor),
                aclnnMhcPreV2};
        case 1:
            return {
                aclnnMhcPreBackwardV2GetWorkspaceSize(
                    tensor(x, half), tensor({f, n * D}, full), tensor({3}, full), tensor(h, half),
                    tensor(gate, full), tensor(res, full), tensor(lead, full),
                    tensor(with(lead, {f}), full), tensor(gate, full), tensor(gate, full),
                    maybe(gamma, {n, D}, full), maybe(saved, x, half), float(some_eps()), mode,
                    tensor(x, half), tensor({f, n * D}, full), tensor({3}, full), tensor({f}, full),
                    maybe(gamma || once_in(2), {n, D}, full), size, executor),
                aclnnMhcPreBackwardV2};
        case 2:
            return {aclnnMhcPostGetWorkspaceSize(
                        tensor(x, half), maybe(!once_in(4), with(lead, {n, n}), full),
                        tensor(h, half), tensor(gate, full), tensor(x, half), size, executor),
                    aclnnMhcPost};
        case 3:
            return {aclnnMhcPostBackwardGetWorkspaceSize(
                        tensor(x, half), tensor(x, half),
                        maybe(!once_in(4), with(lead, {n, n}), full), tensor(h, half),
                        tensor(gate, full), tensor(x, half), tensor(with(lead, {n, n}), full),
                        tensor(h, half), tensor(gate, full), size, executor),
                    aclnnMhcPostBackward};
        case 4:
            if (once_in(20)) iters = odd_number();
            return {aclnnMhcSinkhornGetWorkspaceSize(
                        tensor(with(lead, {n, n}), full), float(some_eps()), iters,
                        tensor(with(lead, {n, n}), full),
                        maybe(saved, {2 * (iters & 127) * tokens * n * 8}, full),
                        maybe(saved, {2 * (iters & 127) * tokens * 8}, full), size, executor),
                    aclnnMhcSinkhorn};
        case 5:
            return {
                aclnnMhcSinkhornBackwardGetWorkspaceSize(
                    tensor(with(lead, {n, n}), full), tensor({2 * iters * tokens * n * 8}, full),
                    tensor({2 * iters * tokens * 8}, full), tensor(with(lead, {n, n}), full), size,
                    executor),
                aclnnMhcSinkhornBackward};
        case 6: {
            Shape steps = lead;
            steps.insert(steps.begin(), 40);
            return {aclnnMhcPreSinkhornGetWorkspaceSize(
                        tensor(x, half), tensor({n * n + 2 * n, n * D}, full), tensor({3}, full),
                        tensor({n * n + 2 * n}, full), once_in(20) ? odd_number() : n,
                        once_in(20) ? odd_number() : 20, some_eps(), some_eps(), saved,
                        tensor(h, once_in(2) ? half : ACL_BF16), tensor(gate, full),
                        tensor(with(lead, {n * n}), full), maybe(saved, gate, full),
                        maybe(saved, with(lead, {n * n + 2 * n}), full),
                        maybe(saved, with(lead, {1}), full), maybe(saved, with(steps, {n}), full),
                        maybe(saved, with(steps, {n, n}), full), size, executor),
                    aclnnMhcPreSinkhorn};
        }
        default: {
            const int64_t wide = 128 * (1 + below(2));
            Shape steps = lead;
            steps.insert(steps.begin(), 2 * iters - (once_in(10) ? 1 : 0));
            const aclDataType grad = once_in(4) ? ACL_BF16 : half;
            return {aclnnMhcPreSinkhornBackwardGetWorkspaceSize(
                        tensor(with(lead, {wide}), grad), tensor(gate, full),
                        tensor(with(lead, {n * n}), full), tensor(with(lead, {n, wide}), half),
                        tensor({f, n * wide}, full), tensor({3}, full), tensor({f}, full),
                        tensor(gate, full), tensor(with(lead, {f}), full),
                        tensor(with(lead, {1}), full), tensor(with(steps, {n}), full),
                        tensor(with(steps, {n, n}), full), some_eps(),
                        tensor(with(lead, {n, wide}), grad), tensor({f, n * wide}, full),
                        tensor({3}, full), tensor({f}, full), size, executor),
                    aclnnMhcPreSinkhornBackward};
        }
    }
}

aclrtStream some_stream() {
    if (once_in(60)) return any_handle();
    return once_in(4) ? nullptr : streams[below(int64_t(streams.size()))];
}

void one_call() {
    const char *const socs[] = {"ascend950", "ascend950", "ascend910b", "ascend910_93", "other"};
    note(mhc_aclnn_set_soc(socs[below(5)]));
    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    const Phases call =
        first_phase(once_in(100) ? nullptr : &size, once_in(100) ? nullptr : &executor);
    note(call.first);
    if (executor) handles.push_back(executor);
    if (once_in(50)) executor = static_cast<aclOpExecutor *>(any_handle());
    void *workspace = nullptr;
    if (size && !once_in(50))
        aclrtMalloc(&workspace, once_in(50) ? 1 : size, ACL_MEM_MALLOC_HUGE_FIRST);
    const auto second = once_in(50) ? aclnnMhcPost : call.second;
    note(second(workspace, once_in(50) ? size / 2 : size, executor, some_stream()));
    if (once_in(30)) note(second(workspace, size, executor, some_stream()));
    if (workspace) aclrtFree(workspace);
    if (once_in(3)) note(aclrtSynchronizeStream(some_stream()));
    if (once_in(100)) note(aclDestroyTensor(static_cast<aclTensor *>(any_handle())));
    if (once_in(100)) note(aclrtFree(any_handle()));
    if (once_in(200)) note(aclrtSetCurrentContext(any_handle()));
    if (once_in(200)) note(aclFinalize());
    std::vector<char> host(256);
    if (once_in(20) && !memories.empty())
        note(aclrtMemcpy(host.data(), host.size(), memories[below(int64_t(memories.size()))],
                         size_t(below(300)), ACL_MEMCPY_DEVICE_TO_HOST));
    if (once_in(200)) {
        aclrtStream &stream = streams[below(int64_t(streams.size()))];
        handles.push_back(stream);
        note(aclrtDestroyStream(stream));
        note(aclrtCreateStream(&stream));
    }
    if (once_in(2)) return;
    for (aclTensor *each : tensors) aclDestroyTensor(each);
    for (void *each : memories) aclrtFree(each);
    tensors.clear();
    memories.clear();
    if (handles.size() > 1000) handles.erase(handles.begin(), handles.begin() + 500);
}

}  // namespace

int main(int count, char **arguments) {
    const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
    const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
    draw.seed(seed);
    streams.resize(3);
    for (auto &stream : streams) aclrtCreateStream(&stream);
    const auto start = std::chrono::steady_clock::now();
    long calls = 0;
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
           seconds) {
        one_call();
        ++calls;
    }
    for (aclTensor *each : tensors) aclDestroyTensor(each);
    for (void *each : memories) aclrtFree(each);
    for (auto stream : streams) aclrtDestroyStream(stream);
    std::printf("seed %llu, %ld calls:", (unsigned long long)seed, calls);
    for (const auto &[code, times] : codes) std::printf(" %d x %ld", code, times);
    std::printf("\n");
    return codes[0] ? 0 : 1;
}
