#include "views.h"

#include <algorithm>
#include <cstring>

#include "half.h"

namespace aclnn {

namespace {

// Calls body(offset in elements of the view, position) for every row along the last dimension.
template <class Body>
void each_row(const View &view, Body body) {
    const auto &shape = view.shape();
    const auto &strides = view.tensor->strides;
    if (view.count == 0) return;
    if (shape.empty()) return body(int64_t(0), int64_t(0));
    std::vector<int64_t> index(shape.size(), 0);
    int64_t offset = 0, position = 0;
    while (true) {
        body(offset, position);
        position += shape.back();
        int d = int(shape.size()) - 2;
        for (; d >= 0; --d) {
            if (++index[d] < shape[d]) {
                offset += strides[d];
                break;
            }
            offset -= strides[d] * (shape[d] - 1);  // 0 for one element, whose stride may be any
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

// Calls body(byte of the view, byte of the dense copy) for every element.
template <class Body>
void each_element(const View &view, Body body) {
    const int64_t width = view.shape().empty() ? 1 : view.shape().back();
    const int64_t step = view.shape().empty() ? 0 : view.tensor->strides.back();
    each_row(view, [&](int64_t offset, int64_t position) {
        for (int64_t k = 0; k < width; ++k)
            body(view.first + (offset + k * step) * view.item, (position + k) * view.item);
    });
}

void mark(const View &view, std::vector<char> &marks, const char *start) {
    each_element(view, [&](char *at, int64_t) {
        for (int64_t b = 0; b < view.item; ++b) marks[at + b - start] = 1;
    });
}

float as_float(int dtype, uint16_t half) {
    return dtype == ACL_BF16 ? bf16_to_float(half) : fp16_to_float(half);
}

uint16_t rounded(int dtype, float value) {
    return dtype == ACL_BF16 ? float_to_bf16(value) : float_to_fp16(value);
}

}  // namespace

int64_t View::dim(int index) const {
    return shape()[index < 0 ? index + int(shape().size()) : index];
}

int64_t View::elements_after(int index) const {
    int64_t total = 1;
    for (size_t d = index; d < shape().size(); ++d) total *= shape()[d];
    return total;
}

View view_of(const TensorPtr &tensor, const std::string &name) {
    View view;
    if (!tensor) return view;
    view.tensor = tensor;
    const auto &shape = tensor->desc.shape;
    view.item = int64_t(aclDataTypeSize(aclDataType(tensor->desc.dtype)));
    if (!view.item) throw Refused{name + " has a dtype without a size"};
    if (!tensor->data) throw Refused{name + " has no memory, its tensorData is null"};
    view.block = process().device.holding(tensor->data);
    if (!view.block) throw Refused{name + " lies in no memory of aclrtMalloc, or it was freed"};
    if (reinterpret_cast<uintptr_t>(tensor->data) % view.item)
        throw Refused{name + " starts at a byte that its dtype cannot address"};
    const wide count = product(shape);
    wide last = tensor->offset;
    bool contiguous = true;
    wide step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
        last = add({last, mul({wide(shape[d]) - 1, tensor->strides[d]})});
        contiguous = contiguous && (shape[d] == 1 || tensor->strides[d] == step);
        step = mul({step, shape[d]});
    }
    const auto base = static_cast<char *>(tensor->data);
    const wide room = view.block->data + view.block->size - base;
    const wide needed = count == 0 ? 0 : mul({add({last, 1}), view.item});
    if (needed > room)
        throw Refused{name + " needs " + in_brackets(std::vector<wide>{needed}) +
                      " bytes of memory, there are " + in_brackets(std::vector<wide>{room})};
    if (count > INT64_MAX / 16) throw Refused{name + " has more elements than memory has bytes"};
    view.count = int64_t(count);
    view.contiguous = contiguous || count == 0;
    view.first = count ? base + tensor->offset * view.item : base;
    view.end = count ? base + int64_t(needed) : base;
    return view;
}

bool may_overlap(const View &a, const View &b) {
    return a && b && a.count && b.count && a.first < b.end && b.first < a.end;
}

bool share_bytes(const View &a, const View &b) {
    if (!may_overlap(a, b)) return false;
    if (a.contiguous && b.contiguous) return true;
    const char *start = std::min(a.first, b.first);
    std::vector<char> marks(std::max(a.end, b.end) - start, 0);
    mark(a, marks, start);
    bool shared = false;
    each_element(b, [&](char *at, int64_t) {
        for (int64_t k = 0; k < b.item; ++k) shared = shared || marks[at + k - start];
    });
    return shared;
}

bool overlaps_itself(const View &view) {
    if (!view || view.contiguous) return false;
    std::vector<char> marks(view.end - view.first, 0);
    mark(view, marks, view.first);
    int64_t marked = 0;
    for (char each : marks) marked += each;
    return marked < view.count * view.item;
}

Operands::Operands(std::vector<View> views, std::vector<bool> outputs)
    : views_(std::move(views)), outputs_(std::move(outputs)) {}

char *Operands::bytes(int64_t size) {
    memory_.push_back(std::make_unique<Block>(size_t(std::max<int64_t>(size, 1))));
    return memory_.back()->data;
}

float *Operands::scratch(int64_t count) { return reinterpret_cast<float *>(bytes(4 * count)); }

const void *Operands::dense(int i) {
    const View &view = views_[i];
    if (!view || view.contiguous) return view.first;
    char *copy = bytes(view.count * view.item);
    each_element(view, [&](const char *at, int64_t to) { std::memcpy(copy + to, at, view.item); });
    return copy;
}

const float *Operands::input_as_float(int i) {
    const View &view = views_[i];
    const void *from = dense(i);
    if (view.dtype() == ACL_FLOAT) return static_cast<const float *>(from);
    float *wider = scratch(view.count);
    for (int64_t k = 0; k < view.count; ++k)
        wider[k] = as_float(view.dtype(), static_cast<const uint16_t *>(from)[k]);
    return wider;
}

void *Operands::place(int i, bool keep) {
    const View &view = views_[i];
    if (!view) return nullptr;
    bool direct = view.contiguous;
    for (size_t k = 0; k < views_.size(); ++k)
        direct = direct && (outputs_[k] || !may_overlap(view, views_[k]));
    if (direct) return view.first;
    char *beside = bytes(view.count * view.item);
    if (keep)
        each_element(view,
                     [&](const char *at, int64_t to) { std::memcpy(beside + to, at, view.item); });
    pending_.push_back({i, beside, false});
    return beside;
}

float *Operands::output_from_float(int i) {
    float *beside = scratch(views_[i].count);
    pending_.push_back({i, reinterpret_cast<const char *>(beside), true});
    return beside;
}

void Operands::zero(int i) {
    if (views_[i]) std::memset(place(i, false), 0, views_[i].count * views_[i].item);
}

void Operands::finish() {
    for (const Pending &pending : pending_) {
        const View &view = views_[pending.view];
        each_element(view, [&](char *at, int64_t from) {
            if (!pending.from_float) {
                std::memcpy(at, pending.from + from, view.item);
                return;
            }
            const float value = reinterpret_cast<const float *>(pending.from)[from / view.item];
            const uint16_t half = rounded(view.dtype(), value);
            std::memcpy(at, &half, sizeof half);
        });
    }
}

}  // namespace aclnn
