// AscendCL's runtime: start and end, the device, contexts, streams, memory, copies.
#include <cstring>

#include "objects.h"

using aclnn::answered;
using aclnn::fail;
using aclnn::process;

namespace {

thread_local aclrtContext current_context = nullptr;

int invalid(const std::string &message) { return fail(ACL_ERROR_INVALID_PARAM, message); }

template <class Body>
int call(Body body) {
    return answered(ACL_ERROR_BAD_ALLOC, body);
}

int check_device(const char *name, int32_t device) {
    if (device == 0) return ACL_SUCCESS;
    return invalid(std::string(name) + ": no device " + std::to_string(device) + ".");
}

int reported(const std::string &failure) {
    return failure.empty() ? ACL_SUCCESS : fail(ACLNN_ERR_RUNTIME_ERROR, failure);
}

// A check of `count` bytes of device memory from `start`, and who owns them.
int check_device_memory(const std::string &name, const char *what, const void *start, size_t count,
                        aclnn::BlockPtr *owner) {
    *owner = process().device.holding(start);
    if (!*owner) return invalid(name + ": " + what + " is no memory of aclrtMalloc, or was freed.");
    const size_t left = (*owner)->size - size_t(static_cast<const char *>(start) - (*owner)->data);
    if (count <= left) return ACL_SUCCESS;
    return invalid(name + ": " + what + " has " + std::to_string(left) + " bytes, got count " +
                   std::to_string(count) + ".");
}

struct Copy {
    void *dst;
    const void *src;
    size_t count;
    aclnn::BlockPtr dst_owner, src_owner;
    std::string operator()() const {
        if (count) std::memmove(dst, src, count);
        return "";
    }
};

int check_copy(const std::string &name, void *dst, size_t dest_max, const void *src, size_t count,
               aclrtMemcpyKind kind, Copy *copy) {
    if (!dst || !src) return invalid(name + ": dst and src must not be null.");
    if (count > dest_max)
        return invalid(name + ": cannot copy " + std::to_string(count) + " bytes to " +
                       std::to_string(dest_max) + ".");
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEFAULT)
        return invalid(name + ": kind must be an ACL_MEMCPY_ number, got " +
                       std::to_string(int(kind)) + ".");
    *copy = {dst, src, count, nullptr, nullptr};
    int status = ACL_SUCCESS;
    if (kind == ACL_MEMCPY_DEFAULT) {
        copy->dst_owner = process().device.holding(dst);
        copy->src_owner = process().device.holding(src);
    }
    if (kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE || copy->dst_owner)
        status = check_device_memory(name, "dst", dst, count, &copy->dst_owner);
    if (!status && (kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                    copy->src_owner))
        status = check_device_memory(name, "src", src, count, &copy->src_owner);
    return status;
}

int check_set(const std::string &name, void *start, size_t most, size_t count,
              aclnn::BlockPtr *owner) {
    if (!start) return invalid(name + ": devPtr must not be null.");
    if (count > most)
        return invalid(name + ": cannot set " + std::to_string(count) + " of " +
                       std::to_string(most) + " bytes.");
    return check_device_memory(name, "devPtr", start, count, owner);
}

int submit(const char *name, aclrtStream handle, aclnn::Stream::Task task) {
    const auto stream = process().stream(handle);
    if (!stream) return invalid(std::string(name) + ": no such stream, or it was destroyed.");
    stream->submit(std::move(task));
    return ACL_SUCCESS;
}

int take_memory(const char *name, aclnn::Memory &memory, void **pointer, size_t size) {
    if (!pointer) return invalid(std::string(name) + ": the pointer to fill is null.");
    *pointer = nullptr;
    if (size == 0) return invalid(std::string(name) + ": size must be positive, got 0.");
    try {
        *pointer = memory.add(size);
    } catch (const std::bad_alloc &) {
        return fail(ACL_ERROR_BAD_ALLOC,
                    std::string(name) + ": no " + std::to_string(size) + " bytes available.");
    }
    return ACL_SUCCESS;
}

int give_memory(const char *name, aclnn::Memory &memory, void *pointer) {
    if (!pointer) return invalid(std::string(name) + ": the pointer is null.");
    if (memory.remove(pointer)) return ACL_SUCCESS;
    return invalid(std::string(name) + ": not the start of live memory; freed before?");
}

}  // namespace

const char *aclGetRecentErrMsg(void) { return aclnn::recent_message().c_str(); }

aclError aclInit(const char *) {
    return call([] {
        std::string why;
        if (!aclnn::current_chip(&why)) return invalid("aclInit: " + why);
        if (process().initialised.exchange(true))
            return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: called before.");
        return ACL_SUCCESS;
    });
}

aclError aclFinalize(void) {
    return call([] {
        auto &all = process();
        if (!all.initialised)
            return fail(ACL_ERROR_UNINITIALIZE, "aclFinalize: no aclInit before.");
        const struct {
            const char *what;
            size_t live;
        } kinds[] = {
            {"streams", all.streams.all().size()},   {"contexts", all.contexts.all().size()},
            {"tensors", all.tensors.all().size()},   {"scalars", all.scalars.all().size()},
            {"device memories", all.device.count()}, {"host memories", all.host.count()}};
        std::string left;
        for (const auto &kind : kinds)
            if (kind.live)
                left += (left.empty() ? "" : ", ") + std::to_string(kind.live) + " " + kind.what;
        if (!left.empty())
            return fail(ACL_ERROR_FAILURE, "aclFinalize: still alive: " + left +
                                               "; destroy and free them, then call it again.");
        const std::string failure = all.synchronise_all();
        all.end_default_stream();
        all.executors.clear();
        all.initialised = false;
        return reported(failure);
    });
}

