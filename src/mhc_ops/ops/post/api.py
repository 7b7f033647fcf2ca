"""The public doors of MhcPost: the differentiable mhc_post and the two bare operators."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ...types import Impl, MhcPostBackward
from ..common.checking import parse_impl
from ..common.forward_mode import forward_mode_is_on
from ..common.outputs import refuse_out, without_autocast
from ..common.registration import needs_no_dispatcher
from . import dispatch, reference, torch_op  # noqa: F401  # torch_op registers torch.ops.mhc
from .autograd import post_function
from .checks import check_backward, check_forward, check_wanted, plan_forward


def mhc_post_forward(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    *,
    bias: Tensor | None = None,
    impl: str | Impl = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """MhcPost: mix the N streams and write a sublayer's output into all of them.

    Same as::

        out = torch.einsum("...ij,...id->...jd", h_res, x)  # or x itself where h_res is None
        out = out + h_post[..., None] * (h_out + bias)[..., None, :]

    Args:
        x: [B, S, N, D] or [T, N, D]; bfloat16, float16, float32 or float64, any strides. With
            float64 x every other tensor is float64 too; otherwise the gates are float32.
        h_res: [.., N, N] as [from, to], or None for the identity.
        h_out: [.., D], dtype of x, the sublayer's output. h_post: [.., N].
        bias: [D] in h_post's dtype, the sublayer's own bias, or None.
        impl: "auto", "reference", "torch", "cpu", "triton" or "npu"; a named one never falls back.
        out: a tensor like x to write into; None allocates one.

    Returns:
        out [.., N, D] as x. Sums in float32 with `from` ascending, then h_post's part; one
        rounding.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcPost, which has no bias.
    """
    chosen = parse_impl("mhc_post_forward", impl)
    if out is not None:
        refuse_out("mhc_post_forward", x, h_res, h_out, h_post, bias)
        return dispatch.forward(x, h_res, h_out, h_post, bias, chosen, out)
    if needs_no_dispatcher(x, h_res, h_out, h_post, bias):
        return dispatch.forward(x, h_res, h_out, h_post, bias, chosen)
    if any(t is None for t in (x, h_out, h_post)):
        check_forward(x, h_res, h_out, h_post, bias)  # names the missing tensor
    result: Tensor = torch.ops.mhc.post_forward(x, h_res, h_out, h_post, bias, chosen.value)
    return result


def mhc_post_backward(
    grad_out: Tensor,
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    bias: Tensor | None = None,
    *,
    impl: str | Impl = "auto",
    wanted: Iterable[str] | None = None,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPostBackward:
    """MhcPostBackward: gradients of MhcPost from that of its output.

    Same as::

        grad_x = torch.einsum("...ij,...jd->...id", h_res, grad_out)  # grad_out without h_res
        grad_h_res = torch.einsum("...id,...jd->...ij", x, grad_out)
        grad_h_out = torch.einsum("...j,...jd->...d", h_post, grad_out)
        grad_h_post = torch.einsum("...d,...jd->...j", h_out + bias, grad_out)
        grad_bias = grad_h_out.flatten(0, -2).sum(0)  # before grad_h_out is rounded

    Args:
        grad_out: [.., N, D], dtype of x. x, h_res, h_out, h_post, bias: as in mhc_post_forward.
        wanted: names of the gradients to compute, such as ("grad_x", "grad_h_out"); None for all.
        out: tuple of five tensors to write into, in output order; None entries are allocated.

    Returns:
        MhcPostBackward(grad_x, grad_h_res, grad_h_out, grad_h_post, grad_bias); None for what is
        not wanted, and for grad_bias without bias. grad_h_res is there without h_res too.
        grad_x and grad_h_out as x, the others float32. Deterministic.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcPostBackward, which has no bias.
    """
    chosen = parse_impl("mhc_post_backward", impl)
    computed = check_wanted(wanted, bias)
    tensors = (grad_out, x, h_res, h_out, h_post, bias)
    if out is not None:
        refuse_out("mhc_post_backward", *tensors)
        return dispatch.backward(*tensors, chosen, computed, out)
    if needs_no_dispatcher(*tensors):
        return dispatch.backward(*tensors, chosen, computed)
    if any(t is None for t in (grad_out, x, h_out, h_post)):
        check_backward(*tensors)  # names the missing tensor
    grads = torch.ops.mhc.post_backward(*tensors, chosen.value, list(computed))
    return MhcPostBackward(*(g if c else None for g, c in zip(grads, computed, strict=True)))


def mhc_post(
    x: Tensor,
    h_res: Tensor | None,
    h_out: Tensor,
    h_post: Tensor,
    *,
    bias: Tensor | None = None,
    impl: str | Impl = "auto",
) -> Tensor:
    """Differentiable MhcPost. Arguments, value and errors as in mhc_post_forward.

    Give it the x that mhc_pre handed on: the gradient of that x then enters mhc_pre's backward as
    grad_x_post and is added there. Saves its inputs for backward, by reference, and nothing else.
    Gradients that no input asks for are not computed; without h_res that of x is the incoming
    gradient itself. Second derivatives are exact, through the reference's equations.
    Forward-mode differentiation needs impl="auto" or "reference".
    """
    chosen = parse_impl("mhc_post", impl)
    inputs = (x, h_res, h_out, h_post, bias)
    plan_forward("mhc_post", inputs)
    if forward_mode_is_on() and chosen in (Impl.AUTO, Impl.REFERENCE):
        with without_autocast(x):
            return reference.forward(*inputs)
    if needs_no_dispatcher(*inputs):
        return dispatch.forward(*inputs, chosen)
    # torch.compile sees through the operator's own autograd; torch.func needs a Function.
    traced = torch.compiler.is_compiling() or torch.compiler.is_exporting()
    use_function = torch.is_grad_enabled() and not traced
    call = post_function if use_function else torch.ops.mhc.post_forward
    result: Tensor = call(*inputs, chosen.value)
    return result
