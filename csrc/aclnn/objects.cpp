#include "objects.h"

#include <cstdlib>
#include <new>

#include "mhc_ops/aclnn.h"

namespace aclnn {

namespace {

constexpr size_t kAlignment = 64;

const Chip *chip_named(const std::string &name) {
    for (const Chip &chip : chips())
        if (chip.name == name) return &chip;
    return nullptr;
}

std::string chip_names() {
    std::string names;
    for (const Chip &chip : chips()) names += (names.empty() ? "" : ", ") + chip.name;
    return names;
}

thread_local const Chip *chosen = nullptr;

}  // namespace

std::string &recent_message() {
    thread_local std::string message;
    return message;
}

int fail(int code, const std::string &message) {
    recent_message() = message;
    return code;
}

Block::Block(size_t bytes) : data(nullptr), size(bytes) {
    void *memory = nullptr;
    if (posix_memalign(&memory, kAlignment, bytes)) throw std::bad_alloc();
    data = static_cast<char *>(memory);
}

Block::~Block() { std::free(data); }

Stream::Stream() : thread_([this] { work(); }) {}

Stream::~Stream() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Stream::submit(Task task) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        ++submitted_;
    }
    changed_.notify_all();
}

std::string Stream::synchronise() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t last = submitted_;
    changed_.wait(lock, [&] { return done_ >= last; });
    return std::exchange(failure_, std::string());
}

void Stream::work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        std::string failure;
        try {
            failure = task();
        } catch (const std::exception &error) {
            failure = error.what();
        }
        task = nullptr;  // memory goes before anybody hears that the work is done
        lock.lock();
        if (failure_.empty()) failure_ = failure;
        ++done_;
        changed_.notify_all();
    }
}

uintptr_t next_handle() {
    static std::atomic<uintptr_t> last{0x1000};
    return last += 16;
}

void *Memory::add(size_t bytes) {
    auto block = std::make_shared<Block>(bytes);
    std::lock_guard<std::mutex> lock(mutex_);
    live_.emplace(reinterpret_cast<uintptr_t>(block->data), block);
    return block->data;
}

bool Memory::remove(void *start) {
    BlockPtr block;  // freed after the lock is
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(reinterpret_cast<uintptr_t>(start));
    if (found == live_.end()) return false;
    block = found->second;
    live_.erase(found);
    return true;
}

BlockPtr Memory::holding(const void *first) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(first);
    std::lock_guard<std::mutex> lock(mutex_);
    auto above = live_.upper_bound(address);
    if (above == live_.begin()) return nullptr;
    const auto &entry = *--above;
    return address - entry.first < entry.second->size ? entry.second : nullptr;
}

size_t Memory::count() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return live_.size();
}

Process &process() {
    static Process *one = new Process;
    return *one;
}

std::shared_ptr<Stream> Process::stream(aclrtStream handle) {
    if (handle) return streams.find(handle);
    std::lock_guard<std::mutex> lock(mutex_);
    if (!default_) default_ = std::make_shared<Stream>();
    return default_;
}

std::string Process::synchronise_all() {
    std::shared_ptr<Stream> unnamed;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        unnamed = default_;
    }
    std::string failure = unnamed ? unnamed->synchronise() : "";
    for (const auto &each : streams.all()) {
        const std::string found = each->synchronise();
        if (failure.empty()) failure = found;
    }
    return failure;
}

void Process::end_default_stream() {
    std::shared_ptr<Stream> unnamed;  // outlives the lock: its end joins its thread
    std::lock_guard<std::mutex> lock(mutex_);
    unnamed.swap(default_);
}

const Chip *current_chip(std::string *why) {
    if (chosen) return chosen;
    static const char *const wanted = std::getenv("MHC_OPS_SOC");
    static const Chip *const default_chip = wanted ? chip_named(wanted) : &chips().front();
    if (!default_chip && why)
        *why = "MHC_OPS_SOC must be one of " + chip_names() + ", got '" + wanted + "'.";
    return default_chip;
}

}  // namespace aclnn

aclError mhc_aclnn_set_soc(const char *name) {
    return aclnn::answered(ACL_ERROR_BAD_ALLOC, [&]() -> int {
        const aclnn::Chip *chip = name ? aclnn::chip_named(name) : nullptr;
        if (name && !chip)
            return aclnn::fail(ACL_ERROR_INVALID_PARAM, "mhc_aclnn_set_soc: soc must be one of " +
                                                            aclnn::chip_names() + ", got '" + name +
                                                            "'.");
        aclnn::chosen = chip;
        return ACL_SUCCESS;
    });
}
