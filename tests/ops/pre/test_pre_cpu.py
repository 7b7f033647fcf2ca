"""What is particular to the C++ kernels: instruction sets, processes, memory, accumulation."""

import ctypes
import os
import subprocess
import sys
import textwrap

import pytest
import torch

from mhc_ops import UnsupportedError, _native, explain, mhc_pre_backward, mhc_pre_forward
from mhc_ops.ops.pre import cpu
from mhc_ops.ops.pre.checks import PreNumbers, check_forward
from mhc_ops.testing import correctly_rounded_share, make_pre_inputs, poisoned_pre_backward

from . import oracle
from .cases import assert_same_bits, backward, backward_args, forward, saved

pytestmark = pytest.mark.skipif(_native.obstacle() is not None, reason=str(_native.obstacle()))

LEVELS = ["avx512", "avx2", "baseline"]

DIGEST = """
    import hashlib, torch
    from mhc_ops import _native
    from mhc_ops.testing import make_pre_inputs
    from tests.ops.pre.cases import backward, bits, forward
    sums = hashlib.sha256()
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for shape in ((300, 4, 96), (33, 3, 65), (1, 4, 512)):
            c = make_pre_inputs(*shape, dtype=dtype)
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                own = hashlib.sha256()
                fwd = forward("cpu", c)
                for t in (*fwd, *backward("cpu", c, fwd)):
                    own.update(bits(t).numpy().tobytes())
                if threads == 1:
                    first = own.digest()
                assert own.digest() == first, (dtype, shape, threads)
            sums.update(first)
    print(_native.describe().partition(",")[0], sums.hexdigest())
"""


def fresh(code, **environment):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("tokens", [1, 40])
def test_streams_apart_give_the_bits_of_streams_side_by_side(dtype, tokens):
    """The kernel multiplies a token's streams where they lie if one follows the other."""
    c = make_pre_inputs(tokens, 4, 544, dtype=dtype)
    apart = c.x.transpose(0, 1).contiguous().transpose(0, 1)
    assert_same_bits(forward("cpu", c._replace(x=apart)), forward("cpu", c))


@pytest.mark.parametrize("level", LEVELS)
def test_each_instruction_set_is_reproducible(level):
    """Two processes and every thread count give the same bits; the level asked for is used."""
    probe = fresh("from mhc_ops import _native; print(_native.obstacle())", MHC_OPS_ISA=level)
    if probe != "None":
        pytest.skip(probe)
    first, second = (fresh(DIGEST, MHC_OPS_ISA=level) for _ in range(2))
    assert first == second
    assert first.split()[0] == level


def test_an_absent_instruction_set_is_an_error():
    code = """
        import torch, mhc_ops
        from mhc_ops.testing import make_pre_inputs
        c = make_pre_inputs(3, 4, 8)
        print(mhc_ops.explain("mhc_pre", c.x))
        try:
            mhc_ops.mhc_pre_forward(*c.forward_args, impl="cpu")
        except mhc_ops.UnsupportedError as error:
            print(error)
    """
    text = fresh(code, MHC_OPS_ISA="sse9")
    assert "impl='auto' takes 'torch'" in text
    assert "impl='cpu' cannot run here: MHC_OPS_ISA=sse9 names an instruction set" in text


def test_auto_takes_the_kernels():
    c = make_pre_inputs(40, 4, 96)
    assert "impl='auto' takes 'cpu'" in explain("mhc_pre", c.x)
    assert "impl='auto' takes 'torch'" in explain("mhc_pre", c.x.double())
    assert_same_bits(forward("auto", c), forward("cpu", c))
    with pytest.raises(UnsupportedError, match="float64"):
        forward("cpu", make_pre_inputs(3, 4, 8, dtype=torch.float64))


def test_subnormals_survive_the_library():
    """A library linked with -ffast-math would flush them in the whole process."""
    forward("cpu", make_pre_inputs(3, 4, 8))
    tiny = torch.full((64,), 1e-40)
    assert (tiny * 0.5 > 0).all()
    assert (tiny.double() * 0.5).float().gt(0).all()


@pytest.mark.parametrize(("dtype", "share"), [(torch.bfloat16, 0.999), (torch.float16, 0.998)])
@pytest.mark.parametrize("shape", [(300, 4, 512), (70, 6, 250), (40, 8, 160)], ids=str)
def test_correctly_rounded_shares(dtype, share, shape):
    c = make_pre_inputs(*shape, dtype=dtype)
    fwd = forward("cpu", c)
    h_in = torch.einsum("ti,tid->td", fwd.h_pre.double(), c.x.double())
    assert correctly_rounded_share(fwd.h_in, h_in) >= share
    truth = oracle.backward(*backward_args(c, fwd)).grad_x
    assert correctly_rounded_share(backward("cpu", c, fwd).grad_x, truth) >= share


def kernel_backward(c, fwd, out, **options):
    sizes = check_forward(*c.forward_args)
    x, phi, alpha, *rest = backward_args(c, fwd)
    cpu.backward(sizes, x, phi, alpha, *rest, PreNumbers(), out, **options)


