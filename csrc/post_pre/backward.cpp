// The boundary of two sublayers, backward: MhcPreBackward, whose gradient of x_next MhcPostBackward
// takes over before it reaches memory.
//
// pre/backward.h forms the gradient of x_next for 32 tokens and a segment of 128 columns in
// float32, in L2, while it fetches the same part of x. Then post/backward.h takes it token by
// token: grad_x and grad_h_out are written once, and the sums over D for grad_h_res and grad_h_post
// are those of the segment; a superblock later, segments are added in ascending order.
// grad_out_bias: a block of 32 tokens sums from zero, blocks are added in ascending order in each
// superblock of 256, superblocks in ascending order.
#include "../post/backward.h"

#include "../pre/backward.h"
#include "post_pre.h"

namespace mhc {
namespace MHC_ISA {

namespace {

struct Post {
    static constexpr bool TAKES = true;
    mhc_post_sizes s;
    const mhc_post_backward_in &in;
    const mhc_post_backward_out &out;
    TokenRows x, h_out;
    backward_of_post::Steps steps;  // but for grad_out, which what is taken says
    int64_t segments = 0, width = 0;
    size_t at_gates = 0, at_sums = 0, at_parts = 0, at_bias = 0;
    float *gates = nullptr;  // [threads][N * N + N], canonical
    float *sums = nullptr;   // [threads][N * N + N][LANES], where N is not unrolled
    float *parts = nullptr;  // [2][segments][SUPERBLOCK][N * N + N]
    float *bias = nullptr;   // [threads][2][width of a strip]: of a block, of the superblock

    int64_t numbers() const { return backward_of_post::sums_of_token(s.streams); }
    bool sums_wanted() const { return out.grad_h_res || out.grad_h_post; }

    void reserve(Workspace &w, int threads, int64_t segment_count, int64_t strip_width) {
        segments = segment_count;
        width = strip_width;
        at_gates = w.reserve<float>(threads * numbers());
        at_sums = w.reserve<float>(threads * numbers() * LANES);
        at_parts = w.reserve<float>(sums_wanted() ? 2 * SUPERBLOCK * segments * numbers() : 0);
        at_bias = w.reserve<float>(out.grad_bias ? threads * 2 * width : 0);
    }
    void bind(const Workspace &w) {
        gates = w.at<float>(at_gates);
        sums = w.at<float>(at_sums);
        parts = w.at<float>(at_parts);
        bias = w.at<float>(at_bias);
    }

    // What `take` will read of x, for fetching it before.
    bool reads_x() const { return out.grad_h_res; }
    void rows(const char **to, int64_t first, int count) const { x.fill(to, first, count); }
    template <class E>
    int64_t offset(int64_t tile, int64_t n) const {
        return n * x.stream_step + tile * TILE * E::SIZE;
    }

    float *parts_of(int64_t superblock, int64_t segment, int64_t token) const {
        const int64_t row = (superblock % 2 * segments + segment) * SUPERBLOCK + token % SUPERBLOCK;
        return parts + row * numbers();
    }

    void open(int thread, int64_t columns) const {
        if (out.grad_bias)
            memset(bias + (2 * thread + 1) * width, 0, (size_t)columns * sizeof(float));
    }

