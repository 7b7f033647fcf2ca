"""What only the C++ kernels have: the chain's bits, instruction sets, chunks that accumulate."""

import pytest
import torch

from mhc_ops import _native, explain, mhc_post_backward, mhc_pre_backward
from mhc_ops.ops.post_pre import cpu
from mhc_ops.ops.post_pre.checks import BackwardInputs, check_backward
from mhc_ops.ops.pre.checks import PreNumbers
from mhc_ops.testing import make_post_pre_inputs

from ..pre.cases import assert_same_bits
from ..pre.test_pre_cpu import LEVELS, fresh
from .cases import backward, backward_args, forward

pytestmark = pytest.mark.skipif(_native.obstacle() is not None, reason=str(_native.obstacle()))

CHECKED = """
    import torch
    from mhc_ops import _native
    from mhc_ops.testing import make_post_pre_inputs
    from tests.ops.pre.cases import assert_same_bits
    from tests.ops.post_pre.cases import backward, check_backward, check_forward
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for shape in ((300, 4, 161), (33, 3, 65), (17, 9, 40), (1, 4, 512)):
            c = make_post_pre_inputs(*shape, dtype=dtype)
            results = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                fwd = check_forward("cpu", c)
                results.append((*fwd, *backward("cpu", c, fwd)))
                assert_same_bits(results[-1], results[0])
            check_backward("cpu", c, fwd)
    print(_native.describe().partition(",")[0])
"""


@pytest.mark.parametrize("level", LEVELS)
def test_each_instruction_set_is_right_with_every_number_of_threads(level):
    probe = fresh("from mhc_ops import _native; print(_native.obstacle())", MHC_OPS_ISA=level)
    if probe != "None":
        pytest.skip(probe)
    assert fresh(CHECKED, MHC_OPS_ISA=level) == level


def test_auto_takes_the_kernels():
    c = make_post_pre_inputs(40, 4, 96)
    assert "impl='auto' takes 'cpu'" in explain("mhc_post_pre", c.x)
    assert "impl='auto' takes 'torch'" in explain("mhc_post_pre", c.x.double())
    fwd = forward("cpu", c)
    assert_same_bits(forward("auto", c), fwd)
    assert_same_bits(backward("auto", c, fwd), backward("cpu", c, fwd))


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_the_backward_has_the_bits_of_the_chain_where_no_rounding_lies_between(dtype, precision):
    """Parameter gradients always; in float32, where the middle is not rounded, grad_x and
    grad_h_out. The other sums run over D in another order.
    """
    c = make_post_pre_inputs(300, 4, 200, dtype=dtype)
    fwd = forward("cpu", c, precision=precision)
    got = backward("cpu", c, fwd, precision=precision)
    saved = (fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post)
    of_pre = mhc_pre_backward(
        *(fwd.x_next, c.phi, c.alpha, c.grad_h_in, c.grad_h_post_next, c.grad_h_res_next),
        *(*saved, c.gamma, c.grad_x_next),
        precision=precision,
        impl="cpu",
    )
    assert_same_bits(got[5:], of_pre[1:])
    if dtype == torch.float32:
        of_post = mhc_post_backward(of_pre.grad_x, *c[:4], c.out_bias, impl="cpu")
        assert_same_bits((got.grad_x, got.grad_h_out), (of_post.grad_x, of_post.grad_h_out))


def test_outputs_past_the_caches_hold_the_same_bits():
    """Outputs beyond 4 MiB are stored past the caches, where their rows are aligned for it."""
    c = make_post_pre_inputs(1000, 4, 1056)
    fwd = forward("cpu", c)
    grads = backward("cpu", c, fwd)
    part = slice(991, 1000)
    tail = c.tokens(part)
    assert_same_bits(forward("cpu", tail), [t[part] for t in fwd])
    alone = backward("cpu", tail, type(fwd)(*(t[part] for t in fwd)))
    assert_same_bits(alone[:4], [t[part] for t in grads[:4]])


def kernel_backward(c, fwd, out, **options):
    given = BackwardInputs(*backward_args(c, fwd), c.out_bias)
    cpu.backward(check_backward(given, None), given, PreNumbers(), out, **options)


def test_chunks_that_accumulate_give_the_bits_of_one_call():
    c = make_post_pre_inputs(700, 3, 150)
    fwd = forward("cpu", c)
    whole = backward("cpu", c, fwd)
    chunked = type(whole)(*(torch.full_like(t, torch.nan) for t in whole))
    for first in range(0, 700, 512):
        cut = slice(first, first + 512)
        out = type(whole)(*(t[cut] for t in chunked[:4]), *chunked[4:])
        part = type(fwd)(*(t[cut] for t in fwd))
        kernel_backward(c.tokens(cut), part, out, accumulate=first > 0)
    assert_same_bits(chunked, whole)


def test_unaligned_and_untouched_memory():
    """Outputs one element off any vector's alignment; what lies beside them is not written."""
    c = make_post_pre_inputs(70, 4, 97)
    fwd = forward("cpu", c)
    want = backward("cpu", c, fwd)
    rooms = [torch.full((t.numel() + 3,), 7.0, dtype=t.dtype) for t in want]
    out = type(want)(
        *(r[1 : 1 + t.numel()].view(t.shape) for r, t in zip(rooms, want, strict=True))
    )
    kernel_backward(c, fwd, out)
    assert_same_bits(out, want)
    for room in rooms:
        assert (room[0], room[-2], room[-1]) == (7, 7, 7)
