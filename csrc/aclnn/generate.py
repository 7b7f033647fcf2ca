#!/usr/bin/env python3
"""Writes the C side of the operator tables: checks, entry points and headers.

    python csrc/aclnn/generate.py           write the files
    python csrc/aclnn/generate.py --check   say which files differ, exit status 1 if any does

The tables in src/mhc_ops/aclnn/spec are the source. The files are kept under version control, so
that a build needs no Python; a test keeps them equal to what this writes. Needs neither torch nor
an installed mhc_ops.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import types
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def _load(*names: str) -> list[Any]:
    """Modules of mhc_ops.aclnn, without the package around them, which imports torch."""
    package = types.ModuleType("_aclnn")
    package.__path__ = [str(ROOT / "src" / "mhc_ops" / "aclnn")]
    sys.modules["_aclnn"] = package
    return [importlib.import_module(f"_aclnn.{name}") for name in names]


codes, spec, language, platform = _load("codes", "spec", "spec.language", "platform")

NOTICE = "Written by csrc/aclnn/generate.py from the operator tables; change those instead."
_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "div",
    ast.Mod: "mod",
}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_OF_NUMBERS = ("fact", "align", "ceil_div", "min", "max")
_OF_A_TENSOR = ("rank", "size", "given")


def snake(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Operator:
    """One table on its way to C++."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.tensors = [t.name for t in table.tensors]
        self.attrs = [a.name for a in table.attrs]

    def tensor(self, name: str) -> int:
        return self.tensors.index(name)

    def value(self, text: str) -> str:
        """The formula `text` as a C++ expression over the call `c`."""
        return self._value(ast.parse(text, mode="eval").body)

    def _value(self, node: ast.AST) -> str:
        if isinstance(node, ast.Constant):
            return f"wide({node.value})"
        if isinstance(node, ast.Name):
            return self._symbol(node.id)
        if isinstance(node, ast.BinOp):
            # Braces: C++ evaluates what is in them from left to right, as Python does.
            return (
                f"{_BINARY[type(node.op)]}({{{self._value(node.left)}, {self._value(node.right)}}})"
            )
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.Not):
                return f"wide(!{self._value(node.operand)})"
            assert isinstance(node.operand, ast.Constant)
            return f"wide(-{node.operand.value})"
        if isinstance(node, ast.BoolOp):
            word = " && " if isinstance(node.op, ast.And) else " || "
            return f"wide({word.join(self._value(item) for item in node.values)})"
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            parts = (self._value(item) for item in (node.test, node.body, node.orelse))
            return "({} ? {} : {})".format(*parts)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return self._call(node.func.id, node.args)

    def _symbol(self, name: str) -> str:
        if name in self.table.symbols:
            return f"{name}(c)"
        if name == "T":
            return "c.tokens()"
        if name in self.attrs:
            return f"c.attrs[{self.attrs.index(name)}].whole()"
        assert name in ("aic", "aiv", "ub"), name
        return f"c.{name}"

    def _compare(self, node: ast.Compare) -> str:
        items = [node.left, *node.comparators]
        steps = []
        for i, op in enumerate(node.ops):
            left, right = items[i], items[i + 1]
            if isinstance(op, ast.In):
                assert isinstance(right, ast.Tuple)
                values = ", ".join(self._value(item) for item in right.elts)
                steps.append(f"in({self._value(left)}, {{{values}}})")
            else:
                steps.append(f"{self._value(left)} {_COMPARE[type(op)]} {self._value(right)}")
        return f"wide({' && '.join(steps)})"

    def _call(self, name: str, args: list[ast.expr]) -> str:
        if name in _OF_NUMBERS:
            return f"{name}_of({{{', '.join(self._value(item) for item in args)}}})"
        assert isinstance(args[0], ast.Name)
        tensor = self.tensor(args[0].id)
        if name == "dim":
            return f"c.dim({tensor}, {ast.literal_eval(args[1])})"
        assert name in _OF_A_TENSOR, name
        return f"c.{name}({tensor})"

    def formula(self, text: str) -> str:
        return f"{{{quoted(text)}, VALUE({self.value(text)})}}"

    def numbers(self, names: Any) -> str:
        return "{" + ", ".join(str(self.tensor(name)) for name in names) + "}"

    def form(self, text: str) -> str:
        tokens = []
        for token in text.split():
            if token == "*lead":
                tokens.append("lead_dims()")
            elif token[0] == "*":
                tokens.append(f"dims_of({self.tensor(token[1:])})")
            else:
                tokens.append(f"one_dim(VALUE({self.value(token)}))")
        spelled = "[" + ", ".join(text.replace("*lead", "..").split()) + "]"
        return f"{{{quoted(spelled)}, {{{', '.join(tokens)}}}}}"

    def check(self, check: Any) -> str:
        kind = snake(type(check).__name__)
        arguments = {
            "handles": lambda: [],
            "null": lambda: [self.numbers(check.names)],
            "empty": lambda: [self.numbers(check.names)],
            "all_or_none": lambda: [self.numbers(check.names), str(check.placeholder)],
            "dtype": lambda: [self.numbers(check.names)],
            "format": lambda: [self.numbers(check.names)],
            "same_format": lambda: [self.numbers(check.names)],
            "rank": lambda: [
                str(self.tensor(check.name)),
                "{" + ", ".join(self.formula(r) for r in check.ranks) + "}",
            ],
            "rule": lambda: [
                str(self.tensor(check.tensor)),
                self.formula(check.condition),
                "{" + ", ".join(self.formula(s) for s in spec.symbols(check.condition)) + "}",
            ],
            "shape": lambda: [
                str(self.tensor(check.name)),
                "{" + ", ".join(self.form(s) for s in check.shapes) + "}",
            ],
            "one_of": lambda: [
                str(self.attrs.index(check.attr)),
                "{" + ", ".join(map(str, check.values)) + "}",
            ],
            "in_range": lambda: [
                str(self.attrs.index(check.attr)),
                str(check.low),
                str(check.high),
            ],
        }[kind]()
        made = f"{kind}_check({', '.join(arguments)})"
        if check.when:
            made = f"when({self.formula(check.when)}, {made})"
        status = codes.STATUS_BY_NAME[check.code]
        return made if check.code == "PARAM_INVALID" else f"with_status({status}, {made})"

    def tensor_row(self, t: Any) -> str:
        dtypes = "{" + ", ".join(quoted(d) for d in t.dtypes) + "}"
        model = self.tensor(t.same_dtype_as) if t.same_dtype_as else -1
        output = str(t.kind == "output").lower()
        return f"{{{quoted(t.name)}, {quoted(t.acl)}, {output}, {dtypes}, {model}}}"


