// Everything that a handle can stand for, and where handles are looked up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "check.h"

namespace aclnn {

// The message of aclGetRecentErrMsg for this thread.
std::string &recent_message();
int fail(int code, const std::string &message);

// Runs the body of a call: a clean message before, and no exception past the C interface.
template <class Body>
int answered(int without_memory, Body body) {
    try {
        recent_message().clear();
        return body();
    } catch (const std::bad_alloc &) {
        return fail(without_memory, "out of memory.");
    } catch (const std::exception &error) {
        return fail(ACL_ERROR_FAILURE, error.what());
    }
}

// Memory of aclrtMalloc or aclrtMallocHost. Work in flight shares it, so that a free is never
// early.
struct Block {
    char *data;
    size_t size;
    explicit Block(size_t bytes);
    ~Block();
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
};
using BlockPtr = std::shared_ptr<Block>;

struct Tensor {
    Desc desc;
    std::vector<int64_t> strides, storage;
    int64_t offset;
    void *data;
};
using TensorPtr = std::shared_ptr<Tensor>;

struct Scalar {
    std::vector<char> bytes;
};

struct Context {};

// A thread that works off tasks in order. A task returns what went wrong, or nothing.
class Stream {
public:
    using Task = std::function<std::string()>;
    Stream();
    ~Stream();  // finishes what was submitted
    void submit(Task task);
    std::string synchronise();  // the first failure since the last synchronisation

private:
    void work();
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Task> tasks_;
    uint64_t submitted_ = 0, done_ = 0;
    bool stopping_ = false;
    std::string failure_;
    std::thread thread_;
};

struct Executor {
    std::string api;
    int op;
    std::vector<TensorPtr> tensors;
    std::vector<Value> attrs;
    uint64_t workspace_size;
    bool empty;
};

// A number that no other handle of the process ever has.
uintptr_t next_handle();

template <class T>
class Handles {
public:
    void *add(std::shared_ptr<T> object) {
        const uintptr_t handle = next_handle();
        std::lock_guard<std::mutex> lock(mutex_);
        live_.emplace(handle, std::move(object));
        return reinterpret_cast<void *>(handle);
    }
    std::shared_ptr<T> find(const void *handle) const {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
        return found == live_.end() ? nullptr : found->second;
    }
    std::shared_ptr<T> take(const void *handle) {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
        if (found == live_.end()) return nullptr;
        auto object = found->second;
        live_.erase(found);
        return object;
    }
    std::vector<std::shared_ptr<T>> all() const {
        std::lock_guard<std::mutex> lock(mutex_);
        std::vector<std::shared_ptr<T>> objects;
        for (const auto &entry : live_) objects.push_back(entry.second);
        return objects;
    }
    void clear() {
        std::lock_guard<std::mutex> lock(mutex_);
        live_.clear();
    }

private:
    mutable std::mutex mutex_;
    std::unordered_map<uintptr_t, std::shared_ptr<T>> live_;
};

// Live blocks by address.
class Memory {
public:
    void *add(size_t bytes);
    bool remove(void *start);
    BlockPtr holding(const void *first) const;  // the block that this byte lies in, or null
    size_t count() const;

private:
    mutable std::mutex mutex_;
    std::map<uintptr_t, BlockPtr> live_;
};

// Never destroyed: streams may still run while the process ends.
struct Process {
    std::atomic<bool> initialised{false};
    Handles<Tensor> tensors;
    Handles<Scalar> scalars;
    Handles<Stream> streams;
    Handles<Context> contexts;
    Handles<Executor> executors;
    Memory device, host;

    std::shared_ptr<Stream> stream(aclrtStream handle);  // null: no such stream
    std::string synchronise_all();
    void end_default_stream();

private:
    std::mutex mutex_;
    std::shared_ptr<Stream> default_;
};
Process &process();

// The chip whose rules apply in this thread; null, with `why`, where MHC_OPS_SOC names none.
const Chip *current_chip(std::string *why);

}  // namespace aclnn
