"""A device's results beside the truth, float32 eager torch and this library's kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...aclnn.spec import OPERATORS
from ...testing.budgets import allowed_errors, max_error, round_to
from ..adapters import Ours, Wanted, eager_float32
from ..comparison import check_criterion
from ..criteria import CRITERIA, Verdict, judge, published_tolerance
from ..goldens import Golden
from ..tolerances import attainable, overflowing, published_criterion
from . import measures
from .hints import Hint, hints_of_equations
from .measures import Element, Errors, Group
from .mistakes import Case
from .patterns import hints_of_rounding, hints_of_writing
from .results import by_output
from .three_way import Sizes, roundings

PUBLISHED = "published"
NAMES = (PUBLISHED, *CRITERIA)
"""What `criterion` may be: `published` is that of the operator's own published tests."""

NO_CONTRACT = {"MhcSinkhorn": ("norm_out", "sum_out")}
"""Outputs whose order in memory is each device's own: never judged."""


@dataclass(frozen=True)
class OutputJudgement:
    """One output. Errors are |result - truth| in float64, eager's after rounding to the dtype."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    verdict: Verdict
    bound: float
    """The largest error that an element may have: see three_way.py."""
    within: bool
    """Whether every element is within its bound."""
    outside: int
    max_errors: dict[str, float]
    """Largest error of the device, of float32 eager and of this library: got, eager, ours."""
    max_ulps: dict[str, float]
    by_stream: Sequence[Group]
    by_tokens: Sequence[Group]
    worst: Sequence[Element]
    axes: Sequence[str]
    errors: dict[str, Errors]
    """Every element's errors, for pictures: got, eager, ours."""

    @property
    def passed(self) -> bool:
        return self.verdict.passed and self.within

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values and floats."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "passed": self.passed,
            "criterion": self.verdict.to_json(),
            "three_way": {
                "within": self.within,
                "bound": self.bound,
                "outside": self.outside,
                "max_error": self.max_errors,
                "max_ulps": self.max_ulps,
            },
            "by_stream": [group._asdict() for group in self.by_stream],
            "by_tokens": [group._asdict() for group in self.by_tokens],
            "worst": [element._asdict() for element in self.worst],
        }