def table_file(table: Any) -> str:
    """csrc/aclnn/tables/<operator>.cpp."""
    op = Operator(table)
    out = [f"// {NOTICE}", "// clang-format off: a check a line", '#include "../check.h"', ""]
    out += ["namespace aclnn {", "namespace {", ""]
    out += ["#define VALUE(...) [](const Call &c) -> wide { return (void)c, __VA_ARGS__; }", ""]
    for symbol, text in table.symbols.items():
        out.append(f"inline wide {symbol}(const Call &c) {{ return {op.value(text)}; }}")
    out.append("")
    lists: dict[Any, str] = {}
    for soc, checks in table.op_api.items():
        if checks in lists:
            continue
        lists[checks] = f"checks_{soc}"
        out.append(f"std::vector<Check> checks_{soc}() {{")
        out.append("    return {")
        out += [f"        {op.check(check)}," for check in checks]
        out += ["    };", "}", ""]
    out += ["}  // namespace", "", f"Operator {snake(table.name)}_table() {{"]
    out.append("    Operator op;")
    out.append(f"    op.name = {quoted(table.name)};")
    lead, rest = table.lead
    out += [f"    op.lead = {op.tensor(lead)};", f"    op.lead_rest = {rest};"]
    out.append("    op.tensors = {")
    out += [f"        {op.tensor_row(t)}," for t in table.tensors]
    out.append("    };")
    spelled = ", ".join(quoted(a.acl or a.name) for a in table.attrs)
    out.append(f"    op.attrs = {{{spelled}}};")
    for soc, checks in table.op_api.items():
        workspace = op.formula(table.tiling[soc].workspace)
        out.append(f"    op.rules[{quoted(soc)}] = {{{lists[checks]}(), {workspace}}};")
    out += ["    return op;", "}", "", "}  // namespace aclnn", ""]
    return "\n".join(out)


