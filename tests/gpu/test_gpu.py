"""The Triton kernels on a GPU, against the float64 oracles of the rooms' tests."""

import pytest
import torch

import mhc_ops
from mhc_ops.testing import (
    correctly_rounded_share,
    make_post_inputs,
    make_post_pre_inputs,
    make_pre_inputs,
)

from ..ops.lite import test_lite as lite
from ..ops.post import cases as post
from ..ops.post import oracle as post_oracle
from ..ops.post_pre import cases as boundary
from ..ops.pre import cases as pre
from ..ops.pre import oracle as pre_oracle
from ..ops.sinkhorn import cases as sinkhorn

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
# N*D = 65536 is the longest sum of the contract; the others are odd, narrow, wide in N.
SHAPES = [(64, 4, 16384), (300, 4, 4096), (257, 3, 130), (33, 8, 1000), (70, 6, 96), (5, 1, 7)]


def to(device, results):
    return type(results)(*(None if t is None else t.to(device) for t in results))


def pre_both(c, **options):
    """Forward and backward on the GPU, the latter from the forward's own saved tensors."""
    on_gpu = c.map(torch.Tensor.cuda)
    fwd = pre.forward("triton", on_gpu, **options)
    return fwd, pre.backward("triton", on_gpu, fwd, **options)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pre(dtype, shape):
    c = make_pre_inputs(*shape, dtype=dtype)
    fwd, bwd = (to("cpu", r) for r in pre_both(c))
    numbers = {}
    pre.check_outputs(
        dtype,
        fwd,
        lambda work: pre_oracle.forward(*c.forward_args, work=work, **numbers),
        pre_oracle.forward_scales(*c.forward_args),
        terms=c.phi.shape[1],
    )
    args = pre.backward_args(c, fwd)
    pre.check_outputs(
        dtype,
        bwd,
        lambda work: pre_oracle.backward(*args, work=work),
        pre_oracle.backward_scales(*args),
        terms=shape[2] + c.phi.shape[0] + shape[0],
    )


