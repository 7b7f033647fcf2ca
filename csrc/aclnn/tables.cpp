// Written by csrc/aclnn/generate.py from the operator tables; change those instead.
// clang-format off: a row a line
#include "check.h"

namespace aclnn {

Operator mhc_pre_table();
Operator mhc_pre_backward_table();
Operator mhc_post_table();
Operator mhc_post_backward_table();
Operator mhc_sinkhorn_table();
Operator mhc_sinkhorn_backward_table();
Operator mhc_pre_sinkhorn_table();
Operator mhc_pre_sinkhorn_backward_table();

const std::vector<Operator> &operators() {
    static const auto *all = new std::vector<Operator>{mhc_pre_table(), mhc_pre_backward_table(), mhc_post_table(), mhc_post_backward_table(), mhc_sinkhorn_table(), mhc_sinkhorn_backward_table(), mhc_pre_sinkhorn_table(), mhc_pre_sinkhorn_backward_table()};
    return *all;
}

const std::vector<Chip> &chips() {
    static const auto *all = new std::vector<Chip>{{"ascend950", 32, 64, 262144}, {"ascend910b", 24, 48, 196608}, {"ascend910_93", 24, 48, 196608}};
    return *all;
}

const char *dtype_name(int number) {
    switch (number) {
        case 0: return "FLOAT";
        case 1: return "FLOAT16";
        case 2: return "INT8";
        case 3: return "INT32";
        case 4: return "UINT8";
        case 6: return "INT16";
        case 7: return "UINT16";
        case 8: return "UINT32";
        case 9: return "INT64";
        case 10: return "UINT64";
        case 11: return "DOUBLE";
        case 12: return "BOOL";
        case 13: return "STRING";
        case 16: return "COMPLEX64";
        case 17: return "COMPLEX128";
        case 27: return "BFLOAT16";
        default: return nullptr;
    }
}

const char *format_name(int number) {
    switch (number) {
        case -1: return "UNDEFINED";
        case 0: return "NCHW";
        case 1: return "NHWC";
        case 2: return "ND";
        case 3: return "NC1HWC0";
        case 4: return "FRACTAL_Z";
        case 12: return "NC1HWC0_C04";
        case 16: return "HWCN";
        case 27: return "NDHWC";
        case 29: return "FRACTAL_NZ";
        case 30: return "NCDHW";
        case 32: return "NDC1HWC0";
        case 33: return "FRACTAL_Z_3D";
        case 35: return "NC";
        case 47: return "NCL";
        default: return nullptr;
    }
}

bool is_private(int format) { return format == 3 || format == 4 || format == 12 || format == 29 || format == 32 || format == 33; }

}  // namespace aclnn
