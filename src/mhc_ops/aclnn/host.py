"""infershape and tiling: what the host side answers before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import ArgumentError
from .codes import FORMAT_NAMES, GRAPH_FAILED, GRAPH_SUCCESS
from .platform import Platform, check_soc, current_soc, platform_of
from .spec import OPERATORS, evaluate
from .spec.language import OperatorSpec, Tiling
from .tensor import aclTensor, dtype_name, from_torch
from .validation import Call, Desc, first_failure

TensorLike = Desc | aclTensor | Tensor | Mapping[str, Any] | Sequence[int] | None
"""A tensor: a handle, a torch tensor, {"dtype", "shape"[, "format"]}, a bare shape, or None."""


class InferredShapes(NamedTuple):
    """Answer of `infer_shape`. shapes and dtypes go by the output's snake case name."""

    status: int
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]
    message: str


class TilingResult(NamedTuple):
    """Answer of `tiling`.

    tiling_key is None, and a name is absent from data, where nothing is published about it.
    workspace is in bytes; workspace_rule says whether that number is published ("exact"), only
    its lower bound is ("bound"), or it is ours ("none").
    """

    status: int
    tiling_key: int | None
    workspace: int
    workspace_rule: str
    data: dict[str, int]
    message: str


def operator(name: str) -> OperatorSpec:
    """The table of an operator. Raises ArgumentError for a name that has none."""
    if name not in OPERATORS:
        raise ArgumentError(f"op must be one of {', '.join(OPERATORS)}, got {name!r}.")
    return OPERATORS[name]


def describe_tensor(value: TensorLike, what: str) -> Desc | None:
    """The Desc of any TensorLike; a bare shape gets an empty dtype."""
    if value is None or isinstance(value, Desc):
        return value
    if isinstance(value, Tensor):
        value = from_torch(value)
    if isinstance(value, aclTensor):
        return value.desc
    if isinstance(value, Mapping):
        if "shape" not in value:
            raise ArgumentError(
                f"{what}: expected a 'shape' beside the 'dtype', got {dict(value)}."
            )
        dtype, form = value.get("dtype", ""), value.get("format", "ND")
        dtype = dtype if isinstance(dtype, str) else dtype_name(dtype)
        form = form if isinstance(form, str) else FORMAT_NAMES.get(form, str(form))
        return Desc(
            dtype.removeprefix("ACL_").replace("BF16", "BFLOAT16"),
            tuple(value["shape"]),
            form.removeprefix("ACL_FORMAT_"),
        )
    return Desc("", tuple(value))


def _descs(
    op: OperatorSpec, tensors: Mapping[str, TensorLike], kind: str
) -> dict[str, Desc | None]:
    descs: dict[str, Desc | None] = {}
    for name, value in tensors.items():
        spec = op.tensor(name)
        if spec is None or spec.kind != kind:
            raise ArgumentError(
                f"{op.name}: {name!r} is no {kind}; {kind}s are {', '.join(op.names(kind))}."
            )
        descs[spec.name] = describe_tensor(value, f"{op.name}: {name}")
    return descs


