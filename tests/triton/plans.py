"""Calls of every room's host code on meta tensors, for recording what they would launch."""

import torch

from mhc_ops.ops.common import triton_table
from mhc_ops.ops.lite import checks as lite_checks
from mhc_ops.ops.lite import triton as lite
from mhc_ops.ops.post import checks as post_checks
from mhc_ops.ops.post import triton as post
from mhc_ops.ops.post_pre import checks as post_pre_checks
from mhc_ops.ops.post_pre import triton as post_pre
from mhc_ops.ops.pre import checks as pre_checks
from mhc_ops.ops.pre import triton as pre
from mhc_ops.ops.sinkhorn import checks as sinkhorn_checks
from mhc_ops.ops.sinkhorn import triton as sinkhorn

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def meta(*shape, dtype=FP32):
    return torch.empty(shape, dtype=dtype, device="meta")


def filled(layout):
    made = (None if spec is None else meta(*spec[0], dtype=spec[1]) for spec in layout)
    return type(layout)(*made)


def run_pre(n, d, dtype=BF16, *, rows=None, gamma=True, post=True, hf32=False, tokens=8192):
    """MhcPre both ways; rows is R, by default N*N."""
    r = n * n if rows is None else rows
    f = 2 * n + r
    sizes = pre_checks.PreSizes((tokens,), tokens, n, d, r, f)
    numbers = pre_checks.PreNumbers(hf32=hf32)
    x, phi, alpha = meta(tokens, n, d, dtype=dtype), meta(f, n * d), meta(3 if r else 2)
    scale = meta(n, d) if gamma else None
    out = filled(pre_checks.forward_layout(sizes, x, phi))
    pre.forward(sizes, x, phi, alpha, meta(f), scale, numbers, out)
    grads = filled(pre_checks.backward_layout(sizes, x, phi, alpha, (*(True,) * 4, gamma)))
    pre.backward(
        sizes, x, phi, alpha, meta(tokens, d, dtype=dtype), meta(tokens, n),
        meta(tokens, r) if r else None, out.inv_rms, out.h_mix, out.h_pre, out.h_post, scale,
        meta(tokens, n, d, dtype=dtype) if post else None, numbers, grads,
    )  # fmt: skip


def run_post(n, d, dtype=BF16, *, h_res=True, bias=True, tokens=8192):
    sizes = post_checks.PostSizes((tokens,), tokens, n, d)
    x, y = meta(tokens, n, d, dtype=dtype), meta(tokens, d, dtype=dtype)
    gates = (meta(tokens, n, n) if h_res else None, y, meta(tokens, n), meta(d) if bias else None)
    post.forward(sizes, x, *gates, torch.empty_like(x))
    wanted = (*(True,) * 4, bias)
    grads = filled(post_checks.backward_layout(sizes, x, gates[2], wanted))
    post.backward(sizes, torch.empty_like(x), x, *gates, grads)


def run_post_pre(
    n, d, dtype=BF16, *, rows=None, h_res=True, bias=True, gamma=True, hf32=False, tokens=8192
):
    """The boundary both ways; rows is R, by default N*N."""
    r = n * n if rows is None else rows
    sizes = pre_checks.PreSizes((tokens,), tokens, n, d, r, 2 * n + r)
    numbers = pre_checks.PreNumbers(hf32=hf32)
    x, y = meta(tokens, n, d, dtype=dtype), meta(tokens, d, dtype=dtype)
    res, phi, alpha = meta(tokens, n, n) if h_res else None, meta(sizes.F, n * d), meta(3)
    scale, shift = meta(n, d) if gamma else None, meta(d) if bias else None
    offset = meta(sizes.F)
    given = post_pre_checks.ForwardInputs(
        x, res, y, meta(tokens, n), phi, alpha, offset, scale, shift
    )
    out = filled(post_pre_checks.outputs_layout(sizes, given))
    post_pre.forward(sizes, given, numbers, out)
    back = post_pre_checks.BackwardInputs(
        x, res, y, meta(tokens, n), phi, alpha, offset, x, y, meta(tokens, n), meta(tokens, r),
        out.x_next, out.inv_rms, out.h_mix, out.h_pre, out.h_post, scale, shift,
    )  # fmt: skip
    wanted = (True, h_res, True, True, bias, True, True, True, gamma)
    post_pre.backward(
        sizes, back, numbers, filled(post_pre_checks.gradients_layout(sizes, back, wanted))
    )


def run_sinkhorn(n, mode="add", order="columns_last", *, num_iters=20, tokens=8192):
    numbers = sinkhorn_checks.SinkhornNumbers(num_iters, 1e-6, mode, order, 1.0)
    sizes = sinkhorn_checks.SinkhornSizes((tokens,), tokens, n)
    logits = meta(tokens, n, n)
    out = filled(sinkhorn_checks.forward_layout(sizes, logits, True))
    sinkhorn.forward(sizes, logits, numbers, out)
    grads = filled(sinkhorn_checks.backward_layout(sizes, logits))
    sinkhorn.backward(sizes, logits, torch.empty_like(logits), numbers, grads)


