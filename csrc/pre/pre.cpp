// MhcPre and MhcPreBackward, whose tensors lie in memory.
#include "backward.h"
#include "forward.h"

namespace mhc {
namespace MHC_ISA {

int pre_forward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                const mhc_pre_forward_in &in, const mhc_pre_forward_out &out, int threads) {
    return forward_of_pre::compute(s, dtype, numbers, in, out, threads, forward_of_pre::InMemory());
}

int pre_backward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                 const mhc_pre_backward_in &in, const mhc_pre_backward_out &out, int threads) {
    return backward_of_pre::compute(s, dtype, numbers, in, out, threads,
                                    backward_of_pre::ToMemory());
}

}  // namespace MHC_ISA
}  // namespace mhc
