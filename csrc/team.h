// A team of threads that runs one function together, on OpenMP or (MHC_STD_THREAD) on std::thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace mhc {

struct Team {
    int rank, size;
    void *state;  // of the threads' implementation

    void barrier() const;
};

// Calls body(team, argument) on `threads` threads at once, the caller among them; fewer where the
// system gives fewer, and only the caller in a forked child, where the parent's pool of threads
// does not exist.
void run_team(int threads, void (*body)(const Team &, void *), void *argument);
int max_threads(int wanted);
const char *threading_name();

// Threads worth starting for so many multiply-adds: each must outweigh its wake-up and barriers
// (some microseconds).
inline int threads_for(double multiply_adds, int wanted) {
    const double worth = multiply_adds / 131072;
    const int most = worth < 1 ? 1 : worth > 4096 ? 4096 : (int)worth;
    return wanted < most ? (wanted < 1 ? 1 : wanted) : most;
}

// Scratch memory of the calling thread, aligned to 64 bytes; valid until the thread's next call;
// NULL when there is no memory. It is kept for that call, because page faults of fresh memory cost
// a small call as much as its arithmetic, and freed when the thread ends.
void *workspace(size_t bytes);
size_t kept_workspace();

// The next of a list of work items; every thread takes some.
inline int64_t take(int64_t *counter) { return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

}  // namespace mhc
