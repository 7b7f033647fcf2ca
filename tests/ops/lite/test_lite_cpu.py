"""What is particular to the C++ kernels: instruction sets, threads, what `auto` takes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from mhc_ops import _native, explain

from ..pre.cases import assert_same_bits
from ..pre.test_pre_cpu import LEVELS, fresh
from .test_lite import both, make

pytestmark = pytest.mark.skipif(_native.obstacle() is not None, reason=str(_native.obstacle()))

RUN = """
    import hashlib, torch
    from mhc_ops import _native
    from tests.ops.lite.test_lite import both, make, oracle, oracle_backward
    from tests.ops.pre.cases import bits
    sums = hashlib.sha256()
    for n in range(1, 7):
        logits, grad = make(45, n=n, std=3.0)
        got = both("cpu", logits, grad)
        for t, truth in zip(got, (oracle(logits), oracle_backward(logits, grad)), strict=True):
            torch.testing.assert_close(t.double(), truth, rtol=1e-5, atol=2e-6)
            sums.update(bits(t).numpy().tobytes())
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for t, first in zip(both("cpu", logits, grad), got, strict=True):
                assert torch.equal(t, first), (n, threads)
    print(_native.describe().partition(",")[0], sums.hexdigest())
"""


@pytest.mark.parametrize("level", LEVELS)
def test_each_instruction_set_is_exact_and_reproducible(level):
    probe = fresh("from mhc_ops import _native; print(_native.obstacle())", MHC_OPS_ISA=level)
    if probe != "None":
        pytest.skip(probe)
    first, second = (fresh(RUN, MHC_OPS_ISA=level) for _ in range(2))
    assert first == second
    assert first.split()[0] == level


def test_auto_takes_the_kernels():
    logits, grad = make(40, n=4)
    assert "impl='auto' takes 'cpu'" in explain("permutation_mix", logits)
    assert "impl='auto' takes 'torch'" in explain("permutation_mix", logits.double())
    assert_same_bits(both("auto", logits, grad), both("cpu", logits, grad))


def test_calls_from_several_python_threads():
    logits, grad = make(300, n=5)
    want = both("cpu", logits, grad)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: both("cpu", logits, grad), range(12)):
            assert_same_bits(got, want)


def test_small_weights_are_not_flushed():
    """exp's subnormal results count: certain, but for one weight near the smallest number."""
    for gap in (-88.0, -95.0, -103.0):
        logits = torch.tensor([[0.0, gap]])
        h_res, _ = both("cpu", logits, torch.ones(1, 2, 2))
        want = torch.softmax(logits.double(), -1)[0, 1]
        assert abs(h_res[0, 0, 1].double() - want) <= 2.0**-149 + 4 * 2.0**-24 * want
