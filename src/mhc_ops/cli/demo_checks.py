"""Every output of the demo against float64, with a bound that is stated and not fitted."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import mhc_pre_backward, mhc_pre_forward
from ..conformance.judging.three_way import CHAIN, Sizes, roundings
from ..testing import PreInputs, assert_within_budget, max_error, rounding_budget
from ..types import MhcPreBackward, MhcPreForward
from .output import dtype_name, shape_name


class Checked(NamedTuple):
    """One output beside its truth: largest error, largest bound, largest error of float32 eager."""

    good: bool
    name: str
    shape: str
    dtype: str
    error: float
    bound: float
    eager_error: float
    failure: str


def bound_in_words(precision: str) -> str:
    """The bound that `check_forward` and `check_backward` apply."""
    words = (
        "|error| <= one rounding of the element to its dtype + the error of float32 eager torch"
        f" + sqrt(terms of its sum + {CHAIN}) float32 roundings of the largest element"
    )
    if precision == "hf32":
        words += " + 2^-10 of it, for an operand that a tie rounds the other way"
    return words


def backward_from(inputs: PreInputs, saved: MhcPreForward, **options: Any) -> MhcPreBackward:
    """MhcPreBackward of these inputs from what the forward saved."""
    return mhc_pre_backward(
        inputs.x,
        inputs.phi,
        inputs.alpha,
        inputs.grad_h_in,
        inputs.grad_h_post,
        inputs.grad_h_res,
        saved.inv_rms,
        saved.h_mix,
        saved.h_pre,
        saved.h_post,
        inputs.gamma,
        **options,
    )


def check_forward(inputs: PreInputs, got: MhcPreForward, precision: str) -> Iterator[Checked]:
    """Judge the outputs of MhcPre by the reference in float64."""
    options: dict[str, Any] = {"impl": "reference", "precision": precision}
    truth = mhc_pre_forward(*inputs.double().forward_args, **options)
    eager = mhc_pre_forward(*_single(inputs).forward_args, **options)
    for name in MhcPreForward._fields:
        yield _judge("MhcPre", name, (got, eager, truth), inputs, 1.0, precision)


def check_backward(
    inputs: PreInputs, saved: MhcPreForward, got: MhcPreBackward, precision: str
) -> Iterator[Checked]:
    """Judge the gradients by the reference in float64 on the same saved tensors."""
    options: dict[str, Any] = {"impl": "reference", "precision": precision}
    wide = MhcPreForward(*(None if t is None else t.double() for t in saved))  # type: ignore[arg-type]  # None stays where it was
    truth = backward_from(inputs.double(), wide, **options)
    eager = backward_from(_single(inputs), saved, **options)
    for name in MhcPreBackward._fields:
        if getattr(got, name) is not None:
            size = 1.0 if name == "grad_x" else math.sqrt(len(inputs.x))
            results = (got, eager, truth)
            yield _judge("MhcPreBackward", name, results, inputs, size, precision)


def _judge(
    op: str,
    name: str,
    results: tuple[Any, Any, Any],
    inputs: PreInputs,
    size: float,
    precision: str,
) -> Checked:
    """Three-way check of an output: of the operator, of float32 eager, of float64.

    `size` is what the sum comes to for terms of order 1, as the demo's inputs are: where few
    elements all happen to cancel, the largest of them says nothing about their roundings.
    """
    got, eager, truth = (getattr(result, name) for result in results)
    tokens, n, d = inputs.x.shape
    sizes = Sizes(tokens, n, d, len(inputs.phi), 0)
    terms = roundings(op, name, sizes, precision == "hf32")
    scale = max(float(truth.abs().max()), size)
    failure = ""
    try:
        assert_within_budget(name, got, eager, truth, terms=terms, scale=scale)
    except AssertionError as error:
        failure = str(error)
    return Checked(
        not failure,
        name,
        shape_name(got),
        dtype_name(got),
        max_error(got, truth),
        max_error(eager, truth) + rounding_budget(got.dtype, terms) * scale,
        max_error(eager, truth),
        failure,
    )


def _single(inputs: PreInputs) -> PreInputs:
    """The same values in float32; float64 stays."""

    def widened(t: Tensor) -> Tensor:
        return t if t.dtype == torch.float64 else t.float()

    return inputs.map(widened)
