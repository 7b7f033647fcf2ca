"""Goldens: drawn inputs and what float64 makes of them, on disk for whatever is to be judged.

A golden is a folder with three sets of tensors, each a folder of .bin files with its manifest, or
one .npz or .safetensors file: `inputs`; `expected`, the outputs in their own dtypes, rounded once
from float64; `truth`, the same outputs in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import factorial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..aclnn.codes import DTYPE_NAMES
from ..aclnn.host import attributes
from ..aclnn.spec import OPERATORS, evaluate
from ..aclnn.spec.language import OperatorSpec, TensorSpec
from ..aclnn.tensor import TORCH_DTYPES
from ..errors import ArgumentError, FileError
from ..tensorfile import TensorSet, read, write
from ..tensorfile.atomic import replacing
from ..testing.budgets import round_to
from .cases import Case, CaseFileError, parse_case
from .draws import draw_inputs
from .numeric import without_slips
from .truth import TRUTHS, iterates

FORMATS = ("folder", "npz", "safetensors")
_ENDINGS = {"folder": "", "npz": ".npz", "safetensors": ".safetensors"}
_DTYPES = {DTYPE_NAMES[number]: dtype for number, dtype in TORCH_DTYPES.items()}

RANGES: dict[str, dict[str, Any]] = {
    "MhcPre": {"x, phi": "randn", "alpha": 0.5, "bias": 0.01, "gamma": 1.0},
    "MhcPreBackward": {"alpha": 0.5, "bias": "0.1*randn"},
    "MhcPost": {"x, hRes, hOut, hPost": "uniform [0, 1)"},
    "MhcPostBackward": {"gradOutput, x, hRes, hOut, hPost": "uniform [0, 1)"},
    "MhcPreSinkhorn": {
        "x": [1.0, 100000.0],
        "phi": "within 1/sqrt(n*D)",
        "alpha": [-0.5, 0.5],
        "bias": [-0.2, 0.2],
    },
    "MhcPreSinkhornBackward": {"alpha": "0.1*randn"},
}
"""Distributions of the published tests; what is not named is randn, or saved by the forward."""


class Golden(NamedTuple):
    """The three sets of a golden."""

    inputs: TensorSet
    expected: TensorSet
    truth: TensorSet

    @property
    def given(self) -> dict[str, Tensor | None]:
        """Every input of the operator by name; None where it is left out."""
        names = OPERATORS[str(self.inputs.op)].names("input")
        return {name: self.inputs.tensors.get(name) for name in names}

    @property
    def attrs(self) -> dict[str, Any]:
        """Every attribute of the operator by name, defaults included."""
        return attributes(OPERATORS[str(self.inputs.op)], self.inputs.attrs)


class _Sizes:
    """Sizes by symbol, where a table's symbolic shapes find theirs."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers

    def symbol(self, name: str) -> int:
        return self.numbers[name]

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"shapes of tensors do not ask for {name}")


