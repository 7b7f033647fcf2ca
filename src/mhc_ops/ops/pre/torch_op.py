"""torch.ops.mhc.pre_forward and pre_backward: schemas, fakes, autograd, vmap, flop counts.

An absent h_res and an unwanted gradient are empty tensors here, since an operator cannot return
None. Second derivatives go through the written equations of reference.py, whatever implementation
ran.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from ...types import Impl
from . import dispatch, reference
from .checks import PreNumbers, backward_layout, check_backward, check_forward, forward_layout

_OPTIONS = (
    "float norm_eps=1e-6, bool norm_eps_outside=False, float hc_eps=1e-6, float post_scale=2.0, "
    "float post_eps=0.0, bool hf32=False, str impl='auto'"
)
_ALL = (True,) * 5

_library = torch.library.Library("mhc", "FRAGMENT")
_library.define(
    f"pre_forward(Tensor x, Tensor phi, Tensor alpha, Tensor bias, Tensor? gamma=None, {_OPTIONS})"
    " -> (Tensor h_in, Tensor h_post, Tensor h_res, Tensor inv_rms, Tensor h_mix, Tensor h_pre)"
)
_library.define(
    "pre_backward(Tensor x, Tensor phi, Tensor alpha, Tensor grad_h_in, Tensor grad_h_post, "
    "Tensor? grad_h_res, Tensor inv_rms, Tensor h_mix, Tensor h_pre, Tensor h_post, "
    f"Tensor? gamma=None, Tensor? grad_x_post=None, {_OPTIONS}, "
    "bool[] wanted=[True, True, True, True, True])"
    " -> (Tensor grad_x, Tensor grad_phi, Tensor grad_alpha, Tensor grad_bias, Tensor grad_gamma)"
)


class PreForwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.pre_forward; the dispatcher leaves out trailing defaults."""

    x: Tensor
    phi: Tensor
    alpha: Tensor
    bias: Tensor
    gamma: Tensor | None = None
    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    hf32: bool = False
    impl: str = "auto"

    @property
    def tensors(self) -> Any:
        return self[:5]

    @property
    def numbers(self) -> PreNumbers:
        return PreNumbers(*self[5:11])

    @property
    def options(self) -> Any:
        return self.numbers, Impl(self.impl)


class PreBackwardCall(NamedTuple):
    """The arguments of torch.ops.mhc.pre_backward."""

    x: Tensor
    phi: Tensor
    alpha: Tensor
    grad_h_in: Tensor
    grad_h_post: Tensor
    grad_h_res: Tensor | None
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor
    h_post: Tensor
    gamma: Tensor | None = None
    grad_x_post: Tensor | None = None
    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    hf32: bool = False
    impl: str = "auto"
    wanted: Sequence[bool] = _ALL

    @property
    def tensors(self) -> Any:
        return self[:12]

    @property
    def numbers(self) -> PreNumbers:
        return PreNumbers(*self[12:18])

    @property
    def options(self) -> Any:
        return self.numbers, Impl(self.impl), self.computed

    @property
    def computed(self) -> tuple[bool, ...]:
        """`wanted`, less grad_gamma where there is no gamma."""
        return (*self.wanted[:4], self.wanted[4] and self.gamma is not None)


def _forward(*args: Any) -> tuple[Tensor, ...]:
    call = PreForwardCall(*args)
    return _present(call.x, dispatch.forward(*call.tensors, *call.options))


def _forward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PreForwardCall(*args)
    return _empty(call.x, forward_layout(check_forward(*call.tensors), call.x, call.phi))


def _backward(*args: Any) -> tuple[Tensor, ...]:
    call = PreBackwardCall(*args)
    grads = dispatch.backward(*call.tensors, *call.options)
    return _present(call.x, grads)


def _backward_fake(*args: Any) -> tuple[Tensor, ...]:
    call = PreBackwardCall(*args)
    sizes = check_backward(*call.tensors)
    return _empty(call.x, backward_layout(sizes, call.x, call.phi, call.alpha, call.computed))


def _present(x: Tensor, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(0) if t is None else t for t in tensors)


def _empty(x: Tensor, layout: Any) -> tuple[Tensor, ...]:
    return _present(x, [None if s is None else x.new_empty(s[0], dtype=s[1]) for s in layout])


def save_forward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PreForwardCall(*inputs)
    _, h_post, _, inv_rms, h_mix, h_pre = output
    ctx.save_for_backward(*call.tensors, inv_rms, h_mix, h_pre, h_post)
    ctx.numbers, ctx.impl = call.numbers, call.impl
    ctx.set_materialize_grads(False)


def _differentiate_forward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    return (*pre_gradients(ctx, grads, None), *(None,) * 7)


