"""The public doors of mHC-lite: the differentiable function and the two bare operators."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...types import Impl
from ..common.checking import parse_impl
from ..common.forward_mode import forward_mode_is_on
from ..common.outputs import refuse_out
from ..common.registration import needs_no_dispatcher
from . import dispatch, reference, torch_op  # noqa: F401  # torch_op registers torch.ops.mhc
from .autograd import permutation_mix_function
from .checks import check_backward, check_forward, plan_forward


def permutation_mix(logits: Tensor, *, impl: str | Impl = "auto") -> Tensor:
    """Differentiable mHC-lite: h_res as a convex mix of the N! permutation matrices.

    Same as::

        weights = softmax(logits, -1)
        h_res = sum(
            weights[..., k, None, None] * torch.eye(N)[list(s)]
            for k, s in enumerate(itertools.permutations(range(N)))
        )

    so stream i goes to s(i) in the k-th permutation s, and permutations stand in lexicographic
    order, the identity first. Rows and columns of h_res sum to 1 whatever the logits are.

    Args:
        logits: [.., N!], N in 1..6, float32 (or float64), any strides; h_res_logits of mhc_pre with
            phi rows 2N + N!. -inf is a weight of 0; +inf, NaN and nothing but -inf give NaN, in
            their token.
        impl: "auto", "reference", "torch", "cpu" or "triton"; a named one never falls back.

    Returns:
        h_res [.., N, N] as [from, to], as logits.

    Raises:
        ShapeError, DtypeError, ArgumentError (all ValueError): the arguments do not fit.
        UnsupportedError: `impl` cannot run here.

    Saves for backward: the logits, by reference. Second derivatives go through the reference's
    equations; forward-mode differentiation needs impl="reference".

    Source: the mHC-lite paper; aclnnMhcPre's form with N! residual rows.
    """
    chosen = parse_impl("permutation_mix", impl)
    sizes, _ = plan_forward("permutation_mix", (logits,))
    result: Tensor
    if forward_mode_is_on() and chosen in (Impl.AUTO, Impl.REFERENCE):
        with torch.autocast(logits.device.type, enabled=False):
            return reference.forward(logits, sizes.N)
    if needs_no_dispatcher(logits):
        return dispatch.forward(logits, chosen)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        result = permutation_mix_function(logits, chosen.value)
    else:
        result = torch.ops.mhc.permutation_mix_forward(logits, chosen.value)
    return result


def permutation_mix_forward(
    logits: Tensor,
    *,
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """The bare operator. Arguments, value and errors as in permutation_mix.

    out: tuple of one tensor to write into; UnsupportedError where it meets autograd or
    torch.compile.
    """
    chosen = parse_impl("permutation_mix_forward", impl)
    if out is not None:
        refuse_out("permutation_mix_forward", logits)
        return dispatch.forward(logits, chosen, out)
    if needs_no_dispatcher(logits):
        return dispatch.forward(logits, chosen)
    check_forward(logits)
    h_res: Tensor = torch.ops.mhc.permutation_mix_forward(logits, chosen.value)
    return h_res


def permutation_mix_backward(
    logits: Tensor,
    grad_h_res: Tensor,
    *,
    impl: str | Impl = "auto",
    out: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """Gradient of the logits from that of h_res, with the weights recomputed from the logits.

    Args:
        logits: as in permutation_mix. grad_h_res: [.., N, N], dtype of logits.
        out: tuple of one tensor to write into.

    Returns:
        grad_logits [.., N!], as logits.

    Raises:
        ShapeError, DtypeError, DeviceError, ArgumentError (all ValueError): the arguments do not
        fit. UnsupportedError: `impl` cannot run here, or `out` meets autograd or torch.compile.
    """
    chosen = parse_impl("permutation_mix_backward", impl)
    if out is not None:
        refuse_out("permutation_mix_backward", logits, grad_h_res)
        return dispatch.backward(logits, grad_h_res, chosen, out)
    if needs_no_dispatcher(logits, grad_h_res):
        return dispatch.backward(logits, grad_h_res, chosen)
    check_backward(logits, grad_h_res)
    grad: Tensor = torch.ops.mhc.permutation_mix_backward(logits, grad_h_res, chosen.value)
    return grad
