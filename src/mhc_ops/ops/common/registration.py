"""torch.ops.mhc: one call registers an operator's kernel, fake, vmap rule and gradient.

An absent result is an empty tensor here: a registered operator cannot return None.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from .forward_mode import forward_mode_is_on

LIBRARY = torch.library.Library("mhc", "FRAGMENT")
_PLAIN = (Tensor, torch.nn.Parameter)


def needs_no_dispatcher(*tensors: Tensor | None) -> bool:
    """Whether plain eager tensors may go straight to the kernel, which saves some 20 us a call.

    False under a gradient, a trace, a dispatch mode, a torch.func transform, and for subclasses and
    lazily negated tensors, which the dispatcher resolves.
    """
    if (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or is_in_torch_dispatch_mode()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_mode_is_on()
    ):
        return False
    recording = torch.is_grad_enabled()
    for t in tensors:
        if t is not None and (
            type(t) not in _PLAIN or t.is_meta or t.is_neg() or (recording and t.requires_grad)
        ):
            return False
    return True


def register(
    name: str,
    kernel: Callable[..., Any],
    fake: Callable[..., Any],
    gradient: Callable[..., Any],
    save: Callable[..., None],
) -> None:
    """Give the operator that LIBRARY defines as `name` everything that torch asks of it."""
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    qualified = f"mhc::{name}"
    torch.library.register_fake(qualified, fake, lib=LIBRARY)
    rule = one_by_one(getattr(torch.ops.mhc, name))
    torch.library.register_vmap(qualified, rule, lib=LIBRARY)
    torch.library.register_autograd(qualified, gradient, setup_context=save, lib=LIBRARY)


def present(x: Tensor, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(0) if t is None else t for t in tensors)


def empty_results(x: Tensor, layout: Any) -> tuple[Tensor, ...]:
    return present(x, [None if s is None else x.new_empty(s[0], dtype=s[1]) for s in layout])


def eager_function(
    name: str, save: Callable[..., None], gradient: Callable[..., Any]
) -> Callable[..., Any]:
    """The operator `name` for torch.func, which cannot see into an operator's own autograd.

    save and gradient are those given to `register`. A traced call takes the operator itself.
    """

    class OperatorFunction(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            return getattr(torch.ops.mhc, name)(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            save(ctx, inputs, output)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor | None) -> Any:
            return gradient(ctx, *grads)

    apply: Callable[..., Any] = OperatorFunction.apply  # untyped in torch

    def call(*args: Any) -> Any:
        traced = torch.compiler.is_compiling()
        return getattr(torch.ops.mhc, name)(*args) if traced else apply(*args)

    return call


def handing_on_function(
    name: str, save: Callable[..., None], gradients: Callable[..., Any]
) -> Callable[..., Any]:
    """The operator `name` as a Function that also hands x, its first input, on.

    x's later gradient then enters the operator's own backward. Behind the three results come the
    saved tensors, outputs as well: that is how autograd differentiates them a second time.
    save: that given to `register`. gradients(ctx, those of the operator's outputs, that of the
    handed-on x): those of the leading inputs.
    """

    class HandingOnFunction(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor, *args: Any) -> tuple[Tensor, ...]:
            h_in, h_post, h_res, *saved = getattr(torch.ops.mhc, name)(x, *args)
            return (h_in, h_post, h_res, x.view_as(x), *saved)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            save(ctx, inputs, (*output[:3], *output[4:]))

        @staticmethod
        def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            # A traced graph has no second derivatives; tracing hands in zeros for unused outputs.
            of_saved = (None,) * len(grads[4:]) if torch.compiler.is_compiling() else grads[4:]
            found = gradients(ctx, (*grads[:3], *of_saved), grads[3])
            return (*found, *(None,) * (len(ctx.needs_input_grad) - len(found)))

    apply: Callable[..., Any] = HandingOnFunction.apply  # untyped in torch
    return apply


def one_by_one(op: Callable[..., Any]) -> Callable[..., Any]:
    """A vmap rule that runs the operator once a slice and stacks the results."""

    def rule(info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        def pick(arg: Any, dim: Any, i: int) -> Any:
            return arg.select(dim, i) if isinstance(arg, Tensor) and dim is not None else arg

        slices = [
            op(*(pick(a, d, i) for a, d in zip(args, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        if isinstance(slices[0], Tensor):
            return torch.stack(slices), 0
        outputs = tuple(torch.stack(column) for column in zip(*slices, strict=True))
        return outputs, (0,) * len(outputs)

    return rule


def needed_inputs(ctx: Any, count: int) -> list[bool]:
    """Which of the first `count` inputs need a gradient; the dispatcher drops trailing defaults."""
    given = ctx.needs_input_grad[:count]
    return [*given, *(False,) * (count - len(given))]


def vector_jacobian(
    function: Callable[..., Sequence[Tensor | None]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """`grads` pulled back through `function` to the needed inputs; differentiable again.

    None among `grads` stands for an output that is absent or not used.
    """

    def of_needed(*sources: Tensor) -> tuple[Tensor, ...]:
        supply = iter(sources)
        outputs = function(*(next(supply) if n else t for t, n in zip(inputs, needed, strict=True)))
        kept = [o for o, g in zip(outputs, grads, strict=True) if g is not None]
        return tuple(o for o in kept if o is not None)

    needed = [n and t is not None for t, n in zip(inputs, needed, strict=True)]
    sources = [t for t, n in zip(inputs, needed, strict=True) if n]
    weights = tuple(g for g in grads if g is not None)
    if not weights or not sources:
        return [None] * len(needed)
    _, pullback, *_ = torch.func.vjp(of_needed, *sources)
    found = iter(pullback(weights))
    return [next(found) if n else None for n in needed]
