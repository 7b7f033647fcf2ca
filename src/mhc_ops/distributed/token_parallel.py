"""TokenParallel: a plan for parallelize_module that runs mHC modules on sequences sharded."""

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
from torch.distributed.tensor.parallel import ParallelStyle

from ..errors import ArgumentError
from ..nn.parameters import Float32Module


class TokenParallel(ParallelStyle):
    """Run a HyperConnection or a StreamHead on tokens that are sharded over a mesh dimension.

    Same as::

        parallelize_module(model, mesh["tp"], {"block.hc": TokenParallel(dim=1)})

    Parameters become replicated DTensors, whose gradients are partial sums. x is taken as a DTensor
    [.., N, D], redistributed to Shard(dim) where it has another placement, or as this rank's plain
    tokens; what the module hands its sublayer and what it returns are DTensors. No communication:
    mHC never looks across tokens.

    Args:   dim: the dimension of x that is sharded, 0 of [T, N, D], or 0 or 1 of [B, S, N, D].
    Raises: ArgumentError (a ValueError): another module; in the forward, a dim without tokens.
    """

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, Float32Module):
            raise ArgumentError(
                f"TokenParallel: takes a HyperConnection or a StreamHead, got "
                f"{type(module).__name__}; SequenceParallel and others are for the rest."
            )
        distribute_module(module, device_mesh)
        module.register_forward_pre_hook(partial(_shard_tokens, self.dim, device_mesh))
        return module


def _shard_tokens(dim: int, mesh: DeviceMesh, _: nn.Module, args: tuple[Any, ...]) -> Any:
    x: Tensor = args[0]
    if isinstance(x, DTensor) and (
        x.device_mesh != mesh or list(x.placements) in ([Shard(dim)], [Replicate()])
    ):
        return None
    if not 0 <= dim < x.dim() - 2:
        raise ArgumentError(
            f"TokenParallel: dim must be a dimension of tokens, 0 of [T, N, D], or 0 or 1 of "
            f"[B, S, N, D]; got dim={dim} and x {list(x.shape)}."
        )
    if isinstance(x, DTensor):
        return (x.redistribute(mesh, [Shard(dim)]), *args[1:])
    return (DTensor.from_local(x, mesh, [Shard(dim)], run_check=False), *args[1:])