def case_of_sizes(
    op: str,
    sizes: Mapping[str, int],
    dtype: str = "BFLOAT16",
    attrs: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Case:
    """A numeric case of an operator at these sizes, all optional tensors given.

    Args:
        op: name of the operator.
        sizes: n, and D unless the operator has none; T, or B and S; for MhcPre and MhcPreBackward
            f, rows of phi, in place of n*n+2n, and for MhcPre A, entries of alpha, in place of 3.
        dtype: BFLOAT16 or FLOAT16, of the tensors that are of 16 bits.
        attrs: attributes by name.
        seed: another one draws other numbers.
    Raises ArgumentError for sizes that are missing, unknown or not positive.
    """
    table = OPERATORS.get(op)
    if table is None:
        raise ArgumentError(f"op must be one of {', '.join(OPERATORS)}, got {op!r}.")
    if dtype not in ("BFLOAT16", "FLOAT16"):
        raise ArgumentError(f"{op}: dtype must be BFLOAT16 or FLOAT16, got {dtype!r}.")
    values = attributes(table, attrs)
    numbers, lead = _numbers(table, sizes, values)

    def described(spec: TensorSpec) -> dict[str, Any]:
        shape: list[int] = []
        for token in spec.shape.split():
            shape += lead if token == "*lead" else [evaluate(token, _Sizes(numbers))]
        return {"dtype": dtype if dtype in spec.dtypes else spec.dtypes[0], "shape": shape}

    made = {t.name: described(t) for t in table.tensors}
    residual = numbers["f"] - 2 * numbers["n"]
    for name in ("h_res", "grad_h_res") if "f" in table.symbols else ():
        if name not in made or residual == numbers["n"] ** 2:
            continue
        if residual:
            made[name]["shape"] = [*lead, residual]
        else:
            del made[name]
    listed = ",".join(f"{name}={value}" for name, value in sizes.items())
    return parse_case(
        {
            "name": f"{op} {listed} {dtype} {seed}",
            "op": op,
            "layer": "st",
            "inputs": {n: made[n] for n in table.names("input")},
            "outputs": {n: made[n] for n in table.names("output") if n in made},
            "attrs": {n: v for n, v in values.items() if n in (attrs or {})},
            "value_range": _ranges(op, numbers),
            "expect": "SUCCESS",
        }
    )


def _ranges(op: str, numbers: Mapping[str, int]) -> dict[str, Any] | None:
    ranges = RANGES.get(op)
    if not ranges or ranges.get("phi") != "within 1/sqrt(n*D)":
        return ranges
    bound = (numbers["n"] * numbers["D"]) ** -0.5
    return {**ranges, "phi": [-bound, bound]}


def _numbers(
    table: OperatorSpec, sizes: Mapping[str, int], attrs: Mapping[str, Any]
) -> tuple[dict[str, int], list[int]]:
    """Every symbol of the table's shapes, and the leading dimensions."""
    needed = {"n", *(("D",) if "D" in table.symbols else ())}
    free = {"MhcPre": {"f", "A"}, "MhcPreBackward": {"f"}}.get(table.name, set())
    known = needed | free | {"T", "B", "S"}
    wrong = sorted(set(sizes) - known)
    lead = [sizes[k] for k in ("B", "S") if k in sizes] or [sizes[k] for k in ("T",) if k in sizes]
    if wrong or needed - set(sizes) or ("T" in sizes) == ("S" in sizes) or len(lead) == 0:
        raise ArgumentError(
            f"{table.name}: sizes must be {', '.join(sorted(needed, reverse=True))} and T, or B "
            f"and S{' (and may be f)' if free else ''}, got {', '.join(sizes) or 'none'}."
        )
    if ("B" in sizes) != ("S" in sizes) or any(size < 1 for size in sizes.values()):
        raise ArgumentError(
            f"{table.name}: B goes with S, and sizes are at least 1, got {dict(sizes)}."
        )
    n, alphas = sizes["n"], sizes.get("A", 3)
    tokens = lead[0] * (lead[1] if len(lead) == 2 else 1)
    num_iters = int(attrs.get("num_iters", 20))
    numbers = {
        **{"D": 0, "A": alphas, "f": n * n + 2 * n if alphas == 3 else 2 * n},
        **{"T": tokens, "num_iters": num_iters, "k": 2 * num_iters},
    }
    numbers |= {**sizes, "T": tokens}
    forms = (n * n, factorial(n)) if alphas == 3 else (0,)
    if alphas not in (2, 3) or numbers["f"] - 2 * n not in forms:
        raise ArgumentError(
            f"{table.name}: A must be 3 with n*n+2n or n!+2n rows f, or 2 with 2n, "
            f"got A = {alphas} and f = {numbers['f']} for n = {n}."
        )
    return numbers, lead


def make_golden(case: Case) -> Golden:
    """Draw a numeric case's inputs and compute its outputs in float64.

    Saved tensors of MhcSinkhorn come in the layout of this library: one tile of all tokens,
    normOut [2*numIters][n][T][8] and sumOut [2*numIters][T][8], padded with zeros, and zeros in the
    vector of sumOut that no device writes. Raises CaseFileError for a case of another layer, or one
    whose truth is not finite.
    """
    if case.layer != "st" or case.op not in TRUTHS:
        raise CaseFileError(f"{case.name}: goldens are made of numeric (st) cases.")
    case, _ = without_slips(case)
    table = OPERATORS[case.op]
    attrs = attributes(table, case.attrs)
    inputs = draw_inputs(case, attrs)
    truth = TRUTHS[case.op](inputs, attrs)
    if case.op == "MhcSinkhorn":
        truth |= _saved_by_sinkhorn(inputs["h_res"], attrs)
    wanted = {
        spec.name: desc
        for name, desc in case.outputs.items()
        if desc is not None and (spec := table.tensor(name)) is not None
    }
    outputs = {name: truth[name] for name in wanted if name in truth}
    for name, tensor in outputs.items():
        if not tensor.isfinite().all():
            raise CaseFileError(f"{case.name}: the float64 truth of {name} is not finite.")
    expected = {
        name: round_to(tensor, _DTYPES[wanted[name].dtype]) for name, tensor in outputs.items()
    }
    given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    return Golden(*(TensorSet(t, case.op, attrs) for t in (given, expected, outputs)))


def _saved_by_sinkhorn(logits: Tensor | None, attrs: Mapping[str, float]) -> dict[str, Tensor]:
    assert logits is not None
    n = logits.shape[-1]
    flat = logits.double().reshape(-1, n, n)
    norms, sums = iterates(flat, int(attrs["num_iters"]), attrs["eps"])
    sums[0] = torch.zeros_like(sums[0])
    pad = torch.nn.functional.pad
    return {
        "norm_out": pad(torch.stack(norms).transpose(1, 2), (0, 8 - n)).flatten(),
        "sum_out": pad(torch.stack(sums), (0, 8 - n)).flatten(),
    }


def write_golden(golden: Golden, folder: Path, form: str = "folder") -> None:
    """Write the three sets; the folder appears only when it is complete.

    Raises FileError where it cannot be written, ArgumentError for an unknown format.
    """
    if form not in FORMATS:
        raise ArgumentError(f"format must be one of {', '.join(FORMATS)}, got {form!r}.")
    try:
        folder.resolve().parent.mkdir(parents=True, exist_ok=True)
        with replacing(folder.resolve()) as temporary:
            temporary.mkdir()
            for name, content in golden._asdict().items():
                write(temporary / f"{name}{_ENDINGS[form]}", content)
    except OSError as error:
        raise FileError(f"{folder}: cannot be written ({error.strerror or error}).") from error


def read_golden(folder: Path) -> Golden:
    """Read what `write_golden` wrote, in any of its formats.

    Raises FileError, in one sentence, for a folder that is no golden or only part of one.
    """
    if not folder.is_dir():
        raise FileError(f"{folder}: is no folder; a golden is one, written by mhc-ops golden.")
    inputs, expected, truth = (_read_set(folder, name) for name in Golden._fields)
    table = OPERATORS.get(inputs.op or "")
    if table is None or {expected.op, truth.op} != {inputs.op}:
        ops = ", ".join(str(part.op) for part in (inputs, expected, truth))
        raise FileError(f"{folder}: its three sets must name one known operator, they name {ops}.")
    known = table.names("input")
    wrong = [f"{name} is unknown" for name in inputs.tensors if name not in known]
    for spec in table.tensors:
        if spec.kind == "input" and not spec.optional and spec.name not in inputs.tensors:
            wrong.append(f"{spec.name} is missing")
    if wrong:
        raise FileError(
            f"{folder}: {wrong[0]} among the inputs; {table.name} has {', '.join(known)}."
        )
    if set(expected.tensors) != set(truth.tensors):
        raise FileError(f"{folder}: expected and truth hold different outputs.")
    for name, tensor in truth.tensors.items():
        if tensor.dtype != torch.float64 or tensor.shape != expected.tensors[name].shape:
            raise FileError(
                f"{folder}: the truth of {name} must be float64 in the shape of expected, "
                f"{list(expected.tensors[name].shape)}."
            )
    if not truth.tensors:
        raise FileError(f"{folder}: holds no outputs, there is nothing to judge by.")
    return Golden(inputs, expected, truth)


def _read_set(folder: Path, name: str) -> TensorSet:
    found = [folder / f"{name}{_ENDINGS[form]}" for form in FORMATS]
    present = [path for path in found if path.exists()]
    if len(present) != 1:
        held = "none of" if not present else "more than one of"
        raise FileError(
            f"{folder}: is no complete golden: it holds {held} "
            f"{', '.join(path.name for path in found)}; write it again with mhc-ops golden."
        )
    return read(present[0])
