"""The public doors of MhcPreSinkhorn: the differentiable function and the two bare operators."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...convention import Convention
from ...types import Impl, MhcPreBackward, MhcPreSinkhorn, MhcPreSinkhornForward
from ..common.checking import check_are_tensors, parse_impl
from ..common.forward_mode import forward_mode_is_on
from ..common.outputs import refuse_out, without_autocast
from ..common.registration import needs_no_dispatcher
from ..pre.api import records_gradients, reoriented
from ..pre.checks import HC_EPS, NORM_EPS, POST_EPS
from ..sinkhorn.checks import EPS, EPS_MODE, NUM_ITERS, ORDER, TEMPERATURE
from . import dispatch, reference, torch_op  # noqa: F401  # torch_op registers torch.ops.mhc
from .autograd import pre_sinkhorn_function
from .calls import PreSinkhornBackwardCall
from .checks import (
    BACKWARD,
    FORWARD,
    check_backward,
    check_wanted,
    plan_forward,
    pre_sinkhorn_numbers,
)


def mhc_pre_sinkhorn_forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreSinkhornForward:
    """MhcPreSinkhorn: one layer input, the gates, and the doubly stochastic h_res, in one operator.

    Same, bit for bit, as::

        h_in, h_post, logits, inv_rms, h_mix, h_pre = mhc_pre_forward(x, phi, alpha, bias, gamma)
        h_res = sinkhorn(logits)

    Args:
        x: [B, S, N, D] or [T, N, D]; bfloat16, float16, float32 or float64, any strides. With
            float64 x every other tensor is float64 too; otherwise they are float32.
        phi: [2N + N*N, N*D]. alpha: [3] (pre, post, res). bias: [2N + N*N]. gamma: [N, D] or None
            for ones. Other forms of phi have no Sinkhorn: they are for mhc_pre.
        norm_eps, hc_eps, post_eps: as in mhc_pre_forward. num_iters, eps, eps_mode, order,
            temperature: as in sinkhorn. convention: another library's numbers instead of all these.
        precision: "fp32", or "hf32" to round the matmul's operands gamma*x and phi to 10 fraction
            bits.
        impl: "auto", "reference", "torch", "cpu" or "triton"; a named one never falls back.
        out: tuple of six tensors to write into, in output order; None entries are allocated.

    Returns:
        MhcPreSinkhornForward(h_in, h_post, h_res, inv_rms, h_mix, h_pre); h_res [.., N, N] as
        [from, to].

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcPreSinkhorn, which has no gamma and one eps; its h_res is flat.
    """
    numbers = pre_sinkhorn_numbers(
        FORWARD, norm_eps, hc_eps, post_eps, num_iters, eps, eps_mode, order, temperature,
        precision, convention,
    )  # fmt: skip
    chosen = parse_impl(FORWARD, impl)
    inputs = (x, phi, alpha, bias, gamma)
    result: Sequence[Any]
    if out is not None:
        refuse_out(FORWARD, *inputs)
        targets = list(out)
        if len(targets) == len(MhcPreSinkhornForward._fields):
            targets[2] = reoriented(targets[2], x, convention)
        result = dispatch.forward(*inputs, numbers, chosen, targets)
    elif needs_no_dispatcher(*inputs):
        result = dispatch.forward(*inputs, numbers, chosen)
    else:
        check_are_tensors(FORWARD, ("gamma",), x=x, phi=phi, alpha=alpha, bias=bias, gamma=gamma)
        result = torch.ops.mhc.pre_sinkhorn_forward(*inputs, *_flat(numbers), chosen.value)
    h_in, h_post, h_res, *saved = result
    turned: Any = reoriented(h_res, x, convention)
    return MhcPreSinkhornForward(h_in, h_post, turned, *saved)


def mhc_pre_sinkhorn_backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None = None,
    grad_x_post: Tensor | None = None,
    *,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
    wanted: Iterable[str] | None = None,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreBackward:
    """Gradients of MhcPreSinkhorn from those of h_in, h_post and h_res.

    Same, bit for bit, as the chain of the two backwards::

        logits = alpha[2] * (h_mix[..., 2*N:] * inv_rms[..., None]) + bias[2*N:]
        grad_logits = sinkhorn_backward(logits.unflatten(-1, (N, N)), grad_h_res)
        grads = mhc_pre_backward(x, phi, alpha, grad_h_in, grad_h_post, grad_logits, ...)

    Args:
        x, phi, alpha, bias, gamma: as in mhc_pre_sinkhorn_forward; bias serves to form the logits
            again. grad_h_in: [.., D], dtype of x. grad_h_post: [.., N]. grad_h_res: [.., N, N] as
            [from, to]. inv_rms [..], h_mix [.., F], h_pre [.., N], h_post [.., N]: saved by
            mhc_pre_sinkhorn_forward.
        grad_x_post: [.., N, D], dtype of x, added to grad_x before its one rounding; None for
            zeros.
        hc_eps, post_eps, num_iters, eps, eps_mode, order, temperature, convention: those of the
            forward call.
        precision: "hf32" rounds the operands of both matmuls: g and phi, g and gamma*x.
        wanted: names of the gradients to compute, such as ("grad_x", "grad_phi"), or short ("x",
            "phi"); None for all.
        out: tuple of five tensors to write into, in output order; None entries are allocated. A
            result may lie on an input's memory, such as grad_x on x.

    Returns:
        MhcPreBackward(grad_x, grad_phi, grad_alpha, grad_bias, grad_gamma); None for what is not
        wanted, and for grad_gamma without gamma. grad_x as x, the others float32. Deterministic.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcPreSinkhornBackward, which is given the iterates instead and differs in terms of
    the size of eps: README.md.
    """
    numbers = pre_sinkhorn_numbers(
        BACKWARD, NORM_EPS, hc_eps, post_eps, num_iters, eps, eps_mode, order, temperature,
        precision, convention,
    )  # fmt: skip
    chosen = parse_impl(BACKWARD, impl)
    computed = check_wanted(wanted, gamma)
    saved = (inv_rms, h_mix, h_pre, h_post)
    turned: Any = reoriented(grad_h_res, x, convention)
    grads = (grad_h_in, grad_h_post, turned)
    tensors = (x, phi, alpha, bias, *grads, *saved, gamma, grad_x_post)
    if out is not None:
        refuse_out(BACKWARD, *tensors)
        return dispatch.backward(*tensors, numbers, chosen, computed, out)
    if needs_no_dispatcher(*tensors):
        return dispatch.backward(*tensors, numbers, chosen, computed)
    if not all(isinstance(t, Tensor) for t in (*grads, *saved)):
        check_backward(*tensors)  # names the missing tensor; the registered operator could not
    check_are_tensors(
        BACKWARD,
        ("gamma", "grad_x_post"),
        **dict(zip(PreSinkhornBackwardCall._fields, tensors, strict=False)),
    )
    results = torch.ops.mhc.pre_sinkhorn_backward(
        *tensors, *_flat(numbers), chosen.value, list(computed)
    )
    return MhcPreBackward(*(g if c else None for g, c in zip(results, computed, strict=True)))


def mhc_pre_sinkhorn(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
) -> MhcPreSinkhorn:
    """Differentiable MhcPreSinkhorn. Arguments, values and errors as in mhc_pre_sinkhorn_forward.

    Returns:
        MhcPreSinkhorn(h_in, h_post, h_res, x). The last is the input handed on: give it to mhc_post
        (or to anything else), and its gradient is added to grad_x inside the one backward call.
        Left unused it costs nothing.

    Saves for backward: x and the parameters by reference, and F + 2N + 1 numbers a token; neither
    the logits nor Sinkhorn's iterates. Gradients that no input asks for are not computed. Second
    derivatives are exact, through the reference's equations. Forward-mode differentiation needs
    impl="auto" or "reference" and precision="fp32".
    """
    op = "mhc_pre_sinkhorn"
    numbers = pre_sinkhorn_numbers(
        op, norm_eps, hc_eps, post_eps, num_iters, eps, eps_mode, order, temperature,
        precision, convention,
    )  # fmt: skip
    chosen = parse_impl(op, impl)
    inputs = (x, phi, alpha, bias, gamma)
    plan_forward(op, inputs)
    outputs: Any
    handed_on = x
    if forward_mode_is_on() and chosen in (Impl.AUTO, Impl.REFERENCE) and not numbers[0].hf32:
        with without_autocast(x):
            h_in, h_post, h_res, *_ = reference.forward(*inputs, numbers)
    elif not needs_no_dispatcher(*inputs) and records_gradients(*inputs):
        outputs = pre_sinkhorn_function(*inputs, *_flat(numbers), chosen.value)
        h_in, h_post, h_res, handed_on, *_ = outputs
    else:
        if needs_no_dispatcher(*inputs):
            outputs = dispatch.forward(*inputs, numbers, chosen)
        else:
            outputs = torch.ops.mhc.pre_sinkhorn_forward(*inputs, *_flat(numbers), chosen.value)
        h_in, h_post, h_res, *_ = outputs
        handed_on = x.view_as(x) if torch.is_grad_enabled() else x.detach()
    turned: Any = reoriented(h_res, x, convention)
    return MhcPreSinkhorn(h_in, h_post, turned, handed_on)


def _flat(numbers: Any) -> tuple[Any, ...]:
    """All options in the order in which the registered operators take them."""
    gates, options = numbers
    return (*gates, *options)
