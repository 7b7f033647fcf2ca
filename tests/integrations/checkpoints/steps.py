"""One layer by mhc_ops' operators, and the comparison of all its gradients with a library's."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from mhc_ops import Convention, mhc_post, mhc_pre, sinkhorn
from mhc_ops.integrations.checkpoints import convert_state_dict


def our_step(
    x: Tensor,
    parameters: dict[str, Tensor],
    convention: Convention,
    sublayer: Callable[[Tensor], Tensor],
    impl: str = "auto",
) -> tuple[Tensor, Tensor]:
    """x [.., N, D] after the sublayer, and h_in, from parameters named phi, alpha, bias, gamma."""
    phi, alpha, bias = (parameters[name] for name in ("phi", "alpha", "bias"))
    h_in, h_post, logits, x = mhc_pre(
        x, phi, alpha, bias, parameters.get("gamma"), convention=convention, impl=impl
    )
    h_res = None
    if logits is not None:
        oriented = replace(convention, res_rows="from_to")
        h_res = sinkhorn(logits, convention=oriented, impl=impl)
    return mhc_post(x, h_res, sublayer(h_in), h_post, impl=impl), h_in


def normal(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal values, equal in every run and, up to rounding, in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def leaves(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.clone().requires_grad_() for name, t in tensors.items()}


def our_gradients(x, tensors, source, sublayer, upstream, impl="auto", numbers=None):
    """Output, h_in, gradient of x, and gradients of the library's tensors under their own names.

    The library's tensors are converted, the layer runs on ours, and the gradients of ours go back
    the way the parameters came, since conversions only move numbers.
    """
    ours = convert_state_dict(tensors, source=source, target="ours", numbers=numbers)
    parameters = leaves({k.rpartition(".")[2]: t for k, t in ours.tensors.items()})
    x = x.clone().requires_grad_()
    out, h_in = our_step(x, parameters, ours.convention, sublayer, impl)
    grads = torch.autograd.grad((out, h_in), (x, *parameters.values()), upstream)
    named = {k: g for k, g in zip(ours.tensors, grads[1:], strict=True)}
    back = convert_state_dict(named, source="ours", target=source, convention=ours.convention)
    return {"out": out.detach(), "h_in": h_in.detach(), "x": grads[0], **back.tensors}


def their_gradients(step, x, tensors, sublayer, upstream):
    """The same of a library: `step` maps x, its tensors and the sublayer to output and h_in."""
    theirs, x = leaves(tensors), x.clone().requires_grad_()
    out, h_in = step(x, theirs, sublayer)
    grads = torch.autograd.grad((out, h_in), (x, *theirs.values()), upstream)
    return {
        "out": out.detach(),
        "h_in": h_in.detach(),
        **dict(zip(("x", *theirs), grads, strict=True)),
    }


def relative(got: Tensor, want: Tensor) -> float:
    """|got - want| over |want|, in the 2-norm."""
    want = want.detach().double()
    difference = torch.linalg.vector_norm(got.detach().double() - want)
    return float(difference / torch.linalg.vector_norm(want).clamp(min=1e-30))
