"""The differentiable operator beside its values: handed-on x, saved memory, autocast, flops."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import mhc_ops
from mhc_ops import mhc_pre
from mhc_ops.testing import make_pre_inputs
from mhc_ops.types import MhcPre

from .cases import LEAVES, assert_same_bits, autograd, backward, forward, leaves, weigh


def test_results_are_named_and_x_is_handed_on(impl):
    c = make_pre_inputs(5, 3, 7)
    out = mhc_pre(*c.forward_args, impl=impl)
    assert isinstance(out, MhcPre)
    assert out._fields == ("h_in", "h_post", "h_res_logits", "x")
    assert out.x.data_ptr() == c.x.data_ptr()


def gradient_of_x(impl, c, use):
    """Gradient of x when a loss uses h_in and, through `use`, the handed-on x."""
    made = leaves(c)
    out = mhc_pre(**made, impl=impl)
    loss = (out.h_in.double() * c.grad_h_in.double()).sum() + use(out.x.double())
    return torch.autograd.grad(loss, made["x"])[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_gradient_that_arrives_twice_is_added(impl, dtype):
    c = make_pre_inputs(6, 3, 5, dtype=dtype)
    weight = c.grad_x_post.double()
    alone = gradient_of_x(impl, c, lambda x: 0.0).double()
    once = gradient_of_x(impl, c, lambda x: (x * weight).sum()).double()
    twice = gradient_of_x(impl, c, lambda x: (x * weight).sum() + (x * x).sum()).double()
    near = {"rtol": 0.0, "atol": 8 * torch.finfo(dtype).eps * float(twice.abs().max())}
    torch.testing.assert_close(once, alone + weight, **near)
    torch.testing.assert_close(twice, alone + weight + 2 * c.x.double(), **near)


def test_the_handed_on_gradient_takes_one_rounding(impl):
    """Adding after the rounding of grad_x would round twice; the operator adds inside."""
    c = make_pre_inputs(64, 4, 32)
    bare = backward(impl, c, forward(impl, c))
    assert_same_bits((autograd(impl, c)["x"],), (bare.grad_x,))
    apart = backward(impl, c._replace(grad_x_post=None), forward(impl, c)).grad_x + c.grad_x_post
    assert not torch.equal(bare.grad_x, apart)


def test_only_the_handed_on_x_is_used(impl):
    c = make_pre_inputs(6, 3, 5)
    made = leaves(c)
    out = mhc_pre(**made, impl=impl)
    (grad,) = torch.autograd.grad(out.x, made["x"], c.grad_x_post)
    assert_same_bits((grad,), (c.grad_x_post,))


def test_two_operators_may_share_x(impl):
    """The original x, not the handed-on one, feeds a second consumer: autograd adds the two."""
    c = make_pre_inputs(6, 3, 5, dtype=torch.float64)
    made = leaves(c)
    first, second = (mhc_pre(**made, impl=impl) for _ in range(2))
    outputs = (first.h_in, first.x, second.h_in)
    grads = (c.grad_h_in, c.grad_x_post, c.grad_h_in)
    (both,) = torch.autograd.grad(outputs, made["x"], grads)
    x, rest = made.pop("x"), made
    pieces = []
    for take in (slice(0, 2), slice(2, 3)):
        out = mhc_pre(x, **rest, impl=impl)
        chosen = (out.h_in, out.x, out.h_in)[take]
        pieces.append(torch.autograd.grad(chosen, x, grads[take])[0])
    torch.testing.assert_close(both, sum(pieces), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_writing_into_the_handed_on_x_is_noticed_or_harmless(impl, dtype):
    """It shares memory with the saved x: the gradient must be refused or be that of the old x."""
    c = make_pre_inputs(6, 3, 5, dtype=dtype)
    made = leaves(c)
    x = made.pop("x")
    (want,) = torch.autograd.grad(mhc_pre(x * 1, **made, impl=impl).h_in, x, c.grad_h_in)
    out = mhc_pre(x * 1, **made, impl=impl)
    refusal = ""
    try:
        out.x.mul_(2)
        (got,) = torch.autograd.grad(out.h_in, x, c.grad_h_in)
    except RuntimeError as error:
        refusal = str(error)
    else:
        assert_same_bits((got,), (want,))
        return
    assert "inplace" in refusal.replace("-", "").lower()


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_saved_for_backward(impl, layout):
    """x and the parameters by reference; every other saved tensor is small beside x."""
    c = make_pre_inputs(64, 4, 256, layout=layout)
    made = leaves(c)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        out = mhc_pre(**made, impl=impl)
    assert out.h_in.requires_grad
    owned = {t.untyped_storage().data_ptr(): name for name, t in made.items()}
    extra = {}
    for t in packed:
        pointer = t.untyped_storage().data_ptr()
        if pointer not in owned:
            extra[pointer] = t.untyped_storage().nbytes()
    tokens, n, f = 64, 4, 24
    # inv_rms, h_mix, h_pre and h_post in float32.
    assert sum(extra.values()) <= 4 * tokens * (1 + f + 2 * n)
    assert all(name in LEAVES for name in owned.values())


def test_backward_twice_needs_retain_graph(impl):
    c = make_pre_inputs(6, 3, 5)
    made = leaves(c)
    out = mhc_pre(**made, impl=impl)
    first = torch.autograd.grad(out.h_in, list(made.values()), c.grad_h_in, retain_graph=True)
    again = torch.autograd.grad(out.h_in, list(made.values()), c.grad_h_in)
    assert_same_bits(again, first)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(out.h_in, list(made.values()), c.grad_h_in)


def test_recomputing_the_forward_gives_the_same_bits(impl):
    c = make_pre_inputs(33, 3, 20)

    def grads(run):
        made = leaves(c)
        outputs, upstream = weigh(run(*made.values()), c)
        return torch.autograd.grad(outputs, list(made.values()), upstream)

    def op(*args):
        return mhc_pre(*args, impl=impl)

    again = grads(lambda *a: checkpoint(op, *a, use_reentrant=False))
    assert_same_bits(again, grads(op))


def test_strided_upstream_gradients(impl):
    """Autograd hands over whatever layout it has: expanded from sum(), transposed from a loss."""
    c = make_pre_inputs(6, 3, 5)
    made = leaves(c)
    out = mhc_pre(**made, impl=impl)
    got = torch.autograd.grad(out.h_in.sum() + out.x.sum(), list(made.values()))
    ones = c._replace(
        grad_h_in=torch.ones_like(c.grad_h_in),
        grad_h_post=torch.zeros_like(c.grad_h_post),
        grad_h_res=torch.zeros_like(c.grad_h_res),
        grad_x_post=torch.ones_like(c.grad_x_post),
    )
    assert_same_bits(got, backward(impl, ones, forward(impl, c)))


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_autocast_changes_nothing(impl, dtype, target):
    c = make_pre_inputs(33, 4, 24, dtype=dtype)
    want, grads = mhc_pre(*c.forward_args, impl=impl), autograd(impl, c)
    with torch.autocast("cpu", dtype=target):
        assert_same_bits(mhc_pre(*c.forward_args, impl=impl), want)
        assert_same_bits(forward(impl, c), forward(impl, c))
        inside = autograd(impl, c)
        bare = backward(impl, c, forward(impl, c))
    assert_same_bits(tuple(inside.values()), tuple(grads.values()))
    assert_same_bits(bare, tuple(grads.values()))


def test_flops_are_counted_by_formula(impl):
    """2*T*F*N*D forward, two such products backward."""
    c = make_pre_inputs(10, 4, 16)
    product = 2 * 10 * 24 * 64
    with FlopCounterMode(display=False) as counter:
        forward(impl, c)
    assert counter.get_total_flops() == product
    made = leaves(c)
    with FlopCounterMode(display=False) as counter:
        out = mhc_pre(**made, impl=impl)
        assert counter.get_total_flops() == product
        torch.autograd.grad(out.h_in, list(made.values()), c.grad_h_in)
    assert counter.get_total_flops() == 3 * product


@pytest.mark.parametrize(
    ("needed", "products"),
    [(("x",), 1), (("phi",), 1), (("gamma",), 1), (("alpha", "bias"), 0), (("x", "gamma"), 2)],
    ids=str,
)
def test_gradients_that_nobody_needs_are_not_asked_for(impl, needed, products):
    """The backward counts a product for grad_x and one that grad_phi and grad_gamma share."""
    c = make_pre_inputs(10, 4, 16)
    made = leaves(c, needed)
    out = mhc_pre(**made, impl=impl)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(out.h_in, [made[name] for name in needed], c.grad_h_in)
    assert counter.get_total_flops() == products * 2 * 10 * 24 * 64


def test_auto_is_one_of_the_implementations():
    c = make_pre_inputs(33, 4, 24)
    text = mhc_ops.explain("mhc_pre", *c.forward_args)
    chosen = [name for name in ("reference", "torch", "cpu", "triton") if name in text]
    assert chosen, text
    got = forward("auto", c)
    assert any(
        all(torch.equal(a, b) for a, b in zip(forward(name, c), got, strict=True))
        for name in ("torch", "cpu")
        if name in chosen
    )


def test_module_style_training_step_moves_every_parameter(impl):
    c = make_pre_inputs(33, 4, 24)
    made = leaves(c, ("phi", "alpha", "bias", "gamma"))
    optimizer = torch.optim.SGD([made[name] for name in ("phi", "alpha", "bias", "gamma")], lr=0.1)
    before = {name: t.detach().clone() for name, t in made.items()}
    out = mhc_pre(**made, impl=impl)
    (
        out.h_in.float().square().mean() + out.h_post.mean() + out.h_res_logits.square().mean()
    ).backward()
    optimizer.step()
    for name in ("phi", "alpha", "bias", "gamma"):
        assert not torch.equal(made[name].detach(), before[name]), name
    assert made["x"].grad is None
