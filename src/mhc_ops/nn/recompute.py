"""Boundaries of a stack that do not keep their streams: x is rebuilt in the backward from h_out.

x, N*D numbers a token, is kept every k sublayers alone. The backward of a boundary walks from the
last kept x through the writes that followed, h_res, h_out and h_post, which are kept for every
sublayer: the very additions of the forward, and so the same bits. No sublayer runs again.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..ops.common.registration import LIBRARY

LIBRARY.define(
    "post_again(Tensor x, Tensor? h_res, Tensor h_out, Tensor h_post, Tensor? bias, Tensor after, "
    "str impl) -> Tensor"
)


def _post_again(*args: Any) -> Tensor:
    """post_forward once `after` is there: no compiler can move that work into the forward."""
    *write, _, impl = args
    out: Tensor = torch.ops.mhc.post_forward(*write, impl)
    return out


LIBRARY.impl("post_again", _post_again, "CompositeExplicitAutograd")
torch.library.register_fake("mhc::post_again", lambda x, *rest: x.new_empty(x.shape), lib=LIBRARY)


class Write(NamedTuple):
    """What one sublayer wrote into the streams: h_res, h_out, h_post, the bias of h_out."""

    h_res: Tensor | None
    h_out: Tensor
    h_post: Tensor
    bias: Tensor | None


class Segment:
    """The run of sublayers after one kept x, as far as the forward has come.

    start: the number of the sublayer that reads the kept x. writes: of the sublayers from there on.
    rebuilt: what the backward has rebuilt and still needs, by the number of the sublayer it enters.
    token: of a traced graph, which has no such shelf. A number that the boundaries hand on, so that
        its gradient is one and the same `after` for all of them, and equal rebuilds are merged.
    """

    def __init__(self, start: int, kept: Tensor) -> None:
        self.start, self.kept = start, kept.detach()
        self.writes: list[Write] = []
        self.rebuilt: dict[int, Tensor] = {}
        self.token: Tensor | None = None

    def extend(self, write: Write) -> list[Tensor | None]:
        """Take one more write; the kept x and the writes so far, flat, as a Function saves them."""
        detached: list[Any] = [None if t is None else t.detach() for t in write]
        self.writes.append(Write(*detached))
        return [self.kept, *(t for write in self.writes for t in write)]


def boundary(
    segment: Segment,
    x: Tensor,
    write: Write,
    parameters: Sequence[Tensor | None],
    options: tuple[Any, ...],
    keeps_next: bool,
) -> tuple[Tensor, ...]:
    """torch.ops.mhc.post_pre_forward's x_next, h_in, h_post, h_res, with a backward that rebuilds
    x, and x_next too unless `keeps_next`.
    """
    place, saved = (segment.start, keeps_next), segment.extend(write)
    *result, segment.token = _boundary(
        _shelf(segment), place, options, segment.token, x, *write, *parameters, *saved
    )
    return tuple(result)


def last_post(segment: Segment, x: Tensor, write: Write, impl: str) -> Tensor:
    """mhc_post, with a backward that rebuilds x."""
    saved = segment.extend(write)
    out: Tensor = _last_post(_shelf(segment), segment.start, impl, segment.token, x, *write, *saved)
    return out


def _shelf(segment: Segment) -> dict[int, Tensor] | None:
    """Where the backwards of a segment share what they rebuild; a traced graph has none."""
    return None if torch.compiler.is_compiling() else segment.rebuilt


class _BoundaryFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rebuilt: dict[int, Tensor] | None,
        place: tuple[int, bool],
        options: tuple[Any, ...],
        token: Tensor | None,
        x: Tensor,
        *tensors: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        h_res, h_out, h_post, out_bias = tensors[:4]
        x_next, h_in, next_post, next_res, *saved = torch.ops.mhc.post_pre_forward(
            x, h_res, h_out, h_post, *tensors[4:8], out_bias, *options
        )
        held = x_next if place[1] else None
        ctx.save_for_backward(*tensors[4:8], held, *saved, next_post, *tensors[8:])
        ctx.rebuilt, ctx.place, ctx.options = rebuilt, place, options
        ctx.set_materialize_grads(False)
        return x_next, h_in, next_post, next_res, x.new_zeros(()) if rebuilt is None else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(g is None for g in grads):
            return (None,) * len(ctx.needs_input_grad)
        tensors = ctx.saved_tensors  # once: torch's checkpoint gives each tensor out a single time
        parameters, x_next, saved, kept = tensors[:4], tensors[4], tensors[5:9], tensors[9]
        writes = _writes(tensors[10:])
        (start, keeps_next), impl = ctx.place, ctx.options[-1]
        after = _token(grads) if keeps_next or grads[4] is None else grads[4]
        again = writes[:-1] if keeps_next else writes
        streams = _rebuild(ctx.rebuilt, start, kept, again, after, impl)
        x = streams[len(writes) - 1]
        x_next = x_next if keeps_next else streams[-1]
        needed = list(ctx.needs_input_grad[4:13])
        found = _gradients(x, writes[-1], parameters, x_next, saved, grads[:4], needed, ctx.options)
        if ctx.rebuilt is not None:
            ctx.rebuilt.pop(start + len(writes), None)
        of_token = after if ctx.needs_input_grad[3] else None
        return (None, None, None, of_token, *found, *(None,) * (1 + 4 * len(writes)))


class _LastPostFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rebuilt: dict[int, Tensor] | None,
        start: int,
        impl: str,
        token: Tensor | None,
        x: Tensor,
        *tensors: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(*tensors[4:])
        ctx.rebuilt, ctx.start, ctx.impl = rebuilt, start, impl
        out: Tensor = torch.ops.mhc.post_forward(x, *tensors[:4], impl)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, *flat = ctx.saved_tensors
        writes = _writes(flat)
        after = _token([grad])
        x = _rebuild(ctx.rebuilt, ctx.start, kept, writes[:-1], after, ctx.impl)[-1]
        needed = list(ctx.needs_input_grad[4:9])
        found = torch.ops.mhc.post_backward(grad, x, *writes[-1], ctx.impl, needed)
        gradients = [g if need else None for g, need in zip(found, needed, strict=True)]
        of_token = after if ctx.needs_input_grad[3] else None
        return (None, None, None, of_token, *gradients, *(None,) * (1 + 4 * len(writes)))


_boundary: Any = _BoundaryFunction.apply
_last_post: Any = _LastPostFunction.apply


def _writes(flat: Sequence[Any]) -> list[Write]:
    return [Write(*flat[i : i + 4]) for i in range(0, len(flat), 4)]


def _token(grads: Sequence[Tensor | None]) -> Tensor:
    """A number that a traced graph cannot have before the first of the gradients is there."""
    first = next(g for g in grads if g is not None)
    return first[:1, :1].sum() if torch.compiler.is_compiling() else first.new_zeros(())


def _rebuild(
    rebuilt: dict[int, Tensor] | None,
    start: int,
    kept: Tensor,
    writes: Sequence[Write],
    after: Tensor,
    impl: str,
) -> list[Tensor]:
    """The kept x, and x after each of the writes; what is on the shelf is not computed again."""
    streams = [kept]
    for number, write in enumerate(writes, start + 1):
        x = None if rebuilt is None else rebuilt.get(number)
        if x is None:
            x = torch.ops.mhc.post_again(streams[-1], *write, after, impl)
        if rebuilt is not None:
            rebuilt[number] = x
        streams.append(x)
    return streams


def _gradients(
    x: Tensor,
    write: Write,
    parameters: Sequence[Any],
    x_next: Tensor,
    saved: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    needed: list[bool],
    options: tuple[Any, ...],
) -> list[Tensor | None]:
    """Gradients of x, the write and the parameters; None for those that are not needed."""
    h_res, h_out, h_post, out_bias = write
    phi, alpha, bias, gamma = parameters
    inv_rms, h_mix, h_pre, next_post = saved
    grad_x, grad_h_in, grad_h_post, grad_h_res = grads
    if grad_h_in is None and grad_h_post is None and grad_h_res is None:
        impl = options[-1]
        found = torch.ops.mhc.post_backward(grad_x, x, *write, impl, needed[:5])
        return [*(g if n else None for g, n in zip(found, needed, strict=False)), *[None] * 4]
    n = x.shape[-2]
    residual = len(phi) - 2 * n
    if grad_h_in is None:
        grad_h_in = x.new_zeros(*x.shape[:-2], x.shape[-1])
    if grad_h_post is None:
        grad_h_post = torch.zeros_like(next_post)
    if residual == 0:
        grad_h_res = None
    elif grad_h_res is None:
        tail = (n, n) if residual == n * n else (residual,)
        grad_h_res = next_post.new_zeros(*x.shape[:-2], *tail)
    found = torch.ops.mhc.post_pre_backward(
        *(x, h_res, h_out, h_post, phi, alpha, bias, grad_x, grad_h_in, grad_h_post, grad_h_res),
        *(x_next, inv_rms, h_mix, h_pre, next_post, gamma, out_bias, *options, needed),
    )
    return [g if need else None for g, need in zip(found, needed, strict=True)]