def test_chunks_that_accumulate_give_the_bits_of_one_call():
    c = make_pre_inputs(700, 3, 40)
    fwd = forward("cpu", c)
    whole, chunked = poisoned_pre_backward(c), poisoned_pre_backward(c)
    kernel_backward(c, fwd, whole)
    for first in range(0, 700, 512):
        cut = slice(first, first + 512)
        part = type(fwd)(*(t[cut] for t in fwd))
        out = chunked._replace(grad_x=chunked.grad_x[cut])
        kernel_backward(c.tokens(cut), part, out, accumulate=first > 0)
    assert_same_bits(chunked, whole)


def test_unaligned_and_untouched_memory():
    """Outputs one element off any vector's alignment; what lies beside them is not written."""
    c = make_pre_inputs(70, 4, 96)
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


def test_offsets_beyond_32_bits(tmp_path):
    """Tokens 2 GiB apart in a sparse file: byte and element offsets pass 2**32 and 2**31."""
    step, tokens = 2**30 + 64, 4
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2 * step * tokens)
    room = torch.from_file(str(path), shared=True, size=step * tokens, dtype=torch.bfloat16)
    c = make_pre_inputs(tokens, 4, 32)
    far = c._replace(x=room.as_strided((tokens, 4, 32), (step, 32, 1)))
    far.x.copy_(c.x)
    fwd = forward("cpu", c)
    assert_same_bits(forward("cpu", far), fwd)
    assert_same_bits(backward("cpu", far, fwd), backward("cpu", c, fwd))


def test_allocation_failure_is_an_error():
    code = """
        import resource, torch
        from mhc_ops import mhc_pre_forward
        from mhc_ops.testing import make_pre_inputs
        torch.set_num_threads(1)
        c = make_pre_inputs(20, 4, 4096)
        mhc_pre_forward(*make_pre_inputs(3, 4, 8).forward_args, impl="cpu")
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), -1))
        try:
            mhc_pre_forward(*c.forward_args, impl="cpu")
        except MemoryError as error:
            print(error)
    """
    assert "workspace of the CPU kernel could not be allocated" in fresh(code)


def test_unwanted_gradients_are_not_touched():
    c = make_pre_inputs(300, 4, 96)
    fwd = forward("cpu", c)
    whole = backward("cpu", c, fwd)
    for names in (("grad_x",), ("grad_phi",), ("grad_gamma",), ("grad_alpha", "grad_bias")):
        for precision in ("fp32", "hf32"):
            want = backward("cpu", c, fwd, precision=precision)
            got = mhc_pre_backward(
                *backward_args(c, fwd), impl="cpu", wanted=names, precision=precision
            )
            kept = {n: getattr(want, n) for n in names}
            assert_same_bits([getattr(got, n) for n in names], list(kept.values()), str(names))
            assert all(getattr(got, n) is None for n in whole._fields if n not in names)


def test_outputs_alone(threads):
    """A NULL output is skipped by the C interface and changes no other."""
    c = make_pre_inputs(5, 4, 512)
    want = forward("cpu", c)
    sizes = check_forward(*c.forward_args)
    for keep in want._fields:
        out = type(want)(
            *(torch.empty_like(t) if n == keep else None for n, t in want._asdict().items())
        )
        cpu.forward(sizes, *c.forward_args, PreNumbers(), out)
        assert_same_bits((getattr(out, keep),), (getattr(want, keep),), keep)


def test_calls_from_several_python_threads():
    from concurrent.futures import ThreadPoolExecutor

    c = make_pre_inputs(300, 4, 96)
    fwd = saved(c)
    want = forward("cpu", c), backward("cpu", c, fwd)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: (forward("cpu", c), backward("cpu", c, fwd)), range(12)):
            assert_same_bits(got[0], want[0])
            assert_same_bits(got[1], want[1])


def test_a_forked_child_computes():
    # The child compares without torch, whose own thread pool hangs after a fork.
    code = """
        import os, signal, torch
        from mhc_ops import mhc_pre_forward
        from mhc_ops.testing import make_pre_inputs
        torch.set_num_threads(2)
        c = make_pre_inputs(300, 4, 256)
        run = lambda: mhc_pre_forward(*c.forward_args, impl="cpu").h_mix.numpy().tobytes()
        want = run()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if run() == want else 1)
        print(os.waitpid(child, 0)[1])
    """
    assert fresh(code) == "0"


def test_the_c_header_matches_the_structures():
    """Sizes of the ctypes structures, from the header's own layout rules."""
    assert ctypes.sizeof(_native.Sizes) == 40
    assert ctypes.sizeof(_native.Rows) == 32
    assert ctypes.sizeof(_native.Numbers) == 40
    assert ctypes.sizeof(_native.ForwardIn) == 64
    assert ctypes.sizeof(_native.ForwardOut) == 48
    assert ctypes.sizeof(_native.BackwardIn) == 168
    assert ctypes.sizeof(_native.BackwardOut) == 48


def test_decode_uses_no_packed_copy():
    """One token equals that token among many, where phi is packed first."""
    c = make_pre_inputs(40, 4, 1056)
    alone = c.tokens(slice(7, 8))
    many = mhc_pre_forward(*c.forward_args, impl="cpu")
    one = mhc_pre_forward(*alone.forward_args, impl="cpu")
    assert_same_bits(one, type(many)(*(t[7:8] for t in many)))