def attributes(op: OperatorSpec, attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes by snake case name, defaults filled in."""
    values: dict[str, Any] = {a.name: a.default for a in op.attrs}
    for name, value in (attrs or {}).items():
        spec = op.attr(name)
        if spec is None:
            known = f"they are {', '.join(values)}" if values else "it has none"
            raise ArgumentError(f"{op.name}: {name!r} is no attribute; {known}.")
        if not is_of_type(value, spec.type):
            what = {"bool": "true or false", "int64_t": "an integer"}.get(spec.type, "a number")
            raise ArgumentError(f"{op.name}: {name} must be {what}, got {value!r}.")
        values[spec.name] = value
    return values


def is_of_type(value: object, type_: str) -> bool:
    """Whether a C parameter of this type takes the value: an int passes for a double."""
    if isinstance(value, bool) or type_ == "bool":
        return type_ == "bool" and isinstance(value, (bool, int)) and value in (0, 1)
    return isinstance(value, int if type_ == "int64_t" else (int, float))


def infer_shape(
    op: str, inputs: Mapping[str, TensorLike], attrs: Mapping[str, Any] | None = None
) -> InferredShapes:
    """Shapes and dtypes of an operator's outputs, as its host code infers them.

    Args:
        op: name of the operator, "MhcPre" say.
        inputs: TensorLike by name, in snake case or aclnn spelling; a missing one is null. -1 is
            an unknown dimension and [-2] an unknown rank; they pass through.
        attrs: attributes by name.
    Returns:
        InferredShapes with status GRAPH_SUCCESS, or GRAPH_FAILED and the reason in `message`.
    Raises ArgumentError for names that the operator does not have.
    """
    table = operator(op)
    descs = _descs(table, inputs, "input")
    call = Call(table, op, descs, attributes(table, attrs), dynamic=True)
    rules = table.infershape
    failure = first_failure(call, rules.checks)
    if failure:
        return InferredShapes(GRAPH_FAILED, {}, {}, failure.message)
    shapes = {
        name: call.shape(next(form.shape for form in forms if call.holds(form.when)))
        for name, forms in rules.outputs.items()
    }
    return InferredShapes(GRAPH_SUCCESS, shapes, _dtypes(table, descs), "")


def _dtypes(table: OperatorSpec, descs: Mapping[str, Desc | None]) -> dict[str, str]:
    dtypes: dict[str, str] = {}
    for name in table.names("output"):
        spec = table.tensor(name)
        assert spec is not None
        model = descs.get(table.infershape.dtype_from.get(name, spec.same_dtype_as))
        dtypes[name] = model.dtype if model else spec.dtypes[0]
    return dtypes


def tiling(
    op: str,
    inputs: Mapping[str, TensorLike],
    outputs: Mapping[str, TensorLike],
    attrs: Mapping[str, Any] | None = None,
    soc: str | None = None,
    platform: Mapping[str, int] | Platform | None = None,
) -> TilingResult:
    """What the operator's tiling answers: accepted or not, tiling key, workspace.

    Args:
        op, attrs: as for `infer_shape`.
        inputs, outputs: TensorLike by name; a missing one is null.
        soc: chip whose rules apply; None is the one of the surrounding `soc(...)` block.
        platform: core counts and buffer size in place of the chip's own (aic_cores, aiv_cores,
            ub_size).
    Returns:
        TilingResult with status GRAPH_SUCCESS, or GRAPH_FAILED and the reason in `message`.
    Raises ArgumentError for names that the operator does not have, ValueError for a chip or
    platform number that is not known.
    """
    table = operator(op)
    chip = current_soc() if soc is None else check_soc(soc)
    call = tiling_call(table, inputs, outputs, attrs, chip, platform)
    rules = table.tiling.get(chip)
    if rules is None:
        message = f"{op}: not registered for {chip}."
        return TilingResult(GRAPH_FAILED, None, 0, "none", {}, message)
    return answer(rules, call)


def answer(rules: Tiling, call: Call) -> TilingResult:
    """What these rules of tiling answer to the call."""
    failure = first_failure(call, rules.checks)
    if failure:
        return TilingResult(GRAPH_FAILED, None, 0, "none", {}, failure.message)
    data = rules.data if call.holds(rules.data_when) else {}
    return TilingResult(
        GRAPH_SUCCESS,
        evaluate(rules.key, call) if rules.key else None,
        evaluate(rules.workspace, call),
        rules.workspace_rule,
        {name: evaluate(formula, call) for name, formula in data.items()},
        "",
    )


def tiling_call(
    table: OperatorSpec,
    inputs: Mapping[str, TensorLike],
    outputs: Mapping[str, TensorLike],
    attrs: Mapping[str, Any] | None,
    chip: str,
    platform: Mapping[str, int] | Platform | None,
) -> Call:
    """The call that tiling sees; arguments as for `tiling`."""
    changes = platform._asdict() if isinstance(platform, Platform) else platform
    descs = {**_descs(table, inputs, "input"), **_descs(table, outputs, "output")}
    return Call(table, table.name, descs, attributes(table, attrs), _numbers(chip, changes))


def _numbers(chip: str, changes: Mapping[str, int] | None = None) -> dict[str, int]:
    aic, aiv, ub = platform_of(chip, changes)
    return {"aic": aic, "aiv": aiv, "ub": ub}


def workspace_bytes(call: Call, chip: str) -> int:
    """Workspace of a call that passed its checks; the limits of tiling play no part."""
    return evaluate(
        call.op.tiling[chip].workspace,
        Call(call.op, call.label, call.descs, call.attrs, _numbers(chip)),
    )
