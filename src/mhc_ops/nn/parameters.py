"""Parameters that stay in float32 when the model around them is cast."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import DtypeError
from ..ops.common.checking import parameter_dtype


class Float32Module(nn.Module):
    """A module whose own parameters are float32 whatever the model is cast to.

    `.bfloat16()`, `.half()` and `.to(dtype)` move them to another device where asked, and leave
    them float32, values untouched; `.double()` makes them float64 and `.float()` undoes it, since
    the operators want float64 parameters beside float64 x. `cast_parameters` asks for 16 bits.
    """

    _stored: torch.dtype | None = None

    def cast_parameters(self, dtype: torch.dtype) -> "Float32Module":
        """Store this module's own parameters in `dtype` after all; each use widens them to float32.

        Args:    dtype: bfloat16 or float16, kept through later casts; float32 takes it back.
        Returns: self. Gradients have the dtype of the parameters. Not part of the state_dict.
        Raises:  DtypeError for any other dtype.
        """
        if dtype not in (torch.bfloat16, torch.float16, torch.float32):
            raise DtypeError(
                f"{type(self).__name__}.cast_parameters: dtype must be bfloat16, float16 or "
                f"float32, got {dtype}; float64 is .double()."
            )
        self._stored = None if dtype == torch.float32 else dtype
        self._apply_own(lambda t: t)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        if recurse:
            for name, child in self.named_children():
                if name != "parametrizations":
                    child._apply(fn)
        return self._apply_own(fn)

    def _apply_own(self, fn: Callable[[Tensor], Tensor]) -> Any:
        def cast(t: Tensor) -> Tensor:
            moved = fn(t)
            if not t.is_floating_point():
                return moved
            wide = parameter_dtype(moved)
            dtype = wide if self._stored is None or wide == torch.float64 else self._stored
            return moved if moved.dtype == dtype else t.to(device=moved.device, dtype=dtype)

        if "parametrizations" in self._modules:  # where torch keeps parametrized parameters
            self.get_submodule("parametrizations")._apply(cast)
        return super()._apply(cast, recurse=False)  # type: ignore[no-untyped-call]  # torch's

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("assign_to_params_buffers", False):
            for name in self._parameters:
                given = state_dict.get(prefix + name)
                if isinstance(given, Tensor) and given.is_floating_point():
                    dtype = self._stored or parameter_dtype(given)
                    state_dict[prefix + name] = given.to(dtype)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _at_use(self, parameter: Tensor, x: Tensor) -> Tensor:
        """The parameter as the operators take it; what a foreign policy cast is left to them."""
        return parameter if self._stored is None else parameter.to(parameter_dtype(x))
