"""The public doors of sinkhorn: the differentiable function and the two bare operators."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor

from ...convention import Convention
from ...types import Impl, Sinkhorn
from ..common.checking import parse_impl
from ..common.forward_mode import forward_mode_is_on
from ..common.outputs import refuse_out
from ..common.registration import needs_no_dispatcher
from . import dispatch, reference, torch_op  # noqa: F401  # torch_op registers torch.ops.mhc
from .autograd import sinkhorn_function
from .checks import (
    EPS,
    EPS_MODE,
    NUM_ITERS,
    ORDER,
    TEMPERATURE,
    check_backward,
    check_forward,
    plan_forward,
    sinkhorn_numbers,
)


@overload
def sinkhorn(
    logits: Tensor,
    *,
    num_iters: int = ...,
    eps: float = ...,
    eps_mode: str = ...,
    order: str = ...,
    temperature: float = ...,
    convention: Convention | None = ...,
    return_defect: Literal[False] = ...,
    impl: str | Impl = ...,
) -> Tensor: ...


@overload
def sinkhorn(
    logits: Tensor,
    *,
    num_iters: int = ...,
    eps: float = ...,
    eps_mode: str = ...,
    order: str = ...,
    temperature: float = ...,
    convention: Convention | None = ...,
    return_defect: bool,
    impl: str | Impl = ...,
) -> Tensor | Sinkhorn: ...


def sinkhorn(
    logits: Tensor,
    *,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    return_defect: bool = False,
    impl: str | Impl = "auto",
) -> Tensor | Sinkhorn:
    """Differentiable Sinkhorn: residual logits to h_res, whose rows and columns sum to about 1.

    Same as, for eps_mode "add" and order "columns_last", the form of CANN and DeepSeek-V4::

        h = softmax(logits / temperature, -1) + eps
        h = h / (h.sum(-2, keepdim=True) + eps)
        for _ in range(num_iters - 1):
            h = h / (h.sum(-1, keepdim=True) + eps)
            h = h / (h.sum(-2, keepdim=True) + eps)

    Args:
        logits: [.., N, N] as [from, to], float32 (float64 with impl "reference" or "torch"), any
            strides. -inf is a weight of 0; +inf, NaN and a row of -inf give NaN, in their token.
        num_iters: 0..1000 normalisations of columns; 0 is the softmax, plus eps if "add".
        eps: in [0, 1). eps_mode: "add" adds it to the softmax and to each sum; "clamp" divides by
            max(sum, eps); "none" leaves it out, and a row or column without weight gives NaN.
        order: "columns_last", as above; "rows_last" is the same with rows and columns exchanged,
            the softmax included: columns_last of the transposed logits, transposed.
        temperature: positive.
        convention: another library's num_iters, eps, eps_mode, order and temperature instead of
            these; logits and h_res stay [from, to], as mhc_pre gives them.
        return_defect: also give the largest row and column error of each token.
        impl: "auto", "reference", "torch", "cpu" or "triton"; a named one never falls back.

    Returns:
        h_res [.., N, N] as [from, to], as logits; or, with return_defect, Sinkhorn(h_res,
        row_defect, column_defect), the defects [..] without gradient.

    Raises:
        ShapeError, DtypeError, ArgumentError (all ValueError): the arguments do not fit.
        UnsupportedError: `impl` cannot run here.

    Saves for backward: the logits, by reference. The gradient is exact for the num_iters asked for;
    the iterates are recomputed. Second derivatives go through the reference's equations, and
    forward-mode differentiation needs impl="reference".

    Source: aclnnMhcSinkhorn; the mHC paper's projection of H_res.
    """
    numbers = sinkhorn_numbers("sinkhorn", num_iters, eps, eps_mode, order, temperature, convention)
    chosen = parse_impl("sinkhorn", impl)
    plan_forward("sinkhorn", (logits,), return_defect)
    result: Any
    if forward_mode_is_on() and chosen in (Impl.AUTO, Impl.REFERENCE):
        with torch.autocast(logits.device.type, enabled=False):
            result = reference.forward(logits, numbers, return_defect)
    elif needs_no_dispatcher(logits):
        result = dispatch.forward(logits, numbers, return_defect, chosen)
    elif torch.is_grad_enabled() and not torch.compiler.is_compiling():
        result = sinkhorn_function(logits, *numbers, return_defect, chosen.value)
    else:
        result = torch.ops.mhc.sinkhorn_forward(logits, *numbers, return_defect, chosen.value)
    h_res, row_defect, column_defect = result
    return Sinkhorn(h_res, row_defect, column_defect) if return_defect else h_res


def sinkhorn_forward(
    logits: Tensor,
    *,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    return_defect: bool = False,
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> Sinkhorn:
    """The bare operator. Arguments, values and errors as in sinkhorn.

    Args:
        out: tuple of three tensors to write into, in output order; None entries are allocated, and
            the defects' entries are None unless return_defect.

    Returns:
        Sinkhorn(h_res, row_defect, column_defect); the defects are None unless return_defect.

    Raises:
        As sinkhorn; UnsupportedError also where `out` meets autograd or torch.compile.
    """
    numbers = sinkhorn_numbers(
        "sinkhorn_forward", num_iters, eps, eps_mode, order, temperature, convention
    )
    chosen = parse_impl("sinkhorn_forward", impl)
    if out is not None:
        refuse_out("sinkhorn_forward", logits)
        return dispatch.forward(logits, numbers, return_defect, chosen, out)
    if needs_no_dispatcher(logits):
        return dispatch.forward(logits, numbers, return_defect, chosen)
    check_forward(logits)
    h_res, row_defect, column_defect = torch.ops.mhc.sinkhorn_forward(
        logits, *numbers, return_defect, chosen.value
    )
    if not return_defect:
        return Sinkhorn(h_res, None, None)
    return Sinkhorn(h_res, row_defect, column_defect)


def sinkhorn_backward(
    logits: Tensor,
    grad_h_res: Tensor,
    *,
    num_iters: int = NUM_ITERS,
    eps: float = EPS,
    eps_mode: str = EPS_MODE,
    order: str = ORDER,
    temperature: float = TEMPERATURE,
    convention: Convention | None = None,
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """Gradient of the logits from that of h_res: exact, from iterates recomputed from the logits.

    Same as autograd of the program in sinkhorn's page. The equations stand in this room's
    README.md and, in order, in reference.py.

    Args:
        logits and the options: as in sinkhorn. grad_h_res: [.., N, N], dtype of logits.
        out: tuple of one tensor to write into.

    Returns:
        grad_logits [.., N, N], as logits.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.

    Source: aclnnMhcSinkhornBackward, which is given the iterates instead.
    """
    numbers = sinkhorn_numbers(
        "sinkhorn_backward", num_iters, eps, eps_mode, order, temperature, convention
    )
    chosen = parse_impl("sinkhorn_backward", impl)
    if out is not None:
        refuse_out("sinkhorn_backward", logits, grad_h_res)
        return dispatch.backward(logits, grad_h_res, numbers, chosen, out)
    if needs_no_dispatcher(logits, grad_h_res):
        return dispatch.backward(logits, grad_h_res, numbers, chosen)
    check_backward(logits, grad_h_res)
    grad: Tensor = torch.ops.mhc.sinkhorn_backward(logits, grad_h_res, *numbers, chosen.value)
    return grad
