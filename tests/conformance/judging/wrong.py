"""Results with a mistake in them, made in float32 by the kernels on changed inputs, or by hand."""

import torch

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


def computed(golden, impl="auto", inputs=(), outputs=None, names=None, **attrs):
    """What an implementation gives, on inputs and attributes changed as told.

    outputs: a dtype for all of them, in place of each one's own. names: those wanted, or all.
    """
    op = golden.truth.op
    wanted = {
        n: Wanted(outputs or t.dtype, tuple(t.shape))
        for n, t in golden.expected.tensors.items()
        if names is None or n in names
    }
    return Ours(impl).run(op, golden.given | dict(inputs), golden.attrs | attrs, wanted)


def rms_of(golden):
    """dInv*inv_rms^3/(n*D) of MhcPreBackward for each token, in float32."""
    t = golden.inputs.tensors
    n, d = t["x"].shape[-2:]
    s, p = t["h_pre"] - golden.inputs.attrs["hc_eps"], t["h_post"]
    pre = (t["x"].float() * t["grad_h_in"].float()[..., None, :]).sum(-1) * s * (1 - s)
    post = t["grad_h_post"] * p * (1 - p / 2)
    parts = zip(t["alpha"], (pre, post, t["grad_h_res"].flatten(-2)), strict=True)
    m = torch.cat([a * part for a, part in parts], -1)
    return (m * t["h_mix"]).sum(-1) * t["inv_rms"] ** 3 / (n * d)


def cut(values, bits):
    """float32 with the lowest bits cleared: truncation, as float16 or bfloat16 would cut."""
    return (values.float().view(torch.int32) >> bits << bits).view(torch.float32)
