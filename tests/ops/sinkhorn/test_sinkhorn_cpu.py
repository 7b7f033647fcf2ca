"""What is particular to the C++ kernels: instruction sets, the C interface, both of their forms."""

import ctypes

import pytest
import torch

from mhc_ops import _native, explain, sinkhorn_backward, sinkhorn_forward

from ..pre.test_pre_cpu import LEVELS, fresh
from . import oracle
from .cases import check, make

pytestmark = pytest.mark.skipif(_native.obstacle() is not None, reason=str(_native.obstacle()))

RUN = """
    import hashlib, torch
    from mhc_ops import _native, sinkhorn_backward, sinkhorn_forward
    from tests.ops.pre.cases import bits
    from tests.ops.sinkhorn.cases import MODES, ORDERS, check, make
    sums = hashlib.sha256()
    for n in (1, 2, 3, 4, 5, 8, 9):
        for mode in MODES:
            for order in ORDERS:
                options = {"eps_mode": mode, "order": order, "num_iters": 7, "temperature": 1.3}
                logits, grad = make(45, n, 3.0, seed=n)
                check("cpu", logits, grad, **options)
                for t in (
                    sinkhorn_forward(logits, impl="cpu", **options).h_res,
                    sinkhorn_backward(logits, grad, impl="cpu", **options),
                ):
                    sums.update(bits(t).numpy().tobytes())
    z = torch.tensor([[0.0, -87.0, -95.0, -103.0, -104.0, -1e30]] * 6)
    h = sinkhorn_forward(z, num_iters=0, eps_mode="none", impl="cpu").h_res[0].double()
    want = torch.softmax(z[0].double(), 0)
    assert ((h - want).abs() <= 2.0**-149 + 4 * 2.0**-24 * want).all(), (h, want)
    print(_native.describe().partition(",")[0], sums.hexdigest())
"""


@pytest.mark.parametrize("level", LEVELS)
def test_each_instruction_set_is_exact(level):
    """Values of every form, subnormal weights included; the level asked for is used."""
    probe = fresh("from mhc_ops import _native; print(_native.obstacle())", MHC_OPS_ISA=level)
    if probe != "None":
        pytest.skip(probe)
    assert fresh(RUN, MHC_OPS_ISA=level).split()[0] == level


def test_auto_takes_the_kernels():
    logits, _ = make(4, 4)
    assert "impl='auto' takes 'cpu'" in explain("sinkhorn", logits)
    assert "impl='auto' takes 'torch'" in explain("sinkhorn", logits.double())


@pytest.mark.parametrize("n", [9, 12, 17])
def test_more_streams_than_are_unrolled(n):
    for mode in ("add", "none"):
        check("cpu", *make(37, n, 2.0), eps_mode=mode)


@pytest.mark.parametrize("eps", [1e-14, 1e-16, 1e-30])
def test_tiny_eps(eps):
    """The two forms of the kernels meet at 1e-15."""
    check("cpu", *make(37, 4, 3.0), eps=eps)
    signs, grad = make(64, 4)
    for t in (
        sinkhorn_forward(1e4 * signs.sign(), eps=eps, impl="cpu").h_res,
        sinkhorn_backward(1e4 * signs.sign(), grad, eps=eps, impl="cpu"),
    ):
        assert t.isfinite().all()


def test_cut_off_blocks_do_not_drive_the_vectors_out_of_range():
    """Two rows that feed one column alone: their scales grow by 2 an iteration without an eps."""
    logits = torch.tensor([[0.0, -torch.inf, -torch.inf], [0.0, -torch.inf, -torch.inf], [0.0] * 3])
    grad = make(1, 3)[1][0]
    for mode in ("add", "clamp", "none"):
        for iters in (20, 500):
            options = {"eps_mode": mode, "num_iters": iters}
            got = sinkhorn_forward(logits, impl="cpu", **options).h_res.double()
            want = oracle.forward(logits, **options)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)
            assert sinkhorn_backward(logits, grad, impl="cpu", **options).isfinite().all()


def test_the_c_interface_refuses_what_it_cannot_run():
    library = _native.library()
    numbers = _native.SinkhornNumbers(1e-6, 1.0, 20, 1, 0)
    logits, _ = make(4, 4)
    room = torch.empty_like(logits)
    data, out = logits.data_ptr(), room.data_ptr()

    def forward(tokens, streams, options, data, out):
        pointer = None if options is None else ctypes.byref(options)
        return library.mhc_sinkhorn_forward(tokens, streams, pointer, data, out, None, None, 1)

    assert forward(4, 4, numbers, data, out) == 0
    assert forward(0, 4, numbers, None, None) == 0
    bad = [(-1, 4, numbers, data, out), (4, 0, numbers, data, out), (4, 4, None, data, out)]
    bad += [(4, 4, numbers, None, out), (4, 4, numbers, data, None)]
    bad += [(4, 4, _native.SinkhornNumbers(1e-6, 1.0, 20, 3, 0), data, out)]
    bad += [(4, 4, _native.SinkhornNumbers(1e-6, 0.0, 20, 1, 0), data, out)]
    bad += [(4, 4, _native.SinkhornNumbers(1e-6, 1.0, -1, 1, 0), data, out)]
    for case in bad:
        assert forward(*case) == 1
