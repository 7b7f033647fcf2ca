"""Calls of the published functions from tables of shapes, in order unless a test changes one."""

import math
from typing import NamedTuple

import torch

from mhc_ops import aclnn
from mhc_ops.aclnn.codes import DTYPE_NAMES
from mhc_ops.aclnn.spec import OPERATORS

BF16, FP16, FP32 = aclnn.ACL_BF16, aclnn.ACL_FLOAT16, aclnn.ACL_FLOAT


class T(NamedTuple):
    """A tensor without memory."""

    dtype: int
    shape: tuple
    format: int = aclnn.ACL_FORMAT_ND

    def handle(self):
        return aclnn.aclCreateTensor(self.shape, self.dtype, None, 0, self.format, self.shape, None)


def pre(n=4, d=128, lead=(2, 4), rows=None, alpha=3, x=FP16, h_res=None, saved=True):
    """Arguments of MhcPre by snake case name."""
    residual = n * n if alpha == 3 else 0
    f = 2 * n + residual if rows is None else rows
    return {
        "x": T(x, (*lead, n, d)),
        "phi": T(FP32, (f, n * d)),
        "alpha": T(FP32, (alpha,)),
        "bias": T(FP32, (f,)),
        "gamma": T(FP32, (n, d)),
        "norm_eps": 1e-6,
        "hc_eps": 1e-6,
        "op_impl_mode": 0,
        "hin": T(x, (*lead, d)),
        "h_post": T(FP32, (*lead, n)),
        "h_res": T(FP32, (*lead, *((n, n) if h_res is None else h_res))) if alpha == 3 else None,
        "inv_rms": T(FP32, lead) if saved else None,
        "h_mix": T(FP32, (*lead, f)) if saved else None,
        "h_pre": T(FP32, (*lead, n)) if saved else None,
    }


def backward(n=4, d=128, lead=(2, 4), rows=None, x=BF16, h_res=None, gamma=True, grad_gamma=True):
    """Arguments of MhcPreBackward by snake case name."""
    f = 2 * n + n * n if rows is None else rows
    return {
        "x": T(x, (*lead, n, d)),
        "phi": T(FP32, (f, n * d)),
        "alpha": T(FP32, (3,)),
        "grad_h_in": T(x, (*lead, d)),
        "grad_h_post": T(FP32, (*lead, n)),
        "grad_h_res": T(FP32, (*lead, *((n, n) if h_res is None else h_res))),
        "inv_rms": T(FP32, lead),
        "h_mix": T(FP32, (*lead, f)),
        "h_pre": T(FP32, (*lead, n)),
        "h_post": T(FP32, (*lead, n)),
        "gamma": T(FP32, (n, d)) if gamma else None,
        "grad_x_post": T(x, (*lead, n, d)),
        "hc_eps": 1e-6,
        "op_impl_mode": 0,
        "grad_x": T(x, (*lead, n, d)),
        "grad_phi": T(FP32, (f, n * d)),
        "grad_alpha": T(FP32, (3,)),
        "grad_bias": T(FP32, (f,)),
        "grad_gamma": T(FP32, (n, d)) if grad_gamma else None,
    }


def post(n=4, d=128, lead=(2, 4), x=BF16, h_res=True):
    """Arguments of MhcPost by snake case name."""
    return {
        "x": T(x, (*lead, n, d)),
        "h_res": T(FP32, (*lead, n, n)) if h_res else None,
        "h_out": T(x, (*lead, d)),
        "h_post": T(FP32, (*lead, n)),
        "y": T(x, (*lead, n, d)),
    }


def post_backward(n=4, d=128, lead=(2, 4), x=BF16, h_res=True):
    """Arguments of MhcPostBackward by snake case name."""
    inputs = post(n, d, lead, x, h_res)
    return {
        "grad_y": inputs.pop("y"),
        **inputs,
        "grad_x": T(x, (*lead, n, d)),
        "grad_h_res": T(FP32, (*lead, n, n)),
        "grad_h_out": T(x, (*lead, d)),
        "grad_h_post": T(FP32, (*lead, n)),
    }


def sinkhorn(n=4, lead=(2, 4), num_iters=3, saved=True):
    """Arguments of MhcSinkhorn by snake case name."""
    count = 2 * num_iters * math.prod(lead) * 8
    return {
        "h_res": T(FP32, (*lead, n, n)),
        "eps": 1e-6,
        "num_iters": num_iters,
        "y": T(FP32, (*lead, n, n)),
        "norm_out": T(FP32, (count * n,)) if saved else None,
        "sum_out": T(FP32, (count,)) if saved else None,
    }


def sinkhorn_backward(n=4, lead=(2, 4), num_iters=3):
    """Arguments of MhcSinkhornBackward by snake case name."""
    forward = sinkhorn(n, lead, num_iters)
    return {
        "grad_y": forward["y"],
        "norm": forward["norm_out"],
        "sum": forward["sum_out"],
        "grad_input": forward["h_res"],
    }


