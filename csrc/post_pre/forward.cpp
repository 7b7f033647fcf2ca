// The boundary of two sublayers: MhcPost, and MhcPre on its output while that is near.
//
// pre/forward.h takes chunks of tokens. Here it makes each of them with post/forward.h: x_next goes
// to memory past the caches, and once more into a copy of the chunk, which the projection and then
// h_in read from L2. The sums and roundings are those of the two operators.
#include "post_pre.h"

#include "../post/forward.h"
#include "../pre/forward.h"

namespace mhc {
namespace MHC_ISA {

namespace {

struct Written {
    static constexpr bool MAKES = true;
    static constexpr int64_t TOKENS = 32;  // a copy of 640 KiB at N = 4, D = 2560, in bf16
    forward_of_post::Call call;
    size_t gates;

    void reserve(Workspace &w, int threads) {
        gates = w.reserve<float>(threads * forward_of_post::gates_of_thread(call));
    }
    void bind(const Workspace &w) { call.gates = w.at<float>(gates); }

    template <class E>
    void make(int thread, int64_t first, int count, char *copy, int64_t step) const {
        for (int i = 0; i < count; i += GROUP)
            forward_of_post::write<E>(call, thread, first + i, (int)least(GROUP, count - i),
                                      copy ? copy + i * step : nullptr, step);
    }
};

}  // namespace

int post_pre_forward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                     const mhc_post_forward_in &of_post, const mhc_pre_forward_in &of_pre,
                     void *x_next, const mhc_pre_forward_out &out, int threads) {
    const mhc_post_sizes post = {s.outer, s.inner, s.streams, s.dim};
    const int64_t token = s.streams * s.dim;
    mhc_pre_forward_in in = of_pre;
    in.x = {x_next, s.inner * token, token, s.dim};
    return forward_of_pre::compute(
        s, dtype, numbers, in, out, threads,
        Written{forward_of_post::prepare(post, dtype, of_post, x_next), 0});
}

}  // namespace MHC_ISA
}  // namespace mhc