def tables() -> str:
    """csrc/aclnn/tables.cpp."""
    out = [f"// {NOTICE}", "// clang-format off: a row a line", '#include "check.h"', ""]
    out += ["namespace aclnn {", ""]
    names = [f"{snake(name)}_table()" for name in spec.OPERATORS]
    out += [*(f"Operator {name};" for name in names), ""]
    out += ["const std::vector<Operator> &operators() {"]
    out.append(f"    static const auto *all = new std::vector<Operator>{{{', '.join(names)}}};")
    out += ["    return *all;", "}", "", "const std::vector<Chip> &chips() {"]
    rows = ", ".join(
        f"{{{quoted(soc)}, {', '.join(map(str, platform.platform_of(soc)))}}}" for soc in spec.SOCS
    )
    out.append(f"    static const auto *all = new std::vector<Chip>{{{rows}}};")
    out += ["    return *all;", "}", ""]
    for what, names in (("dtype", codes.DTYPE_NAMES), ("format", codes.FORMAT_NAMES)):
        out += [f"const char *{what}_name(int number) {{", "    switch (number) {"]
        out += [f"        case {number}: return {quoted(name)};" for number, name in names.items()]
        out += ["        default: return nullptr;", "    }", "}", ""]
    private = sorted(n for n, name in codes.FORMAT_NAMES.items() if name in codes.PRIVATE_FORMATS)
    cases = " || ".join(f"format == {number}" for number in private)
    out += [f"bool is_private(int format) {{ return {cases}; }}", "", "}  // namespace aclnn", ""]
    return "\n".join(out)


def _parameters(table: Any, api: Any) -> list[str]:
    listed = []
    for name in api.parameters:
        tensor, attr = table.tensor(name), table.attr(name)
        listed.append(f"const aclTensor *{tensor.acl}" if tensor else f"{attr.type} {attr.acl}")
    return [*listed, "uint64_t *workspaceSize", "aclOpExecutor **executor"]


def _signature(name: str, parameters: list[str]) -> list[str]:
    """A declaration without its end, wrapped at 100 columns."""
    lines = [f"aclnnStatus {name}("]
    for i, parameter in enumerate(parameters):
        last = i == len(parameters) - 1
        piece = parameter + (")" if last else ",")
        if len(lines) > 1 and len(lines[-1]) + 1 + len(piece) <= 99:
            lines[-1] += " " + piece
        else:
            lines.append("    " + piece)
    return lines


_RUN = [
    "void *workspace",
    "uint64_t workspaceSize",
    "aclOpExecutor *executor",
    "aclrtStream stream",
]


def entries() -> str:
    """csrc/aclnn/entries.cpp."""
    apis = [api for table in spec.OPERATORS.values() for api in table.apis]
    out = [f"// {NOTICE}", '#include "call.h"', ""]
    out += [f'#include "aclnnop/{header_name(api)}"' for api in apis]
    out.append("")
    for number, table in enumerate(spec.OPERATORS.values()):
        for api in table.apis:
            tensors = [t.acl for t in table.tensors]
            attrs = ", ".join(
                a.acl if a.name in api.parameters else f"{a.type}({str(a.default).lower()})"
                for a in table.attrs
            )
            out += _signature(f"{api.name}GetWorkspaceSize", _parameters(table, api))
            out[-1] += " {"
            out += [
                f"    return aclnn::first_phase({number}, {quoted(api.name)},",
                *_listed(tensors),
                f"                              {{{attrs}}},",
                "                              workspaceSize, executor);",
            ]
            out += ["}", ""]
            out += _signature(api.name, _RUN)
            out[-1] += " {"
            out += [
                f"    return aclnn::second_phase({quoted(api.name)}, workspace, workspaceSize,",
                "                               executor, stream);",
                "}",
                "",
            ]
    return "\n".join(out)