def pre_sinkhorn(d=128, lead=(2, 4), x=BF16, saved=True, n=4, num_iters=20):
    """Arguments of MhcPreSinkhorn by snake case name."""
    f, steps = n * n + 2 * n, 2 * num_iters
    return {
        "x": T(x, (*lead, n, d)),
        "phi": T(FP32, (f, n * d)),
        "alpha": T(FP32, (3,)),
        "bias": T(FP32, (f,)),
        "hc_mult": n,
        "num_iters": num_iters,
        "hc_eps": 1e-6,
        "norm_eps": 1e-6,
        "need_backward": saved,
        "hin": T(x, (*lead, d)),
        "h_post": T(FP32, (*lead, n)),
        "h_res": T(FP32, (*lead, n * n)),
        "h_pre": T(FP32, (*lead, n)) if saved else None,
        "hc_before_norm": T(FP32, (*lead, f)) if saved else None,
        "inv_rms": T(FP32, (*lead, 1)) if saved else None,
        "sum_out": T(FP32, (steps, *lead, n)) if saved else None,
        "norm_out": T(FP32, (steps, *lead, n, n)) if saved else None,
    }


def pre_sinkhorn_backward(d=128, lead=(2, 4), x=BF16, flat=False, n=4, num_iters=20):
    """Arguments of MhcPreSinkhornBackward by snake case name."""
    forward = pre_sinkhorn(d, lead, x, n=n, num_iters=num_iters)
    taken = (
        "x",
        "phi",
        "alpha",
        "bias",
        "h_pre",
        "hc_before_norm",
        "inv_rms",
        "sum_out",
        "norm_out",
    )
    return {
        "grad_hin": forward["hin"],
        "grad_h_post": forward["h_post"],
        "grad_h_res": T(FP32, (*lead, n * n) if flat else (*lead, n, n)),
        **{name: forward[name] for name in taken},
        "eps": 1e-6,
        "grad_x": forward["x"],
        "grad_phi": forward["phi"],
        "grad_alpha": forward["alpha"],
        "grad_bias": forward["bias"],
    }


def prepare(api, values, **handles):
    """First phase of `api` on values by snake case name: T, torch tensors, handles or numbers."""
    op = next(spec for spec in OPERATORS.values() if spec.api(api))
    arguments = [_argument(values[name]) for name in op.api(api).parameters]
    return getattr(aclnn, f"{api}GetWorkspaceSize")(*arguments, **handles)


def status(api, values, **handles):
    return prepare(api, values, **handles)[0]


def run(api, values):
    """Both phases; the first status that is not 0, or 0."""
    code, size, executor = prepare(api, values)
    if code:
        return code
    return getattr(aclnn, api)(torch.empty(size, dtype=torch.uint8), size, executor, None)


def _argument(value):
    if isinstance(value, T):
        return value.handle()
    return aclnn.from_torch(value) if isinstance(value, torch.Tensor) else value


def tensors(values, seed=0):
    """The same arguments on real memory: inputs of order 1, outputs full of NaN."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name, value in values.items():
        if not isinstance(value, T):
            made[name] = value
            continue
        dtype = {BF16: torch.bfloat16, FP16: torch.float16, FP32: torch.float32}[value.dtype]
        drawn = torch.randn(value.shape, generator=generator)
        if name == "phi":
            drawn /= math.sqrt(value.shape[1])
        made[name] = drawn.to(dtype)
        if any(t.name == name and t.kind == "output" for t in _specs(values)):
            made[name].fill_(torch.nan)
    return made


def _specs(values):
    """The tensors of the one operator that has all of these names."""
    (table,) = (
        op
        for op in OPERATORS.values()
        if {t.name for t in op.tensors} <= set(values)
        and all(op.tensor(name) or op.attr(name) for name in values)
    )
    return table.tensors


def spread(t):
    """The same values with gaps between the elements and an offset, and what lies in the gaps."""
    memory = torch.full((*t.shape, 3), -7.0, dtype=t.dtype)
    view = memory[..., 1]
    view.copy_(t)
    return view, memory


def same(got, want):
    return got.dtype == want.dtype and torch.equal(got, want)


def tile(op, values, soc=None, **more):
    """Tiling of `op` on values by snake case name."""
    described = {
        name: {"dtype": DTYPE_NAMES[v.dtype], "shape": list(v.shape)}
        for name, v in values.items()
        if isinstance(v, T)
    }
    table = OPERATORS[op]
    attrs = {a.name: values[a.name] for a in table.attrs if a.name in values}
    inputs = {n: v for n, v in described.items() if table.tensor(n).kind == "input"}
    outputs = {n: v for n, v in described.items() if table.tensor(n).kind == "output"}
    return aclnn.tiling(op, inputs, outputs, attrs | more.pop("attrs", {}), soc, **more)
