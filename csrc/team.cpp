#include "team.h"

#include <pthread.h>
#include <stdlib.h>

#include "../include/mhc_ops/mhc_ops.h"

#include <atomic>

#if defined(MHC_STD_THREAD)
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>
#else
#include <omp.h>
#endif

namespace mhc {

static std::atomic<bool> forked_child{false};

// A thread pool does not survive fork: the child computes on its own thread instead of waiting for
// ever.
__attribute__((constructor)) static void watch_forks() {
    pthread_atfork(nullptr, nullptr, [] { forked_child = true; });
}

int max_threads(int wanted) { return forked_child || wanted < 1 ? 1 : wanted; }

struct Kept {
    void *data = nullptr;
    size_t size = 0;
    ~Kept() { free(data); }
};

static thread_local Kept kept;

size_t kept_workspace() { return kept.size; }

void *workspace(size_t bytes) {
    if (kept.size < bytes) {
        const size_t huge_page = 2 << 20;
        free(kept.data);
        kept = Kept();
        if (posix_memalign(&kept.data, bytes < huge_page ? 64 : huge_page, bytes) != 0) {
            kept.data = nullptr;
            return nullptr;
        }
        kept.size = bytes;
        mhc_ops_advise_fresh(kept.data, (int64_t)bytes);
    }
    return kept.data;
}

#if defined(MHC_STD_THREAD)

struct Meeting {
    std::mutex mutex;
    std::condition_variable all_here;
    int size = 0, waiting = 0;  // size is known once every thread that can has started
    uint64_t round = 0;
};

void Team::barrier() const {
    if (size == 1) return;
    Meeting &m = *static_cast<Meeting *>(state);
    std::unique_lock<std::mutex> lock(m.mutex);
    const uint64_t round = m.round;
    if (++m.waiting == m.size) {
        m.waiting = 0;
        m.round++;
        m.all_here.notify_all();
        return;
    }
    m.all_here.wait(lock, [&] { return m.round != round; });
}

void run_team(int threads, void (*body)(const Team &, void *), void *argument) {
    const int wanted = max_threads(threads);
    Meeting meeting;
    std::vector<std::thread> others;
    try {
        others.reserve(wanted - 1);
        for (int rank = 1; rank < wanted; rank++)
            others.emplace_back([=, &meeting] {
                {
                    std::unique_lock<std::mutex> lock(meeting.mutex);
                    meeting.all_here.wait(lock, [&] { return meeting.size > 0; });
                }
                body(Team{rank, meeting.size, &meeting}, argument);
            });
    } catch (const std::exception &) {  // no more threads or memory: go on with those that started
    }
    const int size = (int)others.size() + 1;
    {
        std::unique_lock<std::mutex> lock(meeting.mutex);
        meeting.size = size;
    }
    meeting.all_here.notify_all();
    body(Team{0, size, &meeting}, argument);
    for (std::thread &other : others) other.join();
}

const char *threading_name() { return "std::thread"; }

#else

void Team::barrier() const {
    if (size > 1) {
#pragma omp barrier
    }
}

void run_team(int threads, void (*body)(const Team &, void *), void *argument) {
    const int size = max_threads(threads);
    if (size == 1) {
        body(Team{0, 1, nullptr}, argument);
        return;
    }
#pragma omp parallel num_threads(size)
    body(Team{omp_get_thread_num(), omp_get_num_threads(), nullptr}, argument);
}

const char *threading_name() { return "openmp"; }

#endif

}  // namespace mhc
