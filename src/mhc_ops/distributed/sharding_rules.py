"""DTensor's sharding rules of torch.ops.mhc: tokens sharded, parameters replicated.

One rule serves every operator, read off its schema: an argument with a parameter's name is
replicated and its gradient is a partial sum, a scalar is replicated, everything else is sharded
along the same leading dimension or replicated as a whole. Other placements are redistributed to
the cheapest of these by DTensor itself.

Registered with torch.distributed.tensor.experimental.register_sharding, which torch 2.7 and later
have.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

from ..nn import recompute as recompute  # registers torch.ops.mhc.post_again
from ..ops.lite import api as lite
from ..ops.post import api as post
from ..ops.post_pre import api as post_pre
from ..ops.pre import api as pre
from ..ops.pre_sinkhorn import api as pre_sinkhorn
from ..ops.sinkhorn import api as sinkhorn

_REGISTERING = (lite, post, post_pre, pre, pre_sinkhorn, recompute, sinkhorn)
_ROOMS = ("pre", "pre_sinkhorn", "post", "post_pre", "sinkhorn", "permutation_mix")
OPERATORS = (*(f"{room}_{way}" for room in _ROOMS for way in ("forward", "backward")), "post_again")
_PARAMETERS = ("phi", "alpha", "bias", "gamma", "out_bias")
_NO_TOKENS = (*_PARAMETERS, "after")
_SUMS = tuple(f"grad_{name}" for name in _PARAMETERS)

Sharding = tuple[list[Placement | None], list[Placement | None]]


def register() -> None:
    """Tell DTensor how to run every operator of torch.ops.mhc."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    for name in OPERATORS:
        op = getattr(torch.ops.mhc, name).default
        register_sharding(op)(_rule(op))
        # register_sharding has DTensor's cache look at arguments from the first integer on; ours
        # give other outputs for other booleans too (`wanted`).
        propagator.op_to_schema_info[op] = RuntimeSchemaInfo(1, needs_pytree=True)


def _rule(op: Any) -> Any:
    schema = op._schema
    names = [argument.name for argument in schema.arguments]
    defaults = [a.default_value if a.has_default_value() else None for a in schema.arguments]
    outputs = [result.name for result in schema.returns]
    counted_behind = (
        1 if op.name().startswith("mhc::permutation_mix") else 2
    )  # N! or [N, D], [N, N]

    def rule(*args: Any, **options: Any) -> Sequence[Sharding]:
        named = {**dict(zip(names, args, strict=False)), **options}
        given = [(name, _is_tensor(arg)) for name, arg in named.items()]
        call = {**dict(zip(names, defaults, strict=True)), **named}
        missing = _absent(outputs, call)

        def sharding(tokens: Placement, sums: Placement) -> Sharding:
            results: list[Placement | None] = [
                Replicate() if name in missing else sums if name in _SUMS else tokens
                for name in outputs
            ]
            arguments = [
                None if not tensor else Replicate() if name in _NO_TOKENS else tokens
                for name, tensor in given
            ]
            return results, arguments

        leading = args[0].ndim - counted_behind
        return [
            sharding(Replicate(), Replicate()),
            *(sharding(Shard(dim), Partial()) for dim in range(leading)),
        ]

    return rule


def _is_tensor(arg: Any) -> bool:
    return hasattr(arg, "placements")


def _absent(outputs: Sequence[str], call: Mapping[str, Any]) -> set[str]:
    """The outputs that this call gives as empty tensors."""
    missing = set()
    if "wanted" in call:
        missing |= {n for n, want in zip(outputs, call["wanted"], strict=True) if not want}
        missing |= {
            n for n in outputs if call.get(n.removeprefix("grad_"), n) is None and n in _SUMS
        }
    elif call.get("alpha") is not None and call["alpha"].shape[0] == 2:
        missing |= {"h_res", "h_res_next"}
    if not call.get("return_defect", True):
        missing |= {"row_defect", "column_defect"}
    return missing
