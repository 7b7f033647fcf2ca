// What every program around one aclnn call does: start, tensors, run, print, release.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"

// Ends the program, with the reason, unless the call succeeded.
inline void check(int status, const char *what) {
    if (status == ACL_SUCCESS) return;
    std::printf("%s failed. ERROR: %d %s\n", what, status, aclGetRecentErrMsg());
    std::exit(1);
}

using Shape = std::vector<int64_t>;

// A value for each place of a tensor, counted through from the first.
using Values = std::function<float(int64_t)>;
inline Values all(float value) {
    return [value](int64_t) { return value; };
}

class Program {
public:
    Program() {
        check(aclInit(nullptr), "aclInit");
        check(aclrtSetDevice(0), "aclrtSetDevice");
        check(aclrtCreateContext(&context_, 0), "aclrtCreateContext");
        check(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }

    ~Program() {
        for (auto &[handle, made] : made_) {
            check(aclDestroyTensor(handle), "aclDestroyTensor");
            check(aclrtFree(made.memory), "aclrtFree");
        }
        check(aclrtDestroyStream(stream_), "aclrtDestroyStream");
        check(aclrtDestroyContext(context_), "aclrtDestroyContext");
        check(aclrtResetDevice(0), "aclrtResetDevice");
        check(aclFinalize(), "aclFinalize");
    }

    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    // Numbers that a BF16 holds exactly.
    aclTensor *bf16(Shape shape, Values values) {
        std::vector<uint16_t> host(count(shape));
        for (size_t i = 0; i < host.size(); ++i) {
            const float value = values(int64_t(i));
            uint32_t bits;
            std::memcpy(&bits, &value, sizeof bits);
            host[i] = uint16_t(bits >> 16);
        }
        return make(shape, ACL_BF16, host.data(), host.size() * sizeof host[0]);
    }

    aclTensor *fp32(Shape shape, Values values) {
        std::vector<float> host(count(shape));
        for (size_t i = 0; i < host.size(); ++i) host[i] = values(int64_t(i));
        return make(shape, ACL_FLOAT, host.data(), host.size() * sizeof host[0]);
    }

    // The second phase of a call, and its end.
    template <class Second>
    void run(const char *name, Second second, uint64_t workspaceSize, aclOpExecutor *executor) {
        void *workspace = nullptr;
        if (workspaceSize > 0)
            check(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        check(second(workspace, workspaceSize, executor, stream_), name);
        check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream");
        if (workspace) check(aclrtFree(workspace), "aclrtFree");
    }

    // All values of a tensor in one line.
    void print(const char *name, const aclTensor *tensor) {
        const Made &made = made_.at(const_cast<aclTensor *>(tensor));
        std::vector<char> host(made.bytes);
        check(aclrtMemcpy(host.data(), made.bytes, made.memory, made.bytes,
                          ACL_MEMCPY_DEVICE_TO_HOST),
              "aclrtMemcpy");
        aclDataType dtype;
        check(aclGetDataType(tensor, &dtype), "aclGetDataType");
        const size_t size = aclDataTypeSize(dtype);
        std::printf("%s:", name);
        for (size_t i = 0; i < made.bytes; i += size) {
            uint32_t bits = 0;
            std::memcpy(&bits, &host[i], size);
            if (size == 2) bits <<= 16;
            float value;
            std::memcpy(&value, &bits, sizeof value);
            std::printf(" %.7g", value);
        }
        std::printf("\n");
    }

private:
    struct Made {
        void *memory;
        size_t bytes;
    };

    static size_t count(const Shape &shape) {
        size_t total = 1;
        for (int64_t size : shape) total *= size_t(size);
        return total;
    }

    aclTensor *make(const Shape &shape, aclDataType dtype, const void *host, size_t bytes) {
        void *memory = nullptr;
        check(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
        check(aclrtMemcpy(memory, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
        Shape strides(shape.size(), 1);
        for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
        aclTensor *tensor = aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), 0,
                                            ACL_FORMAT_ND, shape.data(), shape.size(), memory);
        check(tensor ? ACL_SUCCESS : ACL_ERROR_FAILURE, "aclCreateTensor");
        made_[tensor] = {memory, bytes};
        return tensor;
    }

    aclrtContext context_ = nullptr;
    aclrtStream stream_ = nullptr;
    std::map<aclTensor *, Made> made_;
};