@dataclass(frozen=True)
class Judgement:
    """What `judge_golden` found; true in a condition when everything passed."""

    op: str
    attrs: Mapping[str, Any]
    criterion: str
    outputs: Sequence[OutputJudgement]
    missing: Sequence[str]
    extra: Sequence[str]
    unjudged: Sequence[str]
    """Outputs for which no order in memory is published."""
    hints: Sequence[Hint]

    @property
    def passed(self) -> bool:
        return bool(self.outputs) and all(o.passed for o in self.outputs) and not self.missing

    def __bool__(self) -> bool:
        return self.passed

    @property
    def hint(self) -> str:
        """The known mistakes in words, or that there is none."""
        return "; ".join(hint.name for hint in self.hints) or "no known pattern"

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON values and floats."""
        return {
            "passed": self.passed,
            "op": self.op,
            "attrs": dict(self.attrs),
            "criterion": self.criterion,
            "missing": list(self.missing),
            "extra": list(self.extra),
            "unjudged": list(self.unjudged),
            "hint": self.hint,
            "hints": [hint._asdict() for hint in self.hints],
            "outputs": [output.to_json() for output in self.outputs],
        }


def judge_golden(
    golden: Golden,
    results: Mapping[str, Tensor],
    criterion: str = PUBLISHED,
    step: Callable[[], None] = lambda: None,
    explain: bool = True,
) -> Judgement:
    """Judge results by a golden.

    Args:
        golden: from `read_golden` or `make_golden`.
        results: a device's outputs by name, any spelling, CPU tensors.
        criterion: one of NAMES. `published` compares with the float64 truth, since what two
            roundings to 16 bits may differ by is more than some of its tolerances; the others with
            the truth rounded once.
        step: called after each output.
        explain: look for known mistakes, which takes an evaluation of the equations for each.
    Raises ArgumentError for an unknown criterion, or an output under two spellings.
    """
    check_criterion(criterion, NAMES)
    op = str(golden.truth.op)
    attrs, inputs = golden.attrs, golden.given
    held = {name: results[given] for name, given in by_output(op, results).items()}
    unjudged = NO_CONTRACT.get(op, ())
    judged = [name for name in golden.expected.tensors if name not in unjudged]
    missing = [name for name in judged if name not in held]
    got = {name: held[name] for name in judged if name in held}

    wanted = {n: Wanted(t.dtype, tuple(t.shape)) for n, t in golden.expected.tensors.items()}
    truth = {n: overflowing(t, wanted[n].dtype) for n, t in golden.truth.tensors.items()}
    eager = {
        name: overflowing(t.double(), wanted[name].dtype)
        for name, t in eager_float32(op, inputs, attrs, wanted).items()
    }
    ours = Ours().run(op, inputs, attrs, wanted)
    sizes = _sizes(golden, attrs)
    outputs = []
    for name, tensor in got.items():
        peers = {"got": tensor, "eager": eager[name], "ours": ours[name]}
        outputs.append(_output(golden, name, truth[name], peers, criterion, sizes))
        step()
    hints: list[Hint] = []
    if explain:
        hints = _hints(Case(op, inputs, attrs, truth), got, eager, outputs)
    return Judgement(
        op=op,
        attrs=attrs,
        criterion=published_criterion(op) if criterion == PUBLISHED else criterion,
        outputs=outputs,
        missing=missing,
        extra=[name for name in held if name not in golden.expected.tensors],
        unjudged=[name for name in unjudged if name in golden.expected.tensors],
        hints=hints,
    )


def _hints(
    case: Case,
    got: Mapping[str, Tensor],
    eager: Mapping[str, Tensor],
    outputs: Sequence[OutputJudgement],
) -> list[Hint]:
    measured = {o.name: o.errors["got"] for o in outputs if o.errors}
    fitting = {name: got[name] for name in measured}
    hints = hints_of_writing(fitting, measured, {o.name: o.axes for o in outputs})
    hints += hints_of_equations(case, fitting, eager)
    return hints + hints_of_rounding(fitting, case.truth)


def _output(
    golden: Golden,
    name: str,
    truth: Tensor,
    peers: dict[str, Tensor],
    criterion: str,
    sizes: Sizes,
) -> OutputJudgement:
    op, expected, got = str(golden.truth.op), golden.expected.tensors[name], peers["got"]
    spec = OPERATORS[op].tensor(name)
    assert spec is not None
    rule = published_criterion(op) if criterion == PUBLISHED else criterion
    verdict = judge(got, expected, rule, name=name)
    if criterion == PUBLISHED and got.dtype == expected.dtype:
        stated = published_tolerance(op, name)
        tolerance = attainable(op, name, stated, expected, golden.inputs.tensors, truth)
        verdict = judge(got, truth, rule, name=name, tolerance=tolerance, same_dtype=False)
    axes = measures.axes_of(spec, expected)
    fits = got.shape == expected.shape and got.dtype == expected.dtype and got.numel() > 0
    allowed = allowed_errors(
        expected.dtype,
        max_error(peers["eager"], truth),
        truth,
        terms=roundings(op, name, sizes, golden.inputs.attrs.get("op_impl_mode") == 1),
    )
    peers = {**peers, "eager": round_to(peers["eager"], expected.dtype)}
    errors = {k: measures.measure(t, truth, allowed) for k, t in peers.items()} if fits else {}
    found = errors.get("got")
    return OutputJudgement(
        name=name,
        dtype=str(expected.dtype).removeprefix("torch."),
        shape=tuple(expected.shape),
        verdict=verdict,
        bound=float(allowed.max()),
        within=bool(found and not found.outside.any()) or got.numel() == expected.numel() == 0,
        outside=int(found.outside.sum()) if found else 0,
        max_errors={key: float(e.error.max()) for key, e in errors.items()},
        max_ulps={key: float(e.ulps.max()) for key, e in errors.items()},
        by_stream=measures.by_stream(found, axes) if found else (),
        by_tokens=measures.by_token_block(found, axes) if found else (),
        worst=measures.worst_elements(got, truth, found, axes) if found else (),
        axes=axes,
        errors=errors,
    )


def _sizes(golden: Golden, attrs: Mapping[str, Any]) -> Sizes:
    inputs = golden.inputs.tensors
    streams = inputs.get("x", inputs.get("h_res", inputs.get("grad_y")))
    assert streams is not None
    n, d = streams.shape[-2:]
    steps = len(inputs["sum_out"]) if "sum_out" in inputs else 2 * int(attrs.get("num_iters", 0))
    if "norm" in inputs:
        steps = inputs["norm"].numel() // (streams.numel() // n * 8)
    rows = len(inputs["phi"]) if "phi" in inputs else 0
    return Sizes(streams.shape[:-2].numel(), n, d, rows, steps // 2)
