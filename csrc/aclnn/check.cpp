#include "check.h"

#include <algorithm>

namespace aclnn {

namespace {

constexpr wide kMost = (wide(1) << 126);

std::string digits(wide value) {
    if (value < 0) return "-" + digits(-value);
    std::string text;
    do {
        text.insert(text.begin(), char('0' + int(value % 10)));
        value /= 10;
    } while (value);
    return text;
}

template <class T>
std::string bracketed(const std::vector<T> &sizes) {
    std::string text = "[";
    for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + digits(sizes[i]);
    return text + "]";
}

std::string joined(const std::vector<std::string> &words, const char *between) {
    std::string text;
    for (size_t i = 0; i < words.size(); ++i) text += (i ? between : "") + words[i];
    return text;
}

std::string spelled(const Call &call, int tensor) { return call.op->tensors[tensor].acl; }

std::string named(const char *name, int number) { return name ? name : std::to_string(number); }

const Desc *given(const Call &call, int tensor) { return call.descs[tensor]; }

std::vector<wide> sizes_of(const Form &form, const Call &call) {
    std::vector<wide> sizes;
    for (const Dims &dims : form.dims) {
        if (dims.one) {
            sizes.push_back(dims.one(call));
        } else if (dims.tensor < 0) {
            for (wide size : call.lead()) sizes.push_back(size);
        } else {
            for (int64_t size : call.shape(dims.tensor)) sizes.push_back(size);
        }
    }
    return sizes;
}

bool equal(const std::vector<int64_t> &shape, const std::vector<wide> &sizes) {
    return std::equal(shape.begin(), shape.end(), sizes.begin(), sizes.end());
}

}  // namespace

wide add(Two t) {
    wide sum;
    return __builtin_add_overflow(t.a, t.b, &sum) ? kMost : std::min(sum, kMost);
}
wide sub(Two t) { return t.a - t.b; }
wide mul(Two t) {
    wide product;
    return __builtin_mul_overflow(t.a, t.b, &product) ? kMost : std::min(product, kMost);
}
wide div(Two t) {
    if (t.b == 0) throw Missing{"a size of 0 divides"};
    return t.a / t.b;
}
wide mod(Two t) {
    if (t.b == 0) throw Missing{"a size of 0 divides"};
    return t.a % t.b;
}
wide ceil_div_of(Two t) { return div({add({t.a, t.b - 1}), t.b}); }
wide align_of(Two t) { return mul({ceil_div_of(t), t.b}); }
wide min_of(Two t) { return std::min(t.a, t.b); }
wide max_of(Two t) { return std::max(t.a, t.b); }
wide fact_of(One t) {
    if (t.a < 0 || t.a > 20) return INT64_MAX;
    wide product = 1;
    for (wide k = 2; k <= t.a; ++k) product *= k;
    return product;
}
bool in(wide value, std::initializer_list<wide> values) {
    return std::find(values.begin(), values.end(), value) != values.end();
}

std::string in_brackets(const std::vector<int64_t> &sizes) { return bracketed(sizes); }
std::string in_brackets(const std::vector<wide> &sizes) { return bracketed(sizes); }

wide product(const std::vector<int64_t> &sizes) {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
    wide total = 1;
    for (int64_t size : sizes) total = mul({total, size});
    return total;
}

const std::vector<int64_t> &Call::shape(int tensor) const {
    if (!descs[tensor]) throw Missing{spelled(*this, tensor) + " must not be null"};
    return descs[tensor]->shape;
}

wide Call::rank(int tensor) const { return wide(shape(tensor).size()); }

wide Call::dim(int tensor, int index) const {
    const auto &sizes = shape(tensor);
    const int count = int(sizes.size());
    if (index < -count || index >= count)
        throw Missing{spelled(*this, tensor) + " has too few dimensions: " + in_brackets(sizes)};
    return sizes[index < 0 ? index + count : index];
}

wide Call::size(int tensor) const { return product(shape(tensor)); }

wide Call::given(int tensor) const { return descs[tensor] != nullptr; }

std::vector<wide> Call::lead() const {
    const auto &sizes = shape(op->lead);
    const int64_t count = int64_t(sizes.size());
    int64_t kept = count - op->lead_rest;
    if (kept < 0) kept = std::max<int64_t>(0, count + kept);
    return std::vector<wide>(sizes.begin(), sizes.begin() + kept);
}

wide Call::tokens() const {
    wide total = 1;
    bool none = false;
    for (wide size : lead()) {
        none = none || size == 0;
        total = mul({total, size});
    }
    return none ? 0 : total;
}

Dims lead_dims() { return {-1, nullptr}; }
Dims dims_of(int tensor) { return {tensor, nullptr}; }
Dims one_dim(Evaluate value) { return {-1, value}; }

Check with_status(int status, Check check) {
    check.status = status;
    return check;
}

Check when(Formula condition, Check check) {
    check.when = condition;
    return check;
}

Check handles_check() {
    return {[](const Call &call) -> std::string {
        if (!call.has_workspace_size) return "workspaceSize must not be a null pointer";
        return call.has_executor ? "" : "executor must not be a null pointer";
    }};
}

Check null_check(std::vector<int> names) {
    return {[names](const Call &call) -> std::string {
        for (int name : names)
            if (!given(call, name)) return spelled(call, name) + " must not be null";
        return "";
    }};
}

Check empty_check(std::vector<int> names) {
    return {[names](const Call &call) -> std::string {
        for (int name : names) {
            const Desc *desc = given(call, name);
            if (desc && product(desc->shape) == 0)
                return spelled(call, name) + " must not be empty, got " + in_brackets(desc->shape);
        }
        return "";
    }};
}

Check all_or_none_check(std::vector<int> names, int64_t placeholder) {
    return {[names, placeholder](const Call &call) -> std::string {
        std::vector<std::string> all, found;
        for (int name : names) {
            all.push_back(spelled(call, name));
            const Desc *desc = given(call, name);
            if (desc && product(desc->shape) != placeholder) found.push_back(all.back());
        }
        if (found.empty() || found.size() == all.size()) return "";
        return joined(all, ", ") + " must be all given or all null, got " + joined(found, ", ") +
               " alone";
    }};
}

Check rank_check(int name, std::vector<Formula> ranks) {
    return {[name, ranks](const Call &call) -> std::string {
        const Desc *desc = given(call, name);
        if (!desc) return "";
        std::vector<wide> allowed;
        for (const Formula &rank : ranks) allowed.push_back(rank.value(call));
        std::sort(allowed.begin(), allowed.end());
        allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
        std::vector<std::string> words;
        for (wide rank : allowed) {
            if (rank == wide(desc->shape.size())) return "";
            words.push_back(digits(rank));
        }
        return spelled(call, name) + " must have " + joined(words, " or ") + " dimensions, got " +
               digits(desc->shape.size()) + ": " + in_brackets(desc->shape);
    }};
}

Check rule_check(int tensor, Formula condition, std::vector<Formula> symbols) {
    return {[tensor, condition, symbols](const Call &call) -> std::string {
        if (condition.value(call)) return "";
        std::vector<std::string> values;
        for (const Formula &symbol : symbols)
            values.push_back(std::string(symbol.text) + " = " + digits(symbol.value(call)));
        return spelled(call, tensor) + " must satisfy " + condition.text + ", got " +
               joined(values, ", ") + " from " + in_brackets(call.shape(tensor));
    }};
}

Check shape_check(int name, std::vector<Form> forms) {
    return {[name, forms](const Call &call) -> std::string {
        const Desc *desc = given(call, name);
        if (!desc) return "";
        std::vector<std::string> words;
        bool fits = false;
        for (const Form &form : forms) {
            const auto sizes = sizes_of(form, call);
            fits = fits || equal(desc->shape, sizes);
            words.push_back(std::string(form.text) + " = " + in_brackets(sizes));
        }
        if (fits) return "";
        return spelled(call, name) + " must be " + joined(words, " or ") + ", got " +
               in_brackets(desc->shape);
    }};
}

Check dtype_check(std::vector<int> names) {
    return {[names](const Call &call) -> std::string {
        for (int name : names) {
            const Desc *desc = given(call, name);
            if (!desc) continue;
            const TensorRow &row = call.op->tensors[name];
            const std::string dtype = named(dtype_name(desc->dtype), desc->dtype);
            if (std::find(row.dtypes.begin(), row.dtypes.end(), dtype) == row.dtypes.end())
                return std::string(row.acl) + " must be " + joined(row.dtypes, " or ") + ", got " +
                       dtype;
            if (row.same_dtype_as < 0) continue;
            const Desc *model = given(call, row.same_dtype_as);
            if (model && model->dtype != desc->dtype)
                return std::string(row.acl) + " must have the dtype of " +
                       spelled(call, row.same_dtype_as) + ", " +
                       named(dtype_name(model->dtype), model->dtype) + ", got " + dtype;
        }
        return "";
    }};
}

Check format_check(std::vector<int> names) {
    return {[names](const Call &call) -> std::string {
        for (int name : names) {
            const Desc *desc = given(call, name);
            if (desc && is_private(desc->format))
                return spelled(call, name) + " has the private format " +
                       named(format_name(desc->format), desc->format) + "; use ND";
        }
        return "";
    }};
}

Check same_format_check(std::vector<int> names) {
    return {[names](const Call &call) -> std::string {
        int first = -1;
        for (int name : names) {
            const Desc *desc = given(call, name);
            if (!desc) continue;
            if (first < 0) first = name;
            const int format = given(call, first)->format;
            if (desc->format != format)
                return spelled(call, name) + " must have the format of " + spelled(call, first) +
                       ", " + named(format_name(format), format) + ", got " +
                       named(format_name(desc->format), desc->format);
        }
        return "";
    }};
}

Check one_of_check(int attr, std::vector<int64_t> values) {
    return {[attr, values](const Call &call) -> std::string {
        const int64_t value = call.attrs[attr].integer;
        std::vector<std::string> words;
        for (int64_t allowed : values) {
            if (value == allowed) return "";
            words.push_back(digits(allowed));
        }
        return std::string(call.op->attrs[attr]) + " must be " + joined(words, " or ") +
               " here, got " + digits(value);
    }};
}

Check in_range_check(int attr, int64_t low, int64_t high) {
    return {[attr, low, high](const Call &call) -> std::string {
        const int64_t value = call.attrs[attr].integer;
        if (low <= value && value <= high) return "";
        return std::string(call.op->attrs[attr]) + " must be in " + digits(low) + ".." +
               digits(high) + ", got " + digits(value);
    }};
}

Failure first_failure(const Call &call, const std::vector<Check> &checks) {
    for (const Check &check : checks) {
        std::string problem;
        try {
            if (check.when.value && !check.when.value(call)) continue;
            problem = check.problem(call);
        } catch (const Missing &missing) {
            problem = missing.message;
        }
        if (!problem.empty()) return {check.status, call.label + ": " + problem + "."};
    }
    return {-1, ""};
}

}  // namespace aclnn
