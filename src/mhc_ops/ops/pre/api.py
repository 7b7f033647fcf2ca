"""The public doors of MhcPre: the differentiable mhc_pre and the two bare operators."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...convention import Convention
from ...types import Impl, MhcPre, MhcPreBackward, MhcPreForward
from ..common.checking import check_are_tensors, parse_impl
from ..common.forward_mode import forward_mode_is_on
from ..common.outputs import refuse_out
from ..common.registration import needs_no_dispatcher
from . import dispatch, reference, torch_op  # noqa: F401  # torch_op registers torch.ops.mhc
from .autograd import pre_function
from .calls import PreBackwardCall
from .checks import (
    HC_EPS,
    NORM_EPS,
    POST_EPS,
    check_backward,
    check_wanted,
    plan_forward,
    pre_numbers,
)


def mhc_pre_forward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreForward:
    """MhcPre: mix N streams into one layer input and compute the gates.

    Same as::

        inv_rms = (x.square().mean((-2, -1)) + norm_eps).rsqrt()
        h_mix = (x * gamma).flatten(-2) @ phi.T
        pre, post, res = (h_mix * inv_rms[..., None]).split([N, N, R], -1)
        h_pre = sigmoid(alpha[0] * pre + bias[:N]) + hc_eps
        h_post = 2 * sigmoid(alpha[1] * post + bias[N:2*N]) + post_eps
        h_res = alpha[2] * res + bias[2*N:]
        h_in = (h_pre[..., None] * x).sum(-2)

    Args:
        x: [B, S, N, D] or [T, N, D]; bfloat16, float16, float32 or float64, any strides. With
            float64 x every other tensor is float64 too; otherwise they are float32.
        phi: [F, N*D] with F = 2N + R; R is N*N, N! (permutation form) or 0 (alpha of two entries).
        alpha: [3] (pre, post, res) or [2]. bias: [F]. gamma: [N, D] or None for ones.
        norm_eps, hc_eps, post_eps: see above. convention: another library's numbers instead of
            these.
        precision: "fp32", or "hf32" to round the matmul's operands gamma*x and phi to 10 fraction
            bits.
        impl: "auto", "reference", "torch", "cpu", "triton" or "npu"; a named one never falls back.
        out: tuple of six tensors to write into, in output order; None entries are allocated.

    Returns:
        MhcPreForward(h_in, h_post, h_res, inv_rms, h_mix, h_pre); h_res holds logits, [.., N, N] as
        [from, to] or [.., N!], and is None for alpha of two entries. Sums in float32, rounds h_in
        once.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcPre; the mHC paper's equations for the three gates.
    """
    numbers = pre_numbers("mhc_pre_forward", norm_eps, hc_eps, post_eps, precision, convention)
    chosen = parse_impl("mhc_pre_forward", impl)
    inputs = (x, phi, alpha, bias, gamma)
    result: Sequence[Any]
    if out is not None:
        refuse_out("mhc_pre_forward", *inputs)
        targets = list(out)
        if len(targets) == len(MhcPreForward._fields):
            targets[2] = reoriented(targets[2], x, convention)
        result = dispatch.forward(*inputs, numbers, chosen, targets)
    elif needs_no_dispatcher(*inputs):
        result = dispatch.forward(*inputs, numbers, chosen)
    else:
        check_are_tensors(
            "mhc_pre_forward", ("gamma",), x=x, phi=phi, alpha=alpha, bias=bias, gamma=gamma
        )
        result = torch.ops.mhc.pre_forward(*inputs, *numbers, chosen.value)
    if convention is None and isinstance(result, MhcPreForward):
        return result
    h_res = reoriented(result[2], x, convention) if len(alpha) == 3 else None
    h_in, h_post, _, inv_rms, h_mix, h_pre = result
    return MhcPreForward(h_in, h_post, h_res, inv_rms, h_mix, h_pre)


def mhc_pre_backward(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None = None,
    grad_x_post: Tensor | None = None,
    *,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
    wanted: Iterable[str] | None = None,
    out: Sequence[Tensor | None] | None = None,
) -> MhcPreBackward:
    """MhcPreBackward: gradients of MhcPre from those of h_in, h_post and h_res.

    Same as autograd of the program in mhc_pre_forward's page; inv_rms, h_mix, h_pre and h_post are
    used as given, not recomputed. The equations stand in this room's README.md and, in order, in
    reference.py.

    Args:
        x, phi, alpha, gamma: as in mhc_pre_forward. grad_h_in: [.., D], dtype of x.
        grad_h_post: [.., N]. grad_h_res: [.., N, N] as [from, to] or [.., N!]; None for alpha of
        two entries. inv_rms [..], h_mix [.., F], h_pre [.., N], h_post [.., N]: saved by
        mhc_pre_forward.
        grad_x_post: [.., N, D], dtype of x, added to grad_x before its one rounding; None for
            zeros.
        hc_eps, post_eps, convention: those of the forward call.
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

    Source: aclnnMhcPreBackward. Differs from its page where finite differences do: README.md.
    """
    numbers = pre_numbers("mhc_pre_backward", NORM_EPS, hc_eps, post_eps, precision, convention)
    chosen = parse_impl("mhc_pre_backward", impl)
    computed = check_wanted(wanted, gamma)
    grad_h_res = reoriented(grad_h_res, x, convention)
    saved = (inv_rms, h_mix, h_pre, h_post)
    tensors = (x, phi, alpha, grad_h_in, grad_h_post, grad_h_res, *saved, gamma, grad_x_post)
    if out is not None:
        refuse_out("mhc_pre_backward", *tensors)
        return dispatch.backward(*tensors, numbers, chosen, computed, out)
    if needs_no_dispatcher(*tensors):
        return dispatch.backward(*tensors, numbers, chosen, computed)
    if not all(isinstance(t, Tensor) for t in saved):
        check_backward(*tensors)  # names the missing tensor; the registered operator could not
    check_are_tensors(
        "mhc_pre_backward",
        ("grad_h_res", "gamma", "grad_x_post"),
        **dict(zip(PreBackwardCall._fields, tensors, strict=False)),
    )
    grads = torch.ops.mhc.pre_backward(*tensors, *numbers, chosen.value, list(computed))
    return MhcPreBackward(*(g if c else None for g, c in zip(grads, computed, strict=True)))


def mhc_pre(
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None = None,
    *,
    norm_eps: float = NORM_EPS,
    hc_eps: float = HC_EPS,
    post_eps: float = POST_EPS,
    convention: Convention | None = None,
    precision: str = "fp32",
    impl: str | Impl = "auto",
) -> MhcPre:
    """Differentiable MhcPre. Arguments, values and errors as in mhc_pre_forward.

    Returns:
        MhcPre(h_in, h_post, h_res_logits, x). The last is the input handed on: give it to mhc_post
        (or to anything else), and its gradient is added to grad_x inside the one backward call.
        Left unused it costs nothing.

    Saves for backward: x and the parameters by reference, and F + 2N + 1 numbers a token. Gradients
    that no input asks for are not computed. Second derivatives are exact, through the reference's
    equations. Forward-mode differentiation needs impl="auto" or "reference" and precision="fp32".
    """
    numbers = pre_numbers("mhc_pre", norm_eps, hc_eps, post_eps, precision, convention)
    chosen = parse_impl("mhc_pre", impl)
    inputs = (x, phi, alpha, bias, gamma)
    plan_forward("mhc_pre", inputs)
    if forward_mode_is_on() and chosen in (Impl.AUTO, Impl.REFERENCE) and not numbers.hf32:
        with torch.autocast(x.device.type, enabled=False):
            h_in, h_post, h_res, *_ = reference.forward(*inputs, numbers)
        return MhcPre(h_in, h_post, reoriented(h_res, x, convention), x)
    outputs: Any
    plain = needs_no_dispatcher(*inputs)
    if not plain and records_gradients(*inputs):
        outputs = pre_function(*inputs, *numbers, chosen.value)
        h_in, h_post, h_res, handed_on, *_ = outputs
    else:
        outputs = (
            dispatch.forward(*inputs, numbers, chosen)
            if plain
            else torch.ops.mhc.pre_forward(*inputs, *numbers, chosen.value)
        )
        h_in, h_post, h_res, *_ = outputs
        handed_on = x.view_as(x) if torch.is_grad_enabled() else x.detach()
    h_res = reoriented(h_res, x, convention) if len(alpha) == 3 else None
    return MhcPre(h_in, h_post, h_res, handed_on)


def records_gradients(*inputs: Tensor | None) -> bool:
    """Whether to go through our Function, which fuses the handed-on gradient."""
    if not torch.is_grad_enabled() or torch.compiler.is_exporting():
        return False
    # Under torch.func requires_grad tells nothing; Dynamo traces a Function only with gradients.
    compiling = torch.compiler.is_compiling()
    return not compiling or any(t is not None and t.requires_grad for t in inputs)


def reoriented(h_res: Tensor | None, x: Tensor, convention: Convention | None) -> Tensor | None:
    """Swap [to, from] and [from, to] where the convention's residual rows ask for it."""
    if h_res is None or convention is None or convention.res_rows == "from_to":
        return h_res
    return h_res.transpose(-1, -2) if h_res.dim() == x.dim() else h_res