def _listed(names: list[str]) -> list[str]:
    """A braced argument, wrapped, in the column of first_phase's others."""
    margin = " " * 30
    lines = [margin + "{"]
    for i, name in enumerate(names):
        piece = name + ("}," if i == len(names) - 1 else ",")
        if len(lines[-1]) + 1 + len(piece) > 99:
            lines.append(margin + " " + piece)
        else:
            lines[-1] += ("" if lines[-1].endswith("{") else " ") + piece
    return lines


def header_name(api: Any) -> str:
    return f"{snake(api.name.replace('aclnn', 'aclnn_', 1)).replace('__', '_')}.h"


_BOTH_CALLS = (
    "[..] is [B, S] or [T]. The first call checks everything, sizes the workspace in bytes and "
    "makes the executor, which is good for one second call; that one runs on the stream. Chips, "
    "codes and the order of checks: mhc-ops describe {}."
)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > 94:
            lines.append(indent)
        lines[-1] += (" " if lines[-1].strip() else "") + word
    return lines


def header(table: Any, api: Any) -> str:
    """include/aclnnop/aclnn_<operator>.h."""
    guard = f"MHC_OPS_ACLNNOP_{header_name(api)[:-2].upper()}_H"
    about = [*_wrapped(f"{api.name}: {table.doc}"), ""]
    for name in api.parameters:
        tensor, attr = table.tensor(name), table.attr(name)
        if tensor is None:
            about += _wrapped(f"{attr.acl}: {attr.type}, {attr.doc}.")
            continue
        shape = "[" + ", ".join(tensor.shape.replace("*lead", "..").split()) + "]"
        dtype = (
            f"as {table.tensor(tensor.same_dtype_as).acl}"
            if tensor.same_dtype_as
            else (" or ".join(tensor.dtypes))
        )
        optional = ", optional" if tensor.optional else ""
        about += _wrapped(f"{tensor.acl}: {tensor.kind}{optional}, {shape} {dtype}, {tensor.doc}.")
    about += ["", *_wrapped(_BOTH_CALLS.format(table.name), "")]
    comment = [
        "/* " + about[0],
        *((" * " + line).rstrip() for line in about[1:]),
        " *",
        f" * {NOTICE}",
        " */",
    ]
    declarations = []
    for name, parameters in (
        (f"{api.name}GetWorkspaceSize", _parameters(table, api)),
        (api.name, _RUN),
    ):
        lines = _signature(name, parameters)
        declarations += ["ACL_FUNC_VISIBILITY " + lines[0], *lines[1:-1], lines[-1] + ";", ""]
    return "\n".join(
        [
            *comment,
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            '#include "acl/acl.h"',
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *declarations,
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def files() -> dict[Path, str]:
    made = {Path("csrc/aclnn/tables.cpp"): tables(), Path("csrc/aclnn/entries.cpp"): entries()}
    for table in spec.OPERATORS.values():
        made[Path("csrc/aclnn/tables") / f"{snake(table.name)}.cpp"] = table_file(table)
        for api in table.apis:
            made[Path("include/aclnnop") / header_name(api)] = header(table, api)
    return made


def main(arguments: list[str]) -> int:
    status = 0
    for path, text in files().items():
        target = ROOT / path
        if arguments != ["--check"]:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            print(f"{path} differs from what csrc/aclnn/generate.py writes; run it")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
