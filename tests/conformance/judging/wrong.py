"""Results with a mistake in them, made in float32 by the kernels on changed inputs, or by hand."""

import torch

from mhc_ops.aclnn.host import attributes
from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.conformance import parse_case
from mhc_ops.conformance.adapters import Ours, Wanted
from mhc_ops.conformance.goldens import case_of_sizes, make_golden

SIZES = {op: {"T": 37, "n": 4, "D": 128} for op in OPERATORS}
for name in ("MhcSinkhorn", "MhcSinkhornBackward"):
    del SIZES[name]["D"]

TELLING = {
    "MhcPre": {"x": "randn", "phi": "0.05*randn", "gamma": "randn", "alpha": [0.9, 0.5, 1.4]},
    "MhcPreBackward": {"phi": "0.05*randn", "alpha": [0.9, 0.5, 1.4], "bias": "0.1*randn"},
    "MhcPreSinkhorn": {"x": "randn", "phi": "0.05*randn", "alpha": [0.9, 0.5, 1.4]},
    "MhcPreSinkhornBackward": {"phi": "0.05*randn", "alpha": [0.9, 0.5, 1.4], "bias": "0.1*randn"},
}
"""Inputs on which mistakes show: another alpha for each part, a gamma that is not 1."""


def telling(op, dtype="BFLOAT16", attrs=None, seed=0, **sizes):
    """A golden on which the operator's mistakes show."""
    case = case_of_sizes(op, SIZES[op] | sizes, dtype, attrs, seed)
    described = {
        kind: {n: d and {"dtype": d.dtype, "shape": list(d.shape)} for n, d in tensors.items()}
        for kind, tensors in (("inputs", case.inputs), ("outputs", case.outputs))
    }
    entry = {"name": case.name, "op": op, "layer": "st", "expect": "SUCCESS", **described}
    ranges = TELLING.get(op, case.value_range)
    return make_golden(parse_case(entry | {"attrs": dict(case.attrs), "value_range": ranges}))


def inputs_of(golden):
    names = OPERATORS[golden.truth.op].names("input")
    return {name: golden.inputs.tensors.get(name) for name in names}


def computed(golden, impl="auto", inputs=(), **attrs):
    """What an implementation gives, on inputs and attributes changed as told."""
    op = golden.truth.op
    wanted = {n: Wanted(t.dtype, tuple(t.shape)) for n, t in golden.expected.tensors.items()}
    values = attributes(OPERATORS[op], golden.inputs.attrs) | attrs
    return Ours(impl).run(op, inputs_of(golden) | dict(inputs), values, wanted)


def cut(values, bits):
    """float32 with the lowest bits cleared: truncation, as float16 or bfloat16 would cut."""
    return (values.float().view(torch.int32) >> bits << bits).view(torch.float32)
