// MhcPost and MhcPostBackward by themselves: threads take groups of 16 tokens.
//
// grad_bias: a group sums from zero in its own row; groups are added in ascending order from zero
// in each superblock of 256, superblocks in ascending order.
#include "backward.h"
#include "forward.h"

namespace mhc {
namespace MHC_ISA {

namespace {

struct Forward {
    forward_of_post::Call call;
    int64_t *next;  // a counter
};

template <class E>
void run_forward(const Team &team, void *argument) {
    const Forward &job = *(const Forward *)argument;
    for (int64_t item; (item = take(job.next)) < ceil_div(job.call.T, GROUP);) {
        const int64_t first = item * GROUP;
        forward_of_post::write<E>(job.call, team.rank, first, (int)least(GROUP, job.call.T - first),
                                  nullptr, 0);
    }
    if (job.call.stream) fence_streams();
}

constexpr int64_t COLUMNS = 512;  // of grad_bias that a thread reduces at a time

struct Backward {
    const mhc_post_sizes &s;
    const mhc_post_backward_in &in;
    const mhc_post_backward_out &out;
    TokenRows grad_out, x, h_out;
    int64_t T;
    backward_of_post::Steps steps;
    float *gates;   // [threads][2][N * N + N], canonical gates and the sums of a token
    float *sums;    // [threads][N * N + N][LANES], where N is not unrolled
    float *groups;  // [T / GROUP][D], where grad_bias is wanted
    int64_t *next;  // two counters
};

// Columns [begin, end) of grad_bias from the groups' rows.
void reduce_bias(const Backward &c, int64_t begin, int64_t end) {
    const int64_t D = c.s.dim, groups = ceil_div(c.T, GROUP), width = end - begin;
    float part[COLUMNS];
    float *to = c.out.grad_bias + begin;
    bool first = !c.out.accumulate;
    for (int64_t group = 0; group < groups;) {
        const int64_t stop = least(group + SUPERBLOCK / GROUP, groups);
        memcpy(part, c.groups + group * D + begin, (size_t)width * sizeof(float));
        for (group++; group < stop; group++)
            for (int64_t j = 0; j < width; j++) part[j] += c.groups[group * D + begin + j];
        for (int64_t j = 0; j < width; j++) to[j] = first ? part[j] : to[j] + part[j];
        first = false;
    }
}

template <class E>
void run_backward(const Team &team, void *argument) {
    const Backward &c = *(const Backward *)argument;
    const mhc_post_backward_out &o = c.out;
    const int64_t N = c.s.streams, D = c.s.dim, numbers = backward_of_post::sums_of_token(N);
    const auto work = backward_of_post::kernel<E, E>(N);
    float *h_res = c.gates + team.rank * 2 * numbers, *h_post = h_res + N * N;
    float *found = h_res + numbers, *sums = c.sums + team.rank * numbers * LANES;
    const char *grad_out[GROUP], *x[GROUP], *h_out[GROUP];
    for (int64_t item; (item = take(c.next)) < ceil_div(c.T, GROUP);) {
        const int64_t first = item * GROUP;
        const int count = (int)least(GROUP, c.T - first);
        c.grad_out.fill(grad_out, first, count);
        c.x.fill(x, first, count);
        c.h_out.fill(h_out, first, count);
        for (int i = 0; i < count; i++) {
            const int64_t t = first + i;
            if (c.in.h_res) copy_canonical(h_res, c.in.h_res + t * N * N, N * N);
            copy_canonical(h_post, c.in.h_post + t * N, N);
            const bool more = i + 1 < count;
            work(c.steps,
                 {grad_out[i], x[i], h_out[i], more ? grad_out[i + 1] : nullptr,
                  more ? x[i + 1] : nullptr, more ? h_out[i + 1] : nullptr,
                  o.grad_x ? (char *)o.grad_x + t * N * D * E::SIZE : nullptr,
                  o.grad_h_out ? (char *)o.grad_h_out + t * D * E::SIZE : nullptr,
                  o.grad_bias ? c.groups + t / GROUP * D : nullptr, i == 0, o.grad_h_res != nullptr,
                  o.grad_h_post != nullptr, c.in.h_res ? h_res : nullptr, h_post, c.in.bias},
                 D, found, sums);
            if (o.grad_h_res)
                memcpy(o.grad_h_res + t * N * N, found, (size_t)(N * N) * sizeof(float));
            if (o.grad_h_post)
                memcpy(o.grad_h_post + t * N, found + N * N, (size_t)N * sizeof(float));
        }
    }
    if (c.steps.stream_x || c.steps.stream_h_out) fence_streams();
    if (!o.grad_bias) return;
    team.barrier();
    for (int64_t item; (item = take(c.next + 1)) < ceil_div(D, COLUMNS);)
        reduce_bias(c, item * COLUMNS, least(D, (item + 1) * COLUMNS));
}

}  // namespace

int post_forward(const mhc_post_sizes &s, mhc_dtype dtype, const mhc_post_forward_in &in, void *out,
                 int threads) {
    const int64_t N = s.streams;
    Forward job = {forward_of_post::prepare(s, dtype, in, out), nullptr};
    const int64_t T = job.call.T;
    if (T == 0) return MHC_OK;
    threads = threads_for((double)T * (double)(N * s.dim) * (double)(N + 1), max_threads(threads));

    Workspace w;
    const size_t gates = w.reserve<float>(threads * forward_of_post::gates_of_thread(job.call));
    const size_t next = w.reserve<int64_t>(1);
    if (!w.allocate()) return MHC_NO_MEMORY;
    job.call.gates = w.at<float>(gates);
    job.next = w.at<int64_t>(next);
    *job.next = 0;
    run_team(threads,
             dtype == MHC_FLOAT32   ? run_forward<F32>
             : dtype == MHC_FLOAT16 ? run_forward<F16>
                                    : run_forward<BF16>,
             &job);
    return MHC_OK;
}

int post_backward(const mhc_post_sizes &s, mhc_dtype dtype, const mhc_post_backward_in &in,
                  const mhc_post_backward_out &out, int threads) {
    const int64_t N = s.streams, D = s.dim, T = s.outer * s.inner;
    const int size = dtype == MHC_FLOAT32 ? 4 : 2;
    if (T == 0) {
        if (out.grad_bias && !out.accumulate) memset(out.grad_bias, 0, (size_t)D * sizeof(float));
        return MHC_OK;
    }
    Backward c = {s,
                  in,
                  out,
                  TokenRows(in.grad_out, s.inner, size),
                  TokenRows(in.x, s.inner, size),
                  TokenRows(in.h_out, s.inner, size)};
    threads =
        threads_for(2.0 * (double)T * (double)(N * D) * (double)(N + 1), max_threads(threads));
    c.T = T;
    const auto past_caches = [&](const void *p, int64_t elements) {
        return (uintptr_t)p % 64 == 0 && D * size % 64 == 0 && elements * size > CACHED_OUTPUT;
    };
    c.steps = {N,
               c.grad_out.stream_step,
               c.x.stream_step,
               D * size,
               past_caches(out.grad_x, T * N * D),
               past_caches(out.grad_h_out, T * D)};

    Workspace w;
    const int64_t numbers = backward_of_post::sums_of_token(N);
    const size_t gates = w.reserve<float>(threads * 2 * numbers);
    const size_t sums = w.reserve<float>(threads * numbers * LANES);
    const size_t groups = w.reserve<float>(out.grad_bias ? ceil_div(T, GROUP) * D : 0);
    const size_t next = w.reserve<int64_t>(2);
    if (!w.allocate()) return MHC_NO_MEMORY;
    c.gates = w.at<float>(gates);
    c.sums = w.at<float>(sums);
    c.groups = w.at<float>(groups);
    c.next = w.at<int64_t>(next);
    c.next[0] = c.next[1] = 0;
    run_team(threads,
             dtype == MHC_FLOAT32   ? run_backward<F32>
             : dtype == MHC_FLOAT16 ? run_backward<F16>
                                    : run_backward<BF16>,
             &c);
    return MHC_OK;
}

}  // namespace MHC_ISA
}  // namespace mhc
