"""FSDP2 for a model with mHC: its parameters stay float32 whatever the model's policy is."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from ..errors import ArgumentError
from ..nn.parameters import Float32Module

_FLOAT32 = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
_DEFAULT = MixedPrecisionPolicy()


def shard_model(
    model: nn.Module,
    *,
    mesh: DeviceMesh,
    blocks: Iterable[nn.Module] = (),
    mp_policy: MixedPrecisionPolicy = _DEFAULT,
    **options: Any,
) -> FSDPModule:
    """Apply FSDP2's fully_shard to a model with mHC modules, in place.

    Same as::

        for module in every HyperConnection and StreamHead:
            fully_shard(module, mesh=mesh, reshard_after_forward=False,
                        mp_policy=MixedPrecisionPolicy(reduce_dtype=float32, no casts),
                        shard_placement_fn=the longest dimension that divides)
        for module in (*blocks, model):
            fully_shard(module, mesh=mesh, mp_policy=mp_policy, **options)

    and each block gathers the parameters of its mHC modules before its forward, so that `pre` and
    `post` called by hand and a HyperConnectionStack work too.

    mHC parameters are sharded, gathered and reduced as they are stored, float32, and neither they
    nor the streams are cast: the operators take no other parameters. They stay gathered from the
    forward to the end of the backward (4 F N D bytes a sublayer), which spares a second gather of
    so few bytes. All parameters are DTensors of one mesh, for one optimizer and one checkpoint.

    Args:
        model: with parallelize_module applied before, if at all.
        mesh: the data-parallel mesh, or a part of a larger one.
        blocks: modules inside `model` that are gathered and freed one after the other; a module
            before the one that holds it.
        mp_policy: of everything but mHC. options: of fully_shard, for everything but mHC.

    Returns: model, which has become an FSDPModule.
    Raises: ArgumentError (a ValueError): a block is an mHC module, or not inside the model.
    """
    units = [*blocks, model]
    inside = set(model.modules())
    for block in units:
        if isinstance(block, Float32Module):
            raise ArgumentError(
                f"shard_model: blocks must hold mHC modules, got a {type(block).__name__} itself; "
                f"leave it out, it is sharded anyway."
            )
        if block not in inside:
            raise ArgumentError(
                f"shard_model: blocks must be modules inside the model, got a "
                f"{type(block).__name__} that is not."
            )
    for unit in units:
        own: list[Any] = [m for m in unit.modules() if isinstance(m, Float32Module)]
        fresh = [m for m in own if not isinstance(m, FSDPModule) and [*m.parameters(False)]]
        for module in fresh:
            fully_shard(
                module,
                mesh=mesh,
                mp_policy=_FLOAT32,
                reshard_after_forward=False,
                shard_placement_fn=partial(_placement, mesh.size(mesh.ndim - 1)),
            )
        sharded: Any = fully_shard(unit, mesh=mesh, mp_policy=mp_policy, **options)
        if fresh:
            sharded.register_forward_pre_hook(torch._dynamo.disable(partial(_gather, fresh)))
    return sharded  # type: ignore[no-any-return]  # the model


def _placement(ranks: int, parameter: nn.Parameter) -> Shard | None:
    """Along the longest dimension that divides: phi has few rows, and rows would be padded."""
    local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    even = [dim for dim, size in enumerate(local.shape) if size % ranks == 0]
    return Shard(max(even, key=lambda dim: local.shape[dim])) if even else None


def _gather(modules: list[FSDPModule], *_: Any) -> None:
    """A forward hook: the parameters of some modules are there before any of them is called."""
    for module in modules:
        module.unshard()