def pre_gradients(
    ctx: Any, grads: Sequence[Tensor | None], grad_x_post: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Gradients of x, phi, alpha, bias, gamma from those of the six outputs and of the handed-on x.

    `ctx` is one that save_forward filled. None stands for zero on both sides.
    """
    x, phi, alpha, bias, gamma, inv_rms, h_mix, h_pre, h_post = ctx.saved_tensors
    inputs, needed = (x, phi, alpha, bias, gamma), ctx.needs_input_grad[:5]
    grad_h_in, grad_h_post, grad_h_res, *grads_of_saved = grads
    if any(g is not None for g in grads_of_saved):  # second derivatives, or a loss on saved tensors
        through = _vector_jacobian(
            partial(reference.forward, numbers=ctx.numbers), inputs, needed, grads
        )
        if grad_x_post is not None and needed[0]:
            through[0] = grad_x_post if through[0] is None else through[0] + grad_x_post
        return tuple(through)
    if all(g is None for g in grads):
        return (grad_x_post if needed[0] else None, None, None, None, None)
    if grad_h_in is None:
        grad_h_in = torch.zeros_like(x[..., 0, :])
    if grad_h_post is None:
        grad_h_post = torch.zeros_like(h_post)
    if len(alpha) == 2:
        grad_h_res = None
    elif grad_h_res is None:
        n = x.shape[-2]
        residual = len(phi) - 2 * n
        tail = (n, n) if residual == n * n else (residual,)
        grad_h_res = h_post.new_zeros(*x.shape[:-2], *tail)
    results = torch.ops.mhc.pre_backward(
        x,
        phi,
        alpha,
        grad_h_in,
        grad_h_post,
        grad_h_res,
        inv_rms,
        h_mix,
        h_pre,
        h_post,
        gamma,
        grad_x_post,
        *ctx.numbers,
        ctx.impl,
        list(needed),
    )
    return tuple(r if need else None for r, need in zip(results, needed, strict=True))


def _save_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    call = PreBackwardCall(*inputs)
    ctx.save_for_backward(*call.tensors)
    ctx.numbers = call.numbers
    ctx.set_materialize_grads(False)


def _differentiate_backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    through = _vector_jacobian(
        partial(reference.backward, numbers=ctx.numbers),
        ctx.saved_tensors,
        ctx.needs_input_grad[:12],
        grads,
    )
    return (*through, *(None,) * 8)


def _vector_jacobian(
    function: Callable[..., Sequence[Tensor | None]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """`grads` pulled back through `function` to the needed inputs; differentiable again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, so that a tensor given in two roles gets the gradient of each role.
        roles = [None if t is None else t.view_as(t) for t in inputs]
        outputs = function(*roles)
    pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None and o is not None]
    pairs = [(o, g) for o, g in pairs if o.requires_grad]
    sources = [t for t, need in zip(roles, needed, strict=True) if need and t is not None]
    if not pairs or not sources:
        return [None] * len(inputs)
    found = iter(
        torch.autograd.grad(
            [o for o, _ in pairs],
            sources,
            [g for _, g in pairs],
            create_graph=again,
            allow_unused=True,
        )
    )
    return [
        next(found) if need and t is not None else None
        for t, need in zip(roles, needed, strict=True)
    ]


def _one_by_one(op: Callable[..., tuple[Tensor, ...]]) -> Callable[..., Any]:
    """A vmap rule that runs the operator once a slice and stacks the results."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        slices = [
            op(*(a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        outputs = tuple(torch.stack(column) for column in zip(*slices, strict=True))
        return outputs, (0,) * len(outputs)

    return rule


def _projection_flops(x_shape: Sequence[int], phi_shape: Sequence[int]) -> int:
    tokens = 1
    for size in x_shape[:-2]:
        tokens *= size
    return 2 * tokens * phi_shape[0] * phi_shape[1]


for _name, _kernel, _fake in (
    ("pre_forward", _forward, _forward_fake),
    ("pre_backward", _backward, _backward_fake),
):
    _library.impl(_name, _kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"mhc::{_name}", _fake, lib=_library)
    torch.library.register_vmap(
        f"mhc::{_name}", _one_by_one(getattr(torch.ops.mhc, _name)), lib=_library
    )
torch.library.register_autograd(
    "mhc::pre_forward", _differentiate_forward, setup_context=save_forward, lib=_library
)
torch.library.register_autograd(
    "mhc::pre_backward", _differentiate_backward, setup_context=_save_backward, lib=_library
)


@register_flop_formula(torch.ops.mhc.pre_forward)
def pre_forward_flops(x_shape: Any, phi_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the projection x @ phi^T; as torch's own formulas, matmuls alone are counted."""
    return _projection_flops(x_shape, phi_shape)


@register_flop_formula(torch.ops.mhc.pre_backward)
def pre_backward_flops(x_shape: Any, phi_shape: Any, *rest: Any, **kwargs: Any) -> int:
    """Flops of the matmuls that the wanted gradients need: one for x, one for phi and gamma."""
    wanted = PreBackwardCall(x_shape, phi_shape, *rest).wanted
    return _projection_flops(x_shape, phi_shape) * (int(wanted[0]) + int(wanted[1] or wanted[4]))
