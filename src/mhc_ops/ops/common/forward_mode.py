"""Forward-mode differentiation: our kernels carry no tangents, and must not drop them silently."""

import torch
from torch.autograd import forward_ad

from ...errors import UnsupportedError


def forward_mode_is_on() -> bool:
    """Whether a dual level is open (torch.autograd.forward_ad, torch.func.jvp, jacfwd, hessian)."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def refuse_forward_mode(op: str) -> None:
    """Raise inside an open dual level, where a kernel cannot tell whether a tangent is lost."""
    if forward_mode_is_on():
        raise UnsupportedError(
            f"{op}: forward-mode differentiation needs the differentiable function with "
            f"impl='auto' or 'reference' (and precision='fp32' where it has one): plain torch."
        )
