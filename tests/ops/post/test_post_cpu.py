"""What only the C++ kernels have: instruction sets, chunks that accumulate, raw memory."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from mhc_ops import _native, explain
from mhc_ops.ops.post import cpu
from mhc_ops.ops.post.checks import check_forward
from mhc_ops.testing import make_post_inputs

from ..pre.cases import assert_same_bits
from ..pre.test_pre_cpu import LEVELS, fresh
from .cases import backward, forward

pytestmark = pytest.mark.skipif(_native.obstacle() is not None, reason=str(_native.obstacle()))

CHECKED = """
    import torch
    from mhc_ops import _native
    from mhc_ops.testing import make_post_inputs
    from tests.ops.pre.cases import assert_same_bits
    from tests.ops.post.cases import backward, check_backward, check_forward, forward
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for shape in ((300, 4, 96), (33, 3, 65), (17, 9, 40), (1, 4, 512)):
            c = make_post_inputs(*shape, dtype=dtype)
            check_forward("cpu", c)
            check_backward("cpu", c)
            results = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                results.append((forward("cpu", c), *backward("cpu", c)))
                assert_same_bits(results[-1], results[0])
    print(_native.describe().partition(",")[0])
"""


def kernel_backward(c, out, **options):
    cpu.backward(check_forward(*c[:5]), *c.backward_args, out, **options)


def poisoned(want):
    return type(want)(*(torch.full_like(t, torch.nan) for t in want))


@pytest.mark.parametrize("level", LEVELS)
def test_each_instruction_set_is_right_with_every_number_of_threads(level):
    probe = fresh("from mhc_ops import _native; print(_native.obstacle())", MHC_OPS_ISA=level)
    if probe != "None":
        pytest.skip(probe)
    assert fresh(CHECKED, MHC_OPS_ISA=level) == level


def test_auto_takes_the_kernels():
    c = make_post_inputs(40, 4, 96)
    assert "impl='auto' takes 'cpu'" in explain("mhc_post", c.x)
    assert "impl='auto' takes 'torch'" in explain("mhc_post", c.x.double())
    assert_same_bits(backward("auto", c), backward("cpu", c))


@pytest.mark.parametrize("streams", [4, 6])
@pytest.mark.parametrize("width", [96, 1056])
def test_outputs_past_the_caches_hold_the_same_bits(streams, width):
    """Outputs beyond 4 MiB are stored past the caches, where their rows are aligned for it."""
    tokens = (6 << 20) // (2 * streams * width) * 4
    c = make_post_inputs(tokens, streams, width)
    out, grads = forward("cpu", c), backward("cpu", c)
    part = slice(tokens - 9, tokens)
    tail = c.tokens(part)
    assert_same_bits((forward("cpu", tail),), (out[part],))
    assert_same_bits(backward("cpu", tail)[:4], [g[part] for g in grads[:4]])


def test_chunks_that_accumulate_give_the_bits_of_one_call():
    c = make_post_inputs(700, 3, 1050)
    whole = backward("cpu", c)
    chunked = poisoned(whole)
    for first in range(0, 700, 512):
        cut = slice(first, first + 512)
        out = type(whole)(*(t[cut] for t in chunked[:4]), chunked.grad_bias)
        kernel_backward(c.tokens(cut), out, accumulate=first > 0)
    assert_same_bits(chunked, whole)
    kernel_backward(c.tokens(slice(0, 0)), type(whole)(*[None] * 4, chunked.grad_bias),
                    accumulate=True)  # fmt: skip
    assert_same_bits((chunked.grad_bias,), (whole.grad_bias,))


@pytest.mark.parametrize("streams", [4, 6])
def test_unaligned_and_untouched_memory(streams):
    """Outputs one element off any vector's alignment; what lies beside them is not written."""
    c = make_post_inputs(70, streams, 97)
    want = (forward("cpu", c), *backward("cpu", c))
    rooms = [torch.full((t.numel() + 3,), 7.0, dtype=t.dtype) for t in want]
    out = [r[1 : 1 + t.numel()].view(t.shape) for r, t in zip(rooms, want, strict=True)]
    cpu.forward(check_forward(*c[:5]), *c[:5], out[0])
    kernel_backward(c, type(backward("cpu", c))(*out[1:]))
    assert_same_bits(out, want)
    for room in rooms:
        assert (room[0], room[-2], room[-1]) == (7, 7, 7)


def test_offsets_beyond_32_bits(tmp_path):
    """Tokens 2 GiB apart in a sparse file: byte and element offsets pass 2**32 and 2**31."""
    step, tokens = 2**30 + 64, 4
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2 * step * tokens)
    room = torch.from_file(str(path), shared=True, size=step * tokens, dtype=torch.bfloat16)
    c = make_post_inputs(tokens, 4, 32)
    far = c._replace(x=room.as_strided((tokens, 4, 32), (step, 32, 1)))
    far.x.copy_(c.x)
    assert_same_bits((forward("cpu", far),), (forward("cpu", c),))
    assert_same_bits(backward("cpu", far), backward("cpu", c))


def test_calls_from_several_python_threads():
    c = make_post_inputs(300, 4, 96)
    want = forward("cpu", c), *backward("cpu", c)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: (forward("cpu", c), *backward("cpu", c)), range(12)):
            assert_same_bits(got, want)


def test_the_c_header_matches_the_structures():
    """Sizes of the ctypes structures, from the header's own layout rules."""
    assert ctypes.sizeof(_native.PostSizes) == 32
    assert ctypes.sizeof(_native.PostForwardIn) == 88
    assert ctypes.sizeof(_native.PostBackwardIn) == 120
    assert ctypes.sizeof(_native.PostBackwardOut) == 48
