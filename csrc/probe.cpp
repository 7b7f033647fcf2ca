// The machine's limits, for floors in benchmarks: FMA throughput and reading bandwidth of a team of
// threads.
#include <stdlib.h>
#include <time.h>

#include "rows.h"

namespace mhc {
namespace MHC_ISA {

namespace {

constexpr int ROUNDS = 9;  // the best one counts: the others were disturbed

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct Probe {
    int64_t repeats, bytes;  // bytes: a thread's share of data
    char *data;
    float factor;
    float sink;  // keeps the compiler from dropping the work
    double best;
    int size;
};

// Enough independent chains to cover the latency of an FMA on two pipes.
void multiply(const Team &, Probe &p) {
    vf sums[12];
    for (int j = 0; j < 12; j++)
        sums[j] = splat(p.factor * (float)j);  // equal chains would be merged
    const vf factor = splat(p.factor), term = splat(p.factor);
    for (int64_t i = 0; i < p.repeats; i++)
        for (int j = 0; j < 12; j++) sums[j] = fma(sums[j], factor, term);
    for (int j = 0; j < 12; j++) p.sink += sum(sums[j]);
}

void read(const Team &team, Probe &p) {
    const float *from = (const float *)(p.data + team.rank * p.bytes);
    vf sums[8] = {};
    for (int64_t r = 0; r < p.repeats; r++)
        for (int64_t i = 0; i + 8 * LANES <= p.bytes / 4; i += 8 * LANES)
            for (int j = 0; j < 8; j++) sums[j] += load(from + i + j * LANES);
    for (int j = 0; j < 8; j++) p.sink += sum(sums[j]);
}

template <void (*work)(const Team &, Probe &)>
void timed(const Team &team, void *argument) {
    Probe &p = *(Probe *)argument;
    if (p.data) memset(p.data + team.rank * p.bytes, 1, (size_t)p.bytes);
    for (int round = 0; round < ROUNDS; round++) {
        team.barrier();
        const double begin = seconds();
        Probe own = p;
        work(team, own);
        team.barrier();
        if (team.rank == 0) {
            const double spent = seconds() - begin;
            if (round == 0 || spent < p.best) p.best = spent;
            p.sink = own.sink;
            p.size = team.size;
        }
    }
}

}  // namespace

double probe_fma(int threads) {
    Probe p = {};
    p.repeats = 1000000;
    p.factor = 0.5f;
    run_team(threads, timed<multiply>, &p);
    return p.size * p.repeats * 12.0 * 2 * LANES / p.best * 1e-9;
}

double probe_read(int64_t bytes, int threads) {
    Probe p = {};
    p.bytes = bytes / 4096 * 4096 + 4096;
    p.repeats = 1 + (32 << 20) / p.bytes;
    void *data = nullptr;
    if (posix_memalign(&data, 2 << 20, (size_t)(threads * p.bytes)) != 0) return 0;
    mhc_ops_advise_fresh(data, threads * p.bytes);
    p.data = (char *)data;
    run_team(threads, timed<read>, &p);
    free(data);
    return (double)p.size * (double)p.repeats * (double)p.bytes / p.best * 1e-9;
}

}  // namespace MHC_ISA
}  // namespace mhc