const char *aclrtGetSocName(void) {
    const aclnn::Chip *chip = aclnn::current_chip(nullptr);
    if (!chip) return nullptr;
    static const std::map<std::string, const char *> names = {
        {"ascend950", "Ascend950"}, {"ascend910b", "Ascend910B"}, {"ascend910_93", "Ascend910_93"}};
    return names.at(chip->name);
}

aclError aclrtSetDevice(int32_t deviceId) {
    return call([&] { return check_device("aclrtSetDevice", deviceId); });
}

aclError aclrtResetDevice(int32_t deviceId) {
    return call([&] {
        const int status = check_device("aclrtResetDevice", deviceId);
        return status ? status : reported(process().synchronise_all());
    });
}

aclError aclrtGetDevice(int32_t *deviceId) {
    return call([&] {
        if (!deviceId) return invalid("aclrtGetDevice: deviceId is null.");
        *deviceId = 0;
        return ACL_SUCCESS;
    });
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    return call([&] {
        if (!count) return invalid("aclrtGetDeviceCount: count is null.");
        *count = 1;
        return ACL_SUCCESS;
    });
}

aclError aclrtGetRunMode(aclrtRunMode *runMode) {
    return call([&] {
        if (!runMode) return invalid("aclrtGetRunMode: runMode is null.");
        *runMode = ACL_HOST;
        return ACL_SUCCESS;
    });
}

aclError aclrtSynchronizeDevice(void) {
    return call([] { return reported(process().synchronise_all()); });
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
    return call([&] {
        if (!context) return invalid("aclrtCreateContext: context is null.");
        const int status = check_device("aclrtCreateContext", deviceId);
        *context = status ? nullptr : process().contexts.add(std::make_shared<aclnn::Context>());
        if (!status) current_context = *context;
        return status;
    });
}

aclError aclrtDestroyContext(aclrtContext context) {
    return call([&] {
        if (!process().contexts.take(context))
            return invalid("aclrtDestroyContext: no such context, or it was destroyed.");
        if (current_context == context) current_context = nullptr;
        return ACL_SUCCESS;
    });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    return call([&] {
        if (!process().contexts.find(context))
            return invalid("aclrtSetCurrentContext: no such context, or it was destroyed.");
        current_context = context;
        return ACL_SUCCESS;
    });
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    return call([&] {
        if (!context) return invalid("aclrtGetCurrentContext: context is null.");
        *context = process().contexts.find(current_context) ? current_context : nullptr;
        if (!*context) return invalid("aclrtGetCurrentContext: this thread has none.");
        return ACL_SUCCESS;
    });
}

aclError aclrtCreateStream(aclrtStream *stream) {
    return call([&] {
        if (!stream) return invalid("aclrtCreateStream: stream is null.");
        *stream = nullptr;
        *stream = process().streams.add(std::make_shared<aclnn::Stream>());
        return ACL_SUCCESS;
    });
}

aclError aclrtDestroyStream(aclrtStream stream) {
    return call([&] {
        const auto found = process().streams.take(stream);
        if (!found) return invalid("aclrtDestroyStream: no such stream, or it was destroyed.");
        found->synchronise();
        return ACL_SUCCESS;
    });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    return call([&] {
        const auto found = process().stream(stream);
        if (!found) return invalid("aclrtSynchronizeStream: no such stream, or it was destroyed.");
        return reported(found->synchronise());
    });
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return call([&] {
        const int kind =
            int(policy) & ~(ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH);
        if (kind < ACL_MEM_MALLOC_HUGE_FIRST || kind > ACL_MEM_MALLOC_NORMAL_ONLY_P2P)
            return invalid("aclrtMalloc: policy must be an ACL_MEM_ number, got " +
                           std::to_string(int(policy)) + ".");
        return take_memory("aclrtMalloc", process().device, devPtr, size);
    });
}

aclError aclrtFree(void *devPtr) {
    return call([&] { return give_memory("aclrtFree", process().device, devPtr); });
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
    return call([&] { return take_memory("aclrtMallocHost", process().host, hostPtr, size); });
}

aclError aclrtFreeHost(void *hostPtr) {
    return call([&] { return give_memory("aclrtFreeHost", process().host, hostPtr); });
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                     aclrtMemcpyKind kind) {
    return call([&] {
        Copy copy;
        const int status = check_copy("aclrtMemcpy", dst, destMax, src, count, kind, &copy);
        if (!status) copy();
        return status;
    });
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream) {
    return call([&] {
        Copy copy;
        const int status = check_copy("aclrtMemcpyAsync", dst, destMax, src, count, kind, &copy);
        return status ? status : submit("aclrtMemcpyAsync", stream, copy);
    });
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    return call([&] {
        aclnn::BlockPtr owner;
        const int status = check_set("aclrtMemset", devPtr, maxCount, count, &owner);
        if (!status) std::memset(devPtr, value, count);
        return status;
    });
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream) {
    return call([&] {
        aclnn::BlockPtr owner;
        const int status = check_set("aclrtMemsetAsync", devPtr, maxCount, count, &owner);
        if (status) return status;
        return submit("aclrtMemsetAsync", stream, [=]() -> std::string {
            (void)owner;
            std::memset(devPtr, value, count);
            return "";
        });
    });
}