@pytest.mark.parametrize("gamma", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_hf32_is_float64_of_rounded_operands(dtype, gamma):
    c = make_pre_inputs(33, 4, 1000, dtype=dtype, gamma=gamma)
    fwd, _ = pre_both(c, precision="hf32")
    pre.check_outputs(
        dtype,
        to("cpu", fwd),
        lambda work: pre_oracle.forward(*c.forward_args, hf32=True, work=work),
        pre_oracle.forward_scales(*c.forward_args, hf32=True),
        terms=4000,
    )


@pytest.mark.parametrize(
    ("dtype", "share"), [(torch.bfloat16, 0.999), (torch.float16, 0.998)], ids=str
)
def test_correctly_rounded_shares(dtype, share):
    c = make_pre_inputs(64, 4, 4096, dtype=dtype)
    fwd, bwd = (to("cpu", r) for r in pre_both(c))
    h_in = torch.einsum("ti,tid->td", fwd.h_pre.double(), c.x.double())
    assert correctly_rounded_share(fwd.h_in, h_in) >= share
    truth = pre_oracle.backward(*pre.backward_args(c, fwd))
    assert correctly_rounded_share(bwd.grad_x, truth.grad_x) >= share


def test_bits_repeat_and_do_not_depend_on_other_tokens():
    c = make_pre_inputs(808, 4, 1024)
    (fwd, bwd), again = pre_both(c), pre_both(c)
    pre.assert_same_bits(again[0], fwd)
    pre.assert_same_bits(again[1], bwd)
    for part in (slice(0, 1), slice(17, 18), slice(100, 700)):
        fwd_part, bwd_part = pre_both(c.tokens(part))
        for name in pre.PER_TOKEN:
            pre.assert_same_bits((getattr(fwd_part, name),), (getattr(fwd, name)[part],), name)
        pre.assert_same_bits((bwd_part.grad_x,), (bwd.grad_x[part],), f"{part}")


@pytest.mark.parametrize("width", [64, 8192])  # a superblock a program, and a walk over all
@pytest.mark.parametrize("gamma", [True, False])
def test_parameter_gradients_are_sums_of_superblocks_in_order(gamma, width):
    c = make_pre_inputs(808, 4, width, gamma=gamma)
    fwd, whole = pre_both(c)
    on_gpu = c.map(torch.Tensor.cuda)

    def part(cut):
        taken = type(fwd)(*(t[cut] for t in fwd))
        return pre.backward("triton", on_gpu.tokens(cut), taken)

    pieces = [part(slice(a, min(a + 256, 808))) for a in range(0, 808, 256)]
    for name in pre.PARAMETERS:
        grads = [getattr(p, f"grad_{name}") for p in pieces]
        if grads[0] is not None:
            total = ((grads[0] + grads[1]) + grads[2]) + grads[3]
            pre.assert_same_bits((total,), (getattr(whole, f"grad_{name}"),), name)


@pytest.mark.parametrize("shape", [(300, 4, 4096), (257, 3, 130), (5, 8, 1000)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_post(dtype, shape):
    c = make_post_inputs(*shape, dtype=dtype)
    on_gpu = c.map(torch.Tensor.cuda)
    scale = post_oracle.forward(*c.map(torch.abs)[:5])
    got = post.forward("triton", on_gpu).cpu()
    post.check_output(
        "out", got, lambda work: post_oracle.forward(*c[:5], work=work), scale, c, dtype
    )
    grads = to("cpu", post.backward("triton", on_gpu))
    scales = post_oracle.backward(*c.map(torch.abs).backward_args)
    for i, name in enumerate(post.GRADIENTS):
        post.check_output(
            name,
            grads[i],
            lambda work, i=i: post_oracle.backward(*c.backward_args, work=work)[i],
            scales[i],
            c,
            dtype if name in ("grad_x", "grad_h_out") else torch.float32,
        )


@pytest.mark.parametrize(
    "shape", [(300, 4, 4096), (257, 3, 130), (70, 8, 1024), (33, 2, 48)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_boundary(dtype, shape):
    """The bits of the chain; gradients within one rounding, or float32 sums, of float64."""
    c = make_post_pre_inputs(*shape, dtype=dtype)
    on_gpu = c.map(torch.Tensor.cuda)
    fwd = boundary.forward("triton", on_gpu)
    pre.assert_same_bits(fwd, boundary.chain("triton", on_gpu))
    grads = boundary.backward("triton", on_gpu, fwd)
    double = to("cpu", fwd)
    double = type(fwd)(*(t.double() for t in double))
    truth = boundary.backward("reference", c.map(torch.Tensor.double), double)
    for name, got, want in zip(boundary.GRADIENTS, grads, truth, strict=True):
        unit = torch.finfo(got.dtype).eps if got.dtype != torch.float32 else 2e-6
        assert float((got.cpu() - want).abs().max()) <= unit * float(want.abs().max()), name


def test_a_token_of_the_boundary_depends_on_no_other():
    c = make_post_pre_inputs(808, 4, 1024).map(torch.Tensor.cuda)
    fwd = boundary.forward("triton", c)
    whole = (*fwd, *boundary.backward("triton", c, fwd)[:4])
    for part in (slice(0, 1), slice(17, 18), slice(100, 700)):
        cut = c.tokens(part)
        alone = boundary.forward("triton", cut)
        got = (*alone, *boundary.backward("triton", cut, alone)[:4])
        pre.assert_same_bits(got, [t[part] for t in whole], f"{part}")


@pytest.mark.parametrize("options", [{}, {"eps_mode": "clamp", "order": "rows_last"}], ids=str)
@pytest.mark.parametrize("streams", [3, 4, 8])
def test_sinkhorn_equals_the_reference(streams, options):
    logits, grad = sinkhorn.make(3000, streams, std=3.0)
    calls = (
        lambda z, g, **o: mhc_ops.sinkhorn_forward(z, return_defect=True, **options, **o),
        lambda z, g, **o: [mhc_ops.sinkhorn_backward(z, g, **options, **o)],
    )
    for call in calls:
        got = call(logits.cuda(), grad.cuda(), impl="triton")
        want = call(logits.double(), grad.double(), impl="reference")
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a.cpu().double(), b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("streams", [3, 4, 6])
def test_permutation_mix_equals_the_reference(streams):
    logits, grad = lite.make(300, n=streams)
    got = lite.both("triton", logits.cuda(), grad.cuda())
    want = lite.both("reference", logits.double(), grad.double())
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.cpu().double(), b, rtol=1e-5, atol=2e-6)


def test_auto_takes_triton_and_differentiates():
    c = make_pre_inputs(70, 4, 256).map(torch.Tensor.cuda)
    assert "takes 'triton'" in mhc_ops.explain("mhc_pre", *c.forward_args)
    grads = pre.autograd("auto", c)
    want = pre.backward("triton", c, pre.forward("triton", c))
    pre.assert_same_bits(tuple(grads.values()), tuple(want))


def test_no_tokens():
    c = make_pre_inputs(0, 4, 64)
    _, bwd = pre_both(c)
    assert float(bwd.grad_phi.abs().sum()) == 0


def test_another_number_of_tokens_compiles_nothing():
    from mhc_ops.ops.pre import triton_fwd_kernels as kernels

    def variants():
        caches = kernels.pre_mix_fwd_kernel.device_caches
        return sum(len(entry[0]) for entry in caches.values())

    pre_both(make_pre_inputs(16, 4, 512))
    before = variants()
    for tokens in (1, 17, 300, 1024):
        pre_both(make_pre_inputs(tokens, 4, 512))
    assert variants() == before


def test_a_captured_graph_replays():
    c = make_pre_inputs(70, 4, 512).map(torch.Tensor.cuda)
    fwd = pre.forward("triton", c)
    want = pre.backward("triton", c, fwd)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = pre.forward("triton", c)
        grads = pre.backward("triton", c, captured)
    for t in (*captured, *grads):
        t.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    pre.assert_same_bits(captured, fwd)
    pre.assert_same_bits(grads, want)


def test_offsets_past_two_to_the_31():
    """The last tokens of an x of more than 2^31 elements equal the same tokens alone."""
    tokens, streams, dim = 2**31 // (4 * 2048) + 70, 4, 2048
    free, _ = torch.cuda.mem_get_info()
    if free < 24e9:
        pytest.skip("needs 24 GB of GPU memory")
    tail = make_pre_inputs(64, streams, dim).map(torch.Tensor.cuda)
    x = torch.zeros(tokens, streams, dim, dtype=torch.bfloat16, device="cuda")
    x[-64:] = tail.x
    whole = pre.forward("triton", tail._replace(x=x))
    alone = pre.forward("triton", tail)
    for name in pre.PER_TOKEN:
        pre.assert_same_bits((getattr(whole, name)[-64:],), (getattr(alone, name),), name)