def run_lite(n, *, tokens=8192):
    rows = {2: 2, 3: 6, 4: 24, 5: 120, 6: 720}[n]
    sizes = lite_checks.LiteSizes((tokens,), tokens, n, rows)
    logits = meta(tokens, rows)
    lite.forward(sizes, logits, filled(lite_checks.forward_layout(sizes, logits)))
    grads = filled(lite_checks.backward_layout(sizes, logits))
    lite.backward(sizes, logits, meta(tokens, n, n), grads)


def candidate(kernel, tile):
    """A call whose `kernel` takes a tile that `mhc-ops tune` may choose for it."""
    rooms = {
        "pre_mix_fwd_kernel": (run_pre, run_post_pre),
        "pre_main_bwd_kernel": (run_pre, run_post_pre),
        "post_pre_bwd_kernel": (run_post_pre,),
    }.get(kernel, (run_post,))
    rows = 0 if rooms == (run_post,) else 24
    entry = triton_table.Key(kernel, 4, 4096, rows, "bfloat16")

    def run():
        with triton_table.trying({entry: tile}):
            for room in rooms:
                room(4, 4096)

    return run


# Every kernel once, as the published sizes launch it.
QUICK = {
    "pre N=4": lambda: run_pre(4, 4096),
    "post N=4": lambda: run_post(4, 4096),
    "post_pre N=4": lambda: run_post_pre(4, 4096),
    "sinkhorn N=4": lambda: run_sinkhorn(4),
    "lite N=4": lambda: run_lite(4),
}
# Each number of phi's blocks with each kind of x, then other forms of the arguments.
ALL = {
    **QUICK,
    "pre N=4 fp16": lambda: run_pre(4, 4096, FP16),
    "pre N=4 fp32": lambda: run_pre(4, 4096, FP32),
    "pre N=4 hf32": lambda: run_pre(4, 4096, hf32=True),
    "pre N=4 fp32 hf32": lambda: run_pre(4, 4096, FP32, hf32=True),
    "pre N=8": lambda: run_pre(8, 4096),
    "pre N=8 fp16": lambda: run_pre(8, 4096, FP16),
    "pre N=8 fp32": lambda: run_pre(8, 4096, FP32),
    "pre N=8 hf32": lambda: run_pre(8, 4096, hf32=True),
    "pre N=6": lambda: run_pre(6, 4096),
    "pre N=2": lambda: run_pre(2, 4096),
    "pre N=1 odd D": lambda: run_pre(1, 130),
    "pre N=3 odd D": lambda: run_pre(3, 333),
    "pre N=7": lambda: run_pre(7, 1792),
    "pre N=5, 5! rows": lambda: run_pre(5, 1024, rows=120),
    "pre N=4, no residual": lambda: run_pre(4, 4096, rows=0),
    "pre N=4, no gamma": lambda: run_pre(4, 7168, gamma=False, post=False),
    "pre N=4, one superblock": lambda: run_pre(4, 7168, tokens=64),
    "pre N=4, narrow": lambda: run_pre(4, 256),
    "pre N=4, narrow, hf32": lambda: run_pre(4, 256, hf32=True),
    **{
        f"post N={n} {dtype}": lambda n=n, dtype=dtype: run_post(n, 4096, dtype)
        for n in (1, 3, 6, 8)
        for dtype in (BF16, FP32)
    },
    "post N=4, identity": lambda: run_post(4, 7168, h_res=False, bias=False),
    **{
        f"post_pre N={n} {dtype}": lambda n=n, d=d, dtype=dtype: run_post_pre(n, d, dtype)
        for n, d in ((1, 130), (2, 4096), (3, 333), (5, 1024), (6, 4096), (7, 1792), (8, 4096))
        for dtype in (BF16, FP32)
    },
    "post_pre N=4 fp16": lambda: run_post_pre(4, 4096, FP16),
    "post_pre N=4 fp32": lambda: run_post_pre(4, 4096, FP32),
    "post_pre N=4 hf32": lambda: run_post_pre(4, 4096, hf32=True),
    "post_pre N=4 fp32 hf32": lambda: run_post_pre(4, 4096, FP32, hf32=True),
    "post_pre N=4, 4! rows": lambda: run_post_pre(4, 4096, rows=24),
    "post_pre N=4, identity": lambda: run_post_pre(4, 7168, h_res=False, bias=False, gamma=False),
    "post_pre N=4, narrow": lambda: run_post_pre(4, 256),
    **{
        f"sinkhorn N={n} {mode} {order}": lambda n=n, m=mode, o=order: run_sinkhorn(n, m, o)
        for n in (3, 4, 8)
        for mode, order in (("add", "rows_last"), ("clamp", "columns_last"), ("none", "rows_last"))
    },
    "sinkhorn N=4, in segments": lambda: run_sinkhorn(4, num_iters=100),
    **{f"lite N={n}": lambda n=n: run_lite(n) for n in (2, 3, 5, 6)},
}


def candidates(target):
    """Every tile that `mhc-ops tune` may choose on this target."""
    return {
        f"{kernel} {tuple(tile)}": candidate(kernel, tile)
        for kernel in triton_table.KERNELS
        for tile in triton_table.candidates(kernel, target)
    }
