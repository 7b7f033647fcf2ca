// aclTensor and aclScalar: made, asked and destroyed.
#include <algorithm>
#include <cstring>

#include "half.h"
#include "objects.h"

using aclnn::answered;
using aclnn::fail;
using aclnn::process;

namespace {

aclnnStatus no_tensor(const char *name, const void *tensor) {
    if (!tensor)
        return fail(ACLNN_ERR_PARAM_NULLPTR, std::string(name) + ": tensor must not be null.");
    return fail(ACLNN_ERR_PARAM_INVALID,
                std::string(name) + ": no such tensor, or it was destroyed.");
}

// Looks the tensor up and hands it on, unless a pointer to fill is null.
template <class Body>
aclnnStatus ask(const char *name, const aclTensor *handle, bool places, Body body) {
    return answered(ACLNN_ERR_INNER_NULLPTR, [&]() -> int {
        const auto tensor = process().tensors.find(handle);
        if (!tensor) return no_tensor(name, handle);
        if (!places)
            return fail(ACLNN_ERR_PARAM_NULLPTR,
                        std::string(name) + ": a pointer to fill is null.");
        body(*tensor);
        return ACLNN_SUCCESS;
    });
}

void hand_out(const std::vector<int64_t> &sizes, int64_t **values, uint64_t *count) {
    *values = new int64_t[sizes.size()];
    std::copy(sizes.begin(), sizes.end(), *values);
    *count = sizes.size();
}

bool negative(const std::vector<int64_t> &sizes) {
    return std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
}

std::vector<int64_t> contiguous(const std::vector<int64_t> &shape) {
    std::vector<int64_t> strides(shape.size());
    aclnn::wide step = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        strides[i] = int64_t(std::min<aclnn::wide>(step, INT64_MAX));
        step = aclnn::mul({step, shape[i]});
    }
    return strides;
}

// More dimensions than any call takes; a count above it is a mistake, not a tensor.
constexpr uint64_t kMostDims = 64;

}  // namespace

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t *stride, int64_t offset, aclFormat format,
                           const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData) {
    aclTensor *handle = nullptr;
    answered(ACL_ERROR_BAD_ALLOC, [&]() -> int {
        std::string problem;
        if ((!viewDims && viewDimsNum) || (!storageDims && storageDimsNum))
            problem = "viewDims and storageDims must not be null";
        else if (viewDimsNum > kMostDims || storageDimsNum > kMostDims)
            problem = "at most " + std::to_string(kMostDims) + " dimensions are possible";
        if (problem.empty()) {
            auto tensor = std::make_shared<aclnn::Tensor>();
            tensor->desc.dtype = int(dataType);
            tensor->desc.format = int(format);
            tensor->desc.shape.assign(viewDims, viewDims + viewDimsNum);
            tensor->storage.assign(storageDims, storageDims + storageDimsNum);
            if (stride)
                tensor->strides.assign(stride, stride + viewDimsNum);
            else if (!negative(tensor->desc.shape))
                tensor->strides = contiguous(tensor->desc.shape);
            tensor->offset = offset;
            tensor->data = tensorData;
            if (negative(tensor->desc.shape) || negative(tensor->storage) ||
                negative(tensor->strides) || offset < 0)
                problem = "sizes, strides and offset must not be negative, got viewDims " +
                          aclnn::in_brackets(tensor->desc.shape) + ", stride " +
                          aclnn::in_brackets(tensor->strides) + ", offset " +
                          std::to_string(offset) + ", storageDims " +
                          aclnn::in_brackets(tensor->storage);
            else if (!aclnn::dtype_name(int(dataType)))
                problem =
                    "dataType must be an ACL dtype number, got " + std::to_string(int(dataType));
            else if (!aclnn::format_name(int(format)))
                problem = "format must be an ACL format number, got " + std::to_string(int(format));
            else
                handle = static_cast<aclTensor *>(process().tensors.add(tensor));
        }
        if (problem.empty()) return ACL_SUCCESS;
        return fail(ACL_ERROR_INVALID_PARAM, "aclCreateTensor: " + problem + ".");
    });
    return handle;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
    return answered(ACLNN_ERR_INNER_NULLPTR, [&]() -> int {
        if (!tensor) return ACLNN_SUCCESS;
        return process().tensors.take(tensor) ? int(ACLNN_SUCCESS)
                                              : no_tensor("aclDestroyTensor", tensor);
    });
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
    return ask("aclGetViewShape", tensor, viewDims && viewDimsNum,
               [&](const aclnn::Tensor &t) { hand_out(t.desc.shape, viewDims, viewDimsNum); });
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                               uint64_t *storageDimsNum) {
    return ask("aclGetStorageShape", tensor, storageDims && storageDimsNum,
               [&](const aclnn::Tensor &t) { hand_out(t.storage, storageDims, storageDimsNum); });
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue,
                              uint64_t *stridesNum) {
    return ask("aclGetViewStrides", tensor, stridesValue && stridesNum,
               [&](const aclnn::Tensor &t) { hand_out(t.strides, stridesValue, stridesNum); });
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset) {
    return ask("aclGetViewOffset", tensor, offset,
               [&](const aclnn::Tensor &t) { *offset = t.offset; });
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format) {
    return ask("aclGetFormat", tensor, format,
               [&](const aclnn::Tensor &t) { *format = aclFormat(t.desc.format); });
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType) {
    return ask("aclGetDataType", tensor, dataType,
               [&](const aclnn::Tensor &t) { *dataType = aclDataType(t.desc.dtype); });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr) {
    return ask("aclGetRawTensorAddr", tensor, addr,
               [&](const aclnn::Tensor &t) { *addr = t.data; });
}

aclScalar *aclCreateScalar(void *value, aclDataType dataType) {
    aclScalar *handle = nullptr;
    answered(ACL_ERROR_BAD_ALLOC, [&]() -> int {
        const size_t size = aclDataTypeSize(dataType);
        if (!value || !size)
            return fail(ACL_ERROR_INVALID_PARAM,
                        "aclCreateScalar: value must not be null and dataType must have a size.");
        auto scalar = std::make_shared<aclnn::Scalar>();
        scalar->bytes.assign(static_cast<char *>(value), static_cast<char *>(value) + size);
        handle = static_cast<aclScalar *>(process().scalars.add(scalar));
        return ACL_SUCCESS;
    });
    return handle;
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar) {
    return answered(ACLNN_ERR_INNER_NULLPTR, [&]() -> int {
        if (!scalar || process().scalars.take(scalar)) return ACLNN_SUCCESS;
        return fail(ACLNN_ERR_PARAM_INVALID,
                    "aclDestroyScalar: no such scalar, or it was destroyed.");
    });
}

size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL:
            return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
            return 4;
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_DOUBLE:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        default:
            return 0;
    }
}

float aclFloat16ToFloat(aclFloat16 value) { return aclnn::fp16_to_float(value); }
aclFloat16 aclFloatToFloat16(float value) { return aclnn::float_to_fp16(value); }
