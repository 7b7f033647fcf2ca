// The entry points of the boundary of two sublayers.
#pragma once

#include "../rows.h"

namespace mhc {
namespace MHC_ISA {

int post_pre_forward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                     const mhc_post_forward_in &of_post, const mhc_pre_forward_in &of_pre,
                     void *x_next, const mhc_pre_forward_out &out, int threads);

int post_pre_backward(const mhc_pre_sizes &s, mhc_dtype dtype, const mhc_pre_numbers &numbers,
                      const mhc_post_backward_in &of_post, const mhc_pre_backward_in &of_pre,
                      const mhc_post_backward_out &post_out, const mhc_pre_backward_out &pre_out,
                      int threads);

}  // namespace MHC_ISA
}  // namespace mhc
