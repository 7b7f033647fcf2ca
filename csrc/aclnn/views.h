// Tensors of a call on their memory, as the kernels take them: dense, one after the other.
#pragma once

#include <memory>
#include <vector>

#include "objects.h"

namespace aclnn {

// What the first call lets through and the operator cannot compute.
struct Refused {
    std::string message;
};

struct View {
    TensorPtr tensor;  // null: not given
    BlockPtr block;
    char *first = nullptr;  // the first element
    int64_t item = 0, count = 0;
    bool contiguous = false;
    char *end = nullptr;  // behind the last byte

    explicit operator bool() const { return tensor != nullptr; }
    const std::vector<int64_t> &shape() const { return tensor->desc.shape; }
    int dtype() const { return tensor->desc.dtype; }
    int64_t dim(int index) const;  // negative: from the end
    int64_t elements_after(int index) const;
};

// The tensor on its memory; Refused where it has none or reaches outside. `name` is for messages.
View view_of(const TensorPtr &tensor, const std::string &name);

bool may_overlap(const View &a, const View &b);
bool share_bytes(const View &a, const View &b);
bool overlaps_itself(const View &view);

// Inputs copied to dense memory where they are strided; outputs computed beside their place where
// they are strided or lie on an input, and put there by finish().
class Operands {
public:
    Operands(std::vector<View> views, std::vector<bool> outputs);
    const View &operator[](int i) const { return views_[i]; }

    template <class T = void>
    const T *input(int i) {  // null for a tensor that is not given
        return static_cast<const T *>(dense(i));
    }
    const float *input_as_float(int i);

    // keep: what is not written must stay as it is.
    template <class T = void>
    T *output(int i, bool keep = false) {
        return static_cast<T *>(place(i, keep));
    }
    float *output_from_float(int i);  // rounded to its dtype by finish()
    float *scratch(int64_t count);
    void zero(int i);
    void finish();

private:
    const void *dense(int i);
    void *place(int i, bool keep);
    char *bytes(int64_t size);

    struct Pending {
        int view;
        const char *from;
        bool from_float;
    };
    std::vector<View> views_;
    std::vector<bool> outputs_;
    std::vector<std::unique_ptr<Block>> memory_;
    std::vector<Pending> pending_;
};

}  // namespace aclnn
