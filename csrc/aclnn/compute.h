// What the math of several operators shares.
#pragma once

#include <cmath>
#include <string>

#include "call.h"
#include "mhc_ops/mhc_ops.h"

namespace aclnn {

inline void refuse_if(bool bad, const std::string &message) {
    if (bad) throw Refused{message};
}

// The domains of the numbers: those of mhc_ops.domains.
inline void check_norm_eps(double eps) {
    refuse_if(!(eps >= 0 && eps < INFINITY), "normEps must be finite and not negative");
}
inline void check_hc_eps(double eps) { refuse_if(!std::isfinite(eps), "hcEps must be finite"); }
inline void check_sinkhorn_eps(double eps) {
    refuse_if(!(eps >= 0 && eps < 1), "eps must be in [0, 1)");
}

inline mhc_dtype kernel_dtype(int dtype) {
    return dtype == ACL_BF16 ? MHC_BFLOAT16 : dtype == ACL_FLOAT16 ? MHC_FLOAT16 : MHC_FLOAT32;
}

// Dense rows: of [T, n, D] with streams, of [T, D] without.
inline mhc_rows dense_rows(const void *data, int64_t streams, int64_t dim) {
    return {data, 0, streams * dim, dim};
}

inline mhc_sinkhorn_numbers sinkhorn_numbers(double eps, int64_t num_iters) {
    return {eps, 1.0, int32_t(num_iters), eps == 0 ? MHC_EPS_NONE : MHC_EPS_ADD, 0};
}

// All iterates of a token's logits [n, n]: norm [2K][n][n], 0 the softmax without eps, 2k + 1 after
// column step k, 2k after row step k; sum [2K][n], 0 a row's exponentials, the others what divided.
void sinkhorn_iterates(const float *logits, int64_t n, int64_t num_iters, float eps, float *norm,
                       float *sum);

}  // namespace aclnn