    template <class E>
    void take(const backward_of_pre::Taken &g) const {
        const int64_t N = s.streams, D = s.dim;
        const auto work = backward_of_post::kernel<F32, E>(N);
        float *h_res = gates + g.thread * numbers(), *h_post = h_res + N * N;
        float *block = bias + 2 * g.thread * width;
        float *superblock = block + width + g.begin - g.strip;
        float unused[1];
        backward_of_post::Steps own = steps;
        own.grad_out = g.stream * F32::SIZE;
        const char *x_rows[BLOCK], *h_out_rows[BLOCK];
        x.fill(x_rows, g.first, g.count);
        h_out.fill(h_out_rows, g.first, g.count);
        const int64_t at = g.begin * E::SIZE, columns = g.end - g.begin;
        for (int i = 0; i < g.count; i++) {
            const int64_t t = g.first + i;
            // Two tokens ahead of their use.
            if (sums_wanted())
                prefetch_for_writing((char *)parts_of(g.superblock, g.segment, t + 2));
            if (out.grad_h_post && i + 2 < g.count)
                for (int64_t d = 0; d < columns * E::SIZE; d += 64)
                    prefetch(h_out_rows[i + 2] + at + d);
            if (in.h_res) copy_canonical(h_res, in.h_res + t * N * N, N * N);
            copy_canonical(h_post, in.h_post + t * N, N);
            work(own,
                 {(const char *)(g.grad + i * g.token), x_rows[i] + at, h_out_rows[i] + at, nullptr,
                  nullptr, nullptr,
                  out.grad_x ? (char *)out.grad_x + t * N * D * E::SIZE + at : nullptr,
                  out.grad_h_out ? (char *)out.grad_h_out + t * D * E::SIZE + at : nullptr,
                  out.grad_bias ? block : nullptr, i == 0, out.grad_h_res != nullptr,
                  out.grad_h_post != nullptr, in.h_res ? h_res : nullptr, h_post,
                  in.bias ? in.bias + g.begin : nullptr},
                 columns, sums_wanted() ? parts_of(g.superblock, g.segment, t) : unused,
                 sums + g.thread * numbers() * LANES);
        }
        if (out.grad_bias)
            for (int64_t j = 0; j < columns; j++) superblock[j] += block[j];
    }

    void close(int thread, int64_t superblock, int64_t column, int64_t columns) const {
        if (out.grad_bias)
            backward_of_pre::add_row(out.grad_bias + column, bias + (2 * thread + 1) * width,
                                     (int)columns, superblock == 0 && !out.accumulate);
        if (steps.stream_x || steps.stream_h_out) fence_streams();
    }

    // Adds the segments' sums of some tokens.
    void finish(int64_t superblock, int64_t first, int count) const {
        const int64_t N = s.streams;
        const auto add = [&](int64_t t, int64_t from, int64_t entries, float *to) {
            memcpy(to + t * entries, parts_of(superblock, 0, t) + from,
                   (size_t)entries * sizeof(float));
            for (int64_t segment = 1; segment < segments; segment++) {
                const float *part = parts_of(superblock, segment, t) + from;
                for (int64_t k = 0; k < entries; k++) to[t * entries + k] += part[k];
            }
        };
        for (int64_t t = first; t < first + count; t++) {
            if (out.grad_h_res) add(t, 0, N * N, out.grad_h_res);
            if (out.grad_h_post) add(t, N * N, N, out.grad_h_post);
        }
    }
};

}  // namespace

int post_pre_backward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                      const mhc_post_backward_in &of_post, const mhc_pre_backward_in &of_pre,
                      const mhc_post_backward_out &post_out, const mhc_pre_backward_out &pre_out,
                      int threads) {
    mhc_pre_backward_out rest = pre_out;
    rest.grad_x = nullptr;
    if (!post_out.grad_x && !post_out.grad_h_res && !post_out.grad_h_out && !post_out.grad_h_post &&
        !post_out.grad_bias)
        return pre_backward(s, dtype, numbers, of_pre, rest, threads);
    const int size = dtype == MHC_FLOAT32 ? 4 : 2;
    const int64_t T = s.outer * s.inner;
    const auto past_caches = [&](const void *p, int64_t elements) {
        return (uintptr_t)p % 64 == 0 && s.dim * size % 64 == 0 && elements * size > CACHED_OUTPUT;
    };
    const TokenRows x(of_post.x, s.inner, size), h_out(of_post.h_out, s.inner, size);
    const Post post = {{s.outer, s.inner, s.streams, s.dim},
                       of_post,
                       post_out,
                       x,
                       h_out,
                       {s.streams, 0, x.stream_step, s.dim * size,
                        past_caches(post_out.grad_x, T * s.streams * s.dim),
                        past_caches(post_out.grad_h_out, T * s.dim)}};
    return backward_of_pre::compute(s, dtype, numbers, of_pre, rest, threads, post);
}

}  // namespace MHC_ISA
}  // namespace mhc
