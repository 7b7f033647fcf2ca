"""First and second derivatives of the registered operators, and the Functions for torch.func.

The first derivative is torch.ops.mhc.post_pre_backward; where only x_next is used, it is that of
post alone. Whatever differentiates once more goes through the written equations of reference.py.
"""

from typing import Any

from torch import Tensor

from ...types import Impl
from ..common.registration import eager_function, needed_inputs, vector_jacobian
from ..post.autograd import post_backward_function
from ..pre.autograd import zeros_for_unused
from ..pre.checks import PreNumbers
from ..sinkhorn.checks import SinkhornNumbers
from . import reference
from .calls import PostPreBackwardCall, PostPreForwardCall, flat_options
from .checks import BackwardInputs, ForwardInputs


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PostPreForwardCall(*inputs)
    x_next, _, h_post_next, _, inv_rms, h_mix, h_pre = output
    ctx.save_for_backward(*call.tensors, x_next, inv_rms, h_mix, h_pre, h_post_next)
    ctx.options = call.options
    ctx.set_materialize_grads(False)


def differentiate_forward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of the nine tensors from those of the seven outputs, and None for the options."""
    tensors = ctx.saved_tensors  # once: torch's checkpoint gives each tensor out a single time
    given = ForwardInputs(*tensors[:9])
    needed = needed_inputs(ctx, 9)
    unused = (None,) * (len(PostPreForwardCall._fields) - 9)
    numbers, sinkhorn, impl = ctx.options
    grad_x_next, grad_h_in, grad_h_post, grad_h_res, *of_saved = grads
    if len(given.alpha) == 2:
        grad_h_res = None

    if any(g is not None for g in of_saved):  # second derivatives, or a loss on saved tensors
        upstream = (grad_x_next, grad_h_in, grad_h_post, grad_h_res, *of_saved)

        def written(*tensors: Any) -> tuple[Any, ...]:
            return reference.forward(ForwardInputs(*tensors), numbers, sinkhorn)

        return (*vector_jacobian(written, given, needed, upstream), *unused)
    if grad_h_in is None and grad_h_post is None and grad_h_res is None:
        return (*_through_post(given, needed, grad_x_next, impl), *unused)

    x_next, inv_rms, h_mix, h_pre, h_post_next = tensors[9:]
    upstream = zeros_for_unused(
        given.x, given.phi, given.alpha, h_post_next, grad_h_in, grad_h_post, grad_h_res
    )
    # The backward's order has out_bias before phi, and gamma last.
    wanted = [*needed[:4], needed[8], *needed[4:8]]
    results = _post_pre_backward(
        *given[:7],
        *(grad_x_next, *upstream),
        *(x_next, inv_rms, h_mix, h_pre, h_post_next, given.gamma, given.out_bias),
        *flat_options(numbers, sinkhorn, impl),
        wanted,
    )
    found = [r if w else None for r, w in zip(results, wanted, strict=True)]
    return (*found[:4], *found[5:], found[4], *unused)


def _through_post(
    given: ForwardInputs, needed: list[bool], grad_x_next: Tensor | None, impl: Impl
) -> list[Tensor | None]:
    """Gradients of the nine tensors where the next sublayer's results are not used."""
    wanted = [*needed[:4], needed[8]]
    if grad_x_next is None or not any(wanted):
        return [None] * 9
    x, h_res, h_out, h_post = given[:4]
    results = post_backward_function(
        grad_x_next, x, h_res, h_out, h_post, given.out_bias, impl.value, wanted
    )
    found = [r if w else None for r, w in zip(results, wanted, strict=True)]
    return [*found[:4], None, None, None, None, found[4]]


def save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PostPreBackwardCall(*inputs)
    ctx.save_for_backward(*call.tensors)
    ctx.numbers, ctx.sinkhorn, _ = call.options
    ctx.computed = call.computed
    ctx.set_materialize_grads(False)


def differentiate_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    numbers: PreNumbers = ctx.numbers
    sinkhorn: SinkhornNumbers | None = ctx.sinkhorn

    def written(*tensors: Any) -> tuple[Any, ...]:
        return reference.backward(BackwardInputs(*tensors), numbers, sinkhorn)

    through = vector_jacobian(
        written,
        ctx.saved_tensors,
        needed_inputs(ctx, 18),
        [g if c else None for g, c in zip(grads, ctx.computed, strict=True)],
    )
    return (*through, *(None,) * (len(PostPreBackwardCall._fields) - 18))


post_pre_function = eager_function("post_pre_forward", save_forward, differentiate_forward)
_post_pre_backward = eager_function("post_pre_backward", save_backward, differentiate_backward)
