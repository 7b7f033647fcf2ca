"""The public doors of the boundary: the differentiable mhc_post_pre and the two bare operators."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...convention import Convention
from ...types import Impl, MhcPostPre, MhcPostPreBackward, MhcPostPreForward
from ..common.checking import check_are_tensors, parse_impl
from ..common.forward_mode import forward_mode_is_on
from ..common.outputs import refuse_out, without_autocast
from ..common.registration import needs_no_dispatcher
from ..pre.api import reoriented
from ..pre.checks import HC_EPS, NORM_EPS, POST_EPS, PreNumbers, pre_numbers
from ..sinkhorn.checks import EPS, SinkhornNumbers
from . import dispatch, reference, torch_op  # noqa: F401  # torch_op registers torch.ops.mhc
from .autograd import post_pre_function
from .calls import flat_options
from .checks import BackwardInputs, ForwardInputs, check_forward, check_wanted, sinkhorn_options


def mhc_post_pre_forward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    out_bias: Tensor | None = None,
    num_iters: int | None = None,
    eps: float = EPS,
    eps_mode: str = "add",
    order: str = "columns_last",
    temperature: float = 1.0,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> MhcPostPreForward:
    """The boundary of two sublayers: write one's output, make the next one's input and gates.

    Same, bit for bit, as::

        x_next = mhc_post_forward(x, h_res, h_out, h_post, bias=out_bias)
        h_in, h_post, h_res, *saved = mhc_pre_forward(x_next, phi, alpha, bias, gamma)
        if num_iters is not None:
            h_res = sinkhorn(h_res, num_iters=num_iters)

    Args:
        x: [B, S, N, D] or [T, N, D]; bfloat16, float16, float32 or float64, any strides. With
            float64 x every other tensor is float64 too; otherwise gates and parameters are float32.
        h_res: [.., N, N] as [from, to], or None for the identity. h_out: [.., D], dtype of x.
            h_post: [.., N]. out_bias: [D], the sublayer's own bias, or None. All of the sublayer
            that ends here.
        phi: [F, N*D] with F = 2N + R; R is N*N or, without num_iters, N! or 0 (alpha of two
            entries). alpha: [3] or [2]. bias: [F]. gamma: [N, D] or None. All of the next sublayer.
        num_iters: Sinkhorn's iterations, 0..1000; None leaves the logits as they are.
        eps, eps_mode, order, temperature: as in sinkhorn, and only with num_iters.
        norm_eps, hc_eps, post_eps, convention, precision: as in mhc_pre_forward.
        impl: "auto", "reference", "torch", "cpu" or "triton"; a named one never falls back.
        out: tuple of seven tensors to write into, in output order; None entries are allocated.

    Returns:
        MhcPostPreForward(x_next, h_in, h_post, h_res, inv_rms, h_mix, h_pre). x_next is rounded to
        x's dtype before the next sublayer reads it.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcPost, aclnnMhcPre and aclnnMhcSinkhorn, one after the other.
    """
    op = "mhc_post_pre_forward"
    numbers = pre_numbers(op, norm_eps, hc_eps, post_eps, precision, convention)
    sinkhorn = sinkhorn_options(op, num_iters, eps, eps_mode, order, temperature, convention)
    chosen = parse_impl(op, impl)
    given = ForwardInputs(x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias)
    result: Sequence[Any]
    if out is not None:
        refuse_out(op, *given)
        targets = list(out)
        if len(targets) == len(MhcPostPreForward._fields):
            targets[3] = reoriented(targets[3], x, convention)
        result = dispatch.forward(given, numbers, sinkhorn, chosen, targets)
    elif needs_no_dispatcher(*given):
        result = dispatch.forward(given, numbers, sinkhorn, chosen)
    else:
        check_are_tensors(op, ("h_res", "gamma", "out_bias"), **given._asdict())
        result = torch.ops.mhc.post_pre_forward(*given, *flat_options(numbers, sinkhorn, chosen))
    x_next, h_in, next_post, next_res, *saved = result
    next_res = reoriented(next_res, x, convention) if len(alpha) == 3 else None
    return MhcPostPreForward(x_next, h_in, next_post, next_res, *saved)


def mhc_post_pre_backward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    grad_x_next: Tensor | None,
    grad_h_in: Tensor,
    grad_h_post_next: Tensor,
    grad_h_res_next: Tensor | None,
    x_next: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post_next: Tensor,
    gamma: Tensor | None = None,
    *,
    out_bias: Tensor | None = None,
    num_iters: int | None = None,
    eps: float = EPS,
    eps_mode: str = "add",
    order: str = "columns_last",
    temperature: float = 1.0,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
    wanted: Iterable[str] | None = None,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPostPreBackward:
    """Gradients of the boundary from those of x_next, h_in, h_post and h_res.

    Same as::

        grad_logits = sinkhorn_backward(logits, grad_h_res_next)          # with num_iters
        g, *of_parameters = mhc_pre_backward(x_next, .., grad_h_in, grad_h_post_next, grad_logits,
                                             .., grad_x_post=grad_x_next)
        grads = mhc_post_backward(g, x, h_res, h_out, h_post, out_bias)

    but that g, the gradient of x_next, is not rounded to x's dtype between the two.

    Args:
        x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias: as in mhc_post_pre_forward. bias
            serves to form the logits again, with num_iters.
        grad_x_next: [.., N, D], dtype of x, what the other readers of x_next send; None for zeros.
            grad_h_in: [.., D], dtype of x. grad_h_post_next: [.., N]. grad_h_res_next: as h_res of
            the forward; None for alpha of two entries.
        x_next, inv_rms, h_mix, h_pre, h_post_next: the forward's results, the last one its h_post.
        num_iters, eps, eps_mode, order, temperature, hc_eps, post_eps, convention: those of the
            forward call. precision: as in mhc_pre_backward.
        wanted: names of the gradients to compute, such as ("grad_x", "grad_phi"), or short ("x",
            "phi"); None for all.
        out: tuple of nine tensors to write into, in output order; None entries are allocated.

    Returns:
        MhcPostPreBackward(grad_x, grad_h_res, grad_h_out, grad_h_post, grad_out_bias, grad_phi,
        grad_alpha, grad_bias, grad_gamma); None for what is not wanted, for grad_out_bias without
        out_bias and for grad_gamma without gamma. grad_x and grad_h_out as x, the others float32.
        Deterministic.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: the chain rule through aclnnMhcPost, aclnnMhcPre and aclnnMhcSinkhorn; README.md.
    """
    op = "mhc_post_pre_backward"
    numbers = pre_numbers(op, NORM_EPS, hc_eps, post_eps, precision, convention)
    sinkhorn = sinkhorn_options(op, num_iters, eps, eps_mode, order, temperature, convention)
    chosen = parse_impl(op, impl)
    computed = check_wanted(wanted, gamma, out_bias)
    grad_h_res_next = reoriented(grad_h_res_next, x, convention)
    upstream = (grad_x_next, grad_h_in, grad_h_post_next, grad_h_res_next)
    saved = (x_next, inv_rms, h_mix, h_pre, h_post_next)
    given = BackwardInputs(
        x, h_res, h_out, h_post, phi, alpha, bias, *upstream, *saved, gamma, out_bias
    )
    if out is not None:
        refuse_out(op, *given)
        return dispatch.backward(given, numbers, sinkhorn, chosen, computed, out)
    if needs_no_dispatcher(*given):
        return dispatch.backward(given, numbers, sinkhorn, chosen, computed)
    optional = ("h_res", "grad_x_next", "grad_h_res_next", "gamma", "out_bias")
    check_are_tensors(op, optional, **given._asdict())
    options = flat_options(numbers, sinkhorn, chosen)
    grads = torch.ops.mhc.post_pre_backward(*given, *options, list(computed))
    return MhcPostPreBackward(*(g if c else None for g, c in zip(grads, computed, strict=True)))


def mhc_post_pre(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    out_bias: Tensor | None = None,
    num_iters: int | None = None,
    eps: float = EPS,
    eps_mode: str = "add",
    order: str = "columns_last",
    temperature: float = 1.0,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
) -> MhcPostPre:
    """Differentiable boundary of two sublayers. Arguments and errors as in mhc_post_pre_forward.

    Returns:
        MhcPostPre(x_next, h_in, h_post, h_res) of the next sublayer. x_next goes to the next
        boundary, or to mhc_post after the last sublayer: its gradient from there is added to that
        of mhc_pre inside the one backward call.

    Saves for backward: the inputs and x_next by reference, and F + 2N + 1 numbers a token.
    Gradients that no input asks for are not computed. Second derivatives are exact, through the
    reference's equations. Forward-mode differentiation needs impl="auto" or "reference" and
    precision="fp32".
    """
    op = "mhc_post_pre"
    numbers = pre_numbers(op, norm_eps, hc_eps, post_eps, precision, convention)
    sinkhorn = sinkhorn_options(op, num_iters, eps, eps_mode, order, temperature, convention)
    chosen = parse_impl(op, impl)
    given = ForwardInputs(x, h_res, h_out, h_post, phi, alpha, bias, gamma, out_bias)
    check_forward(given, sinkhorn, op)
    x_next, h_in, next_post, next_res, *_ = _run(given, numbers, sinkhorn, chosen)
    next_res = reoriented(next_res, x, convention) if len(alpha) == 3 else None
    return MhcPostPre(x_next, h_in, next_post, next_res)


def _run(
    given: ForwardInputs, numbers: PreNumbers, sinkhorn: SinkhornNumbers | None, chosen: Impl
) -> Any:
    if forward_mode_is_on() and chosen in (Impl.AUTO, Impl.REFERENCE) and not numbers.hf32:
        with without_autocast(given.x):
            return reference.forward(given, numbers, sinkhorn)
    if needs_no_dispatcher(*given):
        return dispatch.forward(given, numbers, sinkhorn, chosen)
    # torch.compile sees through the operator's own autograd; torch.func needs a Function.
    traced = torch.compiler.is_compiling() or torch.compiler.is_exporting()
    use_function = torch.is_grad_enabled() and not traced
    call = post_pre_function if use_function else torch.ops.mhc.post_pre_forward
    return call(*given, *flat_options(numbers, sinkhorn, chosen))
