"""impl="npu": what it calls, what it refuses, and that nobody is given it unasked."""

import pytest
import torch

import mhc_ops
from mhc_ops import UnsupportedError
from mhc_ops.testing import make_post_inputs, make_pre_inputs
from tests.npu import stand_in

DTYPES = [torch.bfloat16, torch.float16]


def saved_of(c, **options):
    return mhc_ops.mhc_pre_forward(*c.forward_args, impl="reference", **options)


def backward_args(c, fwd):
    saved = (fwd.inv_rms, fwd.h_mix, fwd.h_pre, fwd.h_post)
    grads = (c.grad_h_in, c.grad_h_post, c.grad_h_res)
    return (c.x, c.phi, c.alpha, *grads, *saved, c.gamma, c.grad_x_post)


def assert_same(got, want):
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("precision", ["fp32", "hf32"])
def test_pre_forward(torch_npu, dtype, precision):
    c = make_pre_inputs(5, 4, 64, dtype=dtype)
    got = mhc_ops.mhc_pre_forward(*c.forward_args, precision=precision, impl="npu")
    assert stand_in.calls == ["npu_mhc_pre"]
    assert_same(got, saved_of(c, precision=precision))


def test_pre_forward_without_residual_part_and_out(torch_npu):
    c = make_pre_inputs(5, 4, 64, residual="none")
    options = {"hc_eps": 1e-3, "post_eps": 1e-3}
    out = (torch.empty(5, 64, dtype=torch.bfloat16), None, None, None, None, None)
    got = mhc_ops.mhc_pre_forward(*c.forward_args, **options, impl="npu", out=out)
    assert got.h_in is out[0]
    assert got.h_res is None
    assert_same(got, saved_of(c, **options))


def test_pre_backward(torch_npu):
    c = make_pre_inputs(5, 4, 64)
    args = backward_args(c, saved_of(c, hc_eps=1e-3))
    got = mhc_ops.mhc_pre_backward(*args, hc_eps=1e-3, impl="npu")
    assert stand_in.calls == ["npu_mhc_pre_backward"]
    assert_same(got, mhc_ops.mhc_pre_backward(*args, hc_eps=1e-3, impl="reference"))
    some = mhc_ops.mhc_pre_backward(*args, hc_eps=1e-3, impl="npu", wanted=["grad_phi"])
    assert torch.equal(some.grad_phi, got.grad_phi)
    assert some.grad_x is None


def test_post_both_ways(torch_npu):
    c = make_post_inputs(5, 4, 24)
    args = (c.x, c.h_res, c.h_out, c.h_post)
    got = mhc_ops.mhc_post_forward(*args, impl="npu")
    assert torch.equal(got, mhc_ops.mhc_post_forward(*args, impl="reference"))
    for h_res in (c.h_res, None):
        args = (c.grad_out, c.x, h_res, c.h_out, c.h_post)
        got = mhc_ops.mhc_post_backward(*args, impl="npu")
        assert_same(got, mhc_ops.mhc_post_backward(*args, impl="reference"))
    assert stand_in.calls == ["mhc_post", "npu_mhc_post_backward", "npu_mhc_post_backward"]


def test_a_training_step_of_a_sublayer(torch_npu):
    """The differentiable operators: post's gradient of x is added in pre's backward."""
    c = make_pre_inputs(6, 4, 64)

    def step(impl):
        leaves = [t.clone().requires_grad_() for t in (c.x, c.phi, c.alpha, c.bias, c.gamma)]
        h_in, h_post, logits, x = mhc_ops.mhc_pre(*leaves, impl=impl)
        h_res = mhc_ops.sinkhorn(logits, impl="reference")
        y = mhc_ops.mhc_post(x, h_res, torch.tanh(h_in), h_post, impl=impl)
        return y, torch.autograd.grad(y, leaves, torch.ones_like(y) * c.x.detach())

    (y, grads), (want, wanted) = step("npu"), step("reference")
    assert sorted(stand_in.calls) == [
        *("mhc_post", "npu_mhc_post_backward", "npu_mhc_pre", "npu_mhc_pre_backward")
    ]
    assert torch.equal(y, want)
    assert_same(grads, wanted)


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ((5, 3, 64), {}, "N of 4, 6 or 8, got 3"),
        ((5, 4, 40), {}, "D % 16 == 0 up to 16384, got 40"),
        ((0, 4, 64), {}, "at least one token, got none"),
        ((5, 4, 64), {"post_eps": 1e-3}, "post_eps 0.0, got 0.001"),
        ((5, 4, 64), {"residual": "permutation"}, "phi rows of N*N+2N, or 2N, got 32"),
        ((5, 4, 64), {"residual": "none"}, "post_eps 1e-06, got 0.0"),
        ((5, 4, 64), {"dtype": torch.float32}, "its operators take bfloat16 and float16"),
    ],
)
def test_forms_that_the_forward_does_not_have(torch_npu, sizes, options, words):
    made = {key: options.pop(key) for key in ("residual", "dtype") if key in options}
    c = make_pre_inputs(*sizes, **made)
    with pytest.raises(UnsupportedError) as caught:
        mhc_ops.mhc_pre_forward(*c.forward_args, **options, impl="npu")
    assert words in str(caught.value)
    assert stand_in.calls == []


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ((5, 4, 48), {}, "D % 64 == 0"),
        ((5, 4, 64), {"precision": "hf32"}, "precision 'fp32', got 'hf32'"),
        ((5, 4, 64), {"post_eps": 1e-3}, "post_eps 0"),
    ],
)
def test_forms_that_the_backward_does_not_have(torch_npu, sizes, options, words):
    c = make_pre_inputs(*sizes)
    with pytest.raises(UnsupportedError) as caught:
        mhc_ops.mhc_pre_backward(*backward_args(c, saved_of(c)), **options, impl="npu")
    assert words in str(caught.value)
    c = make_pre_inputs(5, 4, 64, residual="none")
    with pytest.raises(UnsupportedError, match="a residual part"):
        mhc_ops.mhc_pre_backward(*backward_args(c, saved_of(c)), impl="npu")
    assert stand_in.calls == []


