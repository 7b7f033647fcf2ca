// The checks of an operator's table, and the call that they look at. Rules, codes, their order and
// the words of a failure are those of mhc_ops.aclnn.validation.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace aclnn {

// Sizes are 64-bit; their products saturate here instead of wrapping.
using wide = __int128;

struct Desc {
    int dtype, format;
    std::vector<int64_t> shape;
};

// An attribute: what the C prototype passes.
struct Value {
    double number;
    int64_t integer;
    Value(double v) : number(v), integer(0) {}
    Value(float v) : number(v), integer(0) {}
    Value(int64_t v) : number(double(v)), integer(v) {}
    Value(bool v) : number(v), integer(v) {}
    wide whole() const { return integer; }
};

struct Operator;

// A formula needs a dimension of a tensor that is null or has too few of them.
struct Missing {
    std::string message;
};

struct Call {
    const Operator *op;
    std::string label;
    std::vector<const Desc *> descs;  // null: a null tensor
    std::vector<Value> attrs;
    bool has_workspace_size, has_executor;
    wide aic, aiv, ub;

    const std::vector<int64_t> &shape(int tensor) const;
    wide rank(int tensor) const;
    wide dim(int tensor, int index) const;
    wide size(int tensor) const;
    wide given(int tensor) const;
    std::vector<wide> lead() const;
    wide tokens() const;
};

using Evaluate = wide (*)(const Call &);

struct Formula {
    const char *text;
    Evaluate value;
};

// Part of a shape: the leading dimensions, all dimensions of a tensor, or one dimension.
struct Dims {
    int tensor;
    Evaluate one;
};
Dims lead_dims();
Dims dims_of(int tensor);
Dims one_dim(Evaluate value);

struct Form {
    const char *text;
    std::vector<Dims> dims;
};

struct Check {
    // What is wrong, as the rest of a sentence; empty if nothing is.
    std::function<std::string(const Call &)> problem;
    int status = 161002;
    Formula when = {nullptr, nullptr};
};

Check with_status(int status, Check check);
Check when(Formula condition, Check check);
Check handles_check();
Check null_check(std::vector<int> names);
Check empty_check(std::vector<int> names);
Check all_or_none_check(std::vector<int> names, int64_t placeholder);
Check rank_check(int name, std::vector<Formula> ranks);
Check rule_check(int tensor, Formula condition, std::vector<Formula> symbols);
Check shape_check(int name, std::vector<Form> forms);
Check dtype_check(std::vector<int> names);
Check format_check(std::vector<int> names);
Check same_format_check(std::vector<int> names);
Check one_of_check(int attr, std::vector<int64_t> values);
Check in_range_check(int attr, int64_t low, int64_t high);

struct TensorRow {
    const char *name, *acl;
    bool output;
    std::vector<std::string> dtypes;
    int same_dtype_as;  // -1: none
};

struct Rules {
    std::vector<Check> checks;
    Formula workspace;
};

struct Operator {
    const char *name;
    int lead, lead_rest;
    std::vector<TensorRow> tensors;
    std::vector<const char *> attrs;  // as messages spell them
    std::map<std::string, Rules> rules;
};

struct Chip {
    std::string name;
    int64_t aic, aiv, ub;
};

// Written by generate.py.
const std::vector<Operator> &operators();
const std::vector<Chip> &chips();
const char *dtype_name(int number);  // null for an unknown number
const char *format_name(int number);
bool is_private(int format);

struct Failure {
    int status;
    std::string message;
};

// The first check that the call fails; status -1 if there is none. 0 is a status too: the call is
// good and there is nothing to compute.
Failure first_failure(const Call &call, const std::vector<Check> &checks);

std::string in_brackets(const std::vector<int64_t> &sizes);
std::string in_brackets(const std::vector<wide> &sizes);
wide product(const std::vector<int64_t> &sizes);

struct Two {
    wide a, b;
};
wide add(Two);
wide sub(Two);
wide mul(Two);
wide div(Two);
wide mod(Two);
wide align_of(Two);
wide ceil_div_of(Two);
wide min_of(Two);
wide max_of(Two);
struct One {
    wide a;
};
wide fact_of(One);
bool in(wide value, std::initializer_list<wide> values);

}  // namespace aclnn
