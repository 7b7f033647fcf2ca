"""torch.ops.mhc: one call registers an operator's kernel, fake, vmap rule and gradient.

An absent result is an empty tensor here: a registered operator cannot return None.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("mhc", "FRAGMENT")


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
