"""`out=`: results land in the caller's tensors, strided ones included."""

import pytest
import torch

from mhc_ops.errors import ArgumentError, DtypeError, ShapeError
from mhc_ops.testing import LAYOUTS, make_pre_inputs, poisoned_pre_backward, poisoned_pre_forward

from .cases import assert_same_bits, backward, forward, saved

DIRECTIONS = ["forward", "backward"]


def subject(direction, impl, c):
    """The call under test as a function of its options, and a NaN-filled `out` for it."""
    if direction == "forward":
        return lambda **options: forward(impl, c, **options), poisoned_pre_forward(c)
    fwd = saved(c)
    return lambda **options: backward(impl, c, fwd, **options), poisoned_pre_backward(c)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("residual", ["matrix", "permutation", "none"])
@pytest.mark.parametrize("layout", ["TND", "BSND"])
@pytest.mark.parametrize("gamma", [True, False])
def test_results_are_written_and_returned(impl, direction, residual, layout, gamma):
    c = make_pre_inputs(10, 3, 12, residual=residual, layout=layout, gamma=gamma)
    call, out = subject(direction, impl, c)
    got = call(out=out)
    for given, returned in zip(out, got, strict=True):
        assert given is returned
    assert_same_bits(got, call())
    assert_same_bits(call(out=tuple(out)), call())


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_none_entries_are_allocated_for_the_caller_or_left_out(impl, direction):
    """A None entry never disturbs the entries beside it."""
    c = make_pre_inputs(10, 3, 12)
    call, empty = subject(direction, impl, c)
    want = call()
    for place in range(len(empty)):
        _, out = subject(direction, impl, c)
        out = type(out)(*(None if i == place else t for i, t in enumerate(out)))
        got = call(out=out)
        for i, given in enumerate(out):
            if i != place:
                assert got[i] is given
                assert_same_bits((got[i],), (want[i],), f"{place} {i} ")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_targets(impl, direction, layout):
    c = make_pre_inputs(10, 3, 12)
    call, out = subject(direction, impl, c)
    placed = type(out)(*(LAYOUTS[layout](t) for t in out))
    got = call(out=placed)
    for given, returned in zip(placed, got, strict=True):
        assert given is returned
    assert_same_bits(got, call())


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_what_does_not_fit_is_refused(impl, direction):
    c = make_pre_inputs(10, 3, 12)
    call, out = subject(direction, impl, c)
    name = f"mhc_pre_{direction}"
    with pytest.raises(ArgumentError, match=f"{name}: .*out"):
        call(out=tuple(out)[:-1])
    with pytest.raises(ArgumentError, match=f"{name}: .*out"):
        call(out=(*out, None))
    first, last = out._fields[0], out._fields[-1]
    with pytest.raises(ShapeError, match=f"{name}: .*{first}.*\\[10, .*got \\[11, "):
        call(out=out._replace(**{first: out[0].new_empty((11, *out[0].shape[1:]))}))
    with pytest.raises(DtypeError, match=f"{name}: .*{last}.*float32.*float16"):
        call(out=out._replace(**{last: out[-1].half()}))
    for given in out:
        assert given.isnan().all()


def test_gamma_gradient_without_gamma_is_refused_or_zero(impl):
    """Published: a gradGamma given without gamma becomes zeros; NaN left there would be a lie."""
    c = make_pre_inputs(10, 3, 12, gamma=False)
    target = torch.full((3, 12), torch.nan)
    fwd = saved(c)
    try:
        backward(impl, c, fwd, out=poisoned_pre_backward(c)._replace(grad_gamma=target))
    except ArgumentError as error:
        refusal = str(error)
    else:
        assert torch.equal(target, torch.zeros(3, 12))
        return
    assert "grad_gamma" in refusal


def test_a_target_on_an_input_gets_the_right_values(impl):
    """Working in place: every output may lie on memory that the call still reads."""
    c = make_pre_inputs(600, 4, 24)
    fwd = forward(impl, c)
    want = backward(impl, c, fwd)
    for name, target in (("grad_phi", "phi"), ("grad_gamma", "gamma"), ("grad_alpha", "alpha")):
        d = make_pre_inputs(600, 4, 24)
        out = [None] * 5
        out[type(want)._fields.index(name)] = getattr(d, target)
        assert_same_bits(backward(impl, d, fwd, out=tuple(out)), want, f"{name} on {target} ")
    memory = torch.empty(664, 4, 24, dtype=c.x.dtype)
    memory[:600] = c.x
    shifted = backward(
        impl, c._replace(x=memory[:600]), fwd, out=(memory[64:], None, None, None, None)
    )
    assert_same_bits(shifted, want, "grad_x over a shifted x ")


def test_targets_that_share_memory_are_refused(impl):
    c = make_pre_inputs(6, 4, 8)
    both = torch.empty(6, 4)
    with pytest.raises(ArgumentError, match=r"out\.h_pre must not share memory with out\.h_post"):
        forward(impl, c, out=(None, both, None, None, None, both))
    columns = torch.empty(6, 8)
    made = forward(impl, c, out=(None, columns[:, ::2], None, None, None, columns[:, 1::2]))
    assert_same_bits(made, forward(impl, c))
    with pytest.raises(ArgumentError, match=r"out\.h_post must have one place in memory"):
        forward(impl, c, out=(None, torch.empty(1, 4).expand(6, 4), None, None, None, None))