def test_forms_that_post_does_not_have(torch_npu):
    c = make_post_inputs(5, 3, 24)
    bias = torch.zeros(24)
    with pytest.raises(UnsupportedError, match="an h_res, got none"):
        mhc_ops.mhc_post_forward(c.x, None, c.h_out, c.h_post, impl="npu")
    with pytest.raises(UnsupportedError, match="no bias"):
        mhc_ops.mhc_post_forward(c.x, c.h_res, c.h_out, c.h_post, bias=bias, impl="npu")
    with pytest.raises(UnsupportedError, match="N of 4, 6 or 8"):
        mhc_ops.mhc_post_backward(c.grad_out, c.x, c.h_res, c.h_out, c.h_post, impl="npu")
    assert stand_in.calls == []


def test_operators_that_torch_npu_lacks(torch_npu):
    with pytest.raises(UnsupportedError, match="no such operator for sinkhorn"):
        mhc_ops.sinkhorn_forward(torch.zeros(2, 4, 4), impl="npu")


def test_an_older_torch_npu(torch_npu):
    c = make_pre_inputs(5, 4, 64)
    del torch_npu.npu_mhc_pre
    with pytest.raises(UnsupportedError, match="torch_npu has no npu_mhc_pre; install"):
        mhc_ops.mhc_pre_forward(*c.forward_args, impl="npu")


def test_results_of_another_form_are_refused(torch_npu):
    c = make_pre_inputs(5, 4, 64)
    torch_npu.npu_mhc_pre = lambda *a, **k: stand_in.npu_mhc_pre(*a, **k)[::-1]
    with pytest.raises(UnsupportedError, match="has other operators"):
        mhc_ops.mhc_pre_forward(*c.forward_args, impl="npu")
    torch_npu.npu_mhc_pre = lambda *a, **k: stand_in.npu_mhc_pre(*a, **k)[:3]
    with pytest.raises(UnsupportedError, match="returned 3 tensors, not 6"):
        mhc_ops.mhc_pre_forward(*c.forward_args, impl="npu")


def test_auto_does_not_take_it(torch_npu):
    c = make_pre_inputs(5, 4, 64)
    mhc_ops.mhc_pre_forward(*c.forward_args)
    assert stand_in.calls == []
    (line,) = [ln for ln in mhc_ops.explain("mhc_pre", c.x).splitlines() if "  npu" in ln]
    assert "available" in line
    assert "never run on an NPU" in line


def test_on_tensors_that_are_elsewhere(torch_npu, monkeypatch):
    monkeypatch.setattr(mhc_ops.impls, "_NPU_DEVICE", "npu")
    c = make_pre_inputs(5, 4, 64)
    with pytest.raises(UnsupportedError, match="the tensors are on cpu, not on an NPU"):
        mhc_ops.mhc_pre_forward(*c.forward_args, impl="npu")


def test_without_torch_npu_the_extra_is_named(no_torch_npu):
    c = make_pre_inputs(5, 4, 64)
    with pytest.raises(UnsupportedError, match=r"torch_npu cannot be imported.*mhc-ops\[npu\]"):
        mhc_ops.mhc_pre_forward(*c.forward_args, impl="npu")
    p = make_post_inputs(5, 4, 24)
    with pytest.raises(UnsupportedError, match=r"mhc-ops\[npu\]"):
        mhc_ops.mhc_post_forward(p.x, p.h_res, p.h_out, p.h_post, impl="npu")
