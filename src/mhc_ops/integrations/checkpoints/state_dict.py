"""Converting parameters that are in memory."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...convention import Convention
from .conventions import Stored
from .layouts import Layout
from .plan import Options, make_plan


class Converted(NamedTuple):
    """tensors: under their new names. convention: to compute with them. changed: fields of the
    convention that the target cannot follow (accept_mismatch), with their old values.
    """

    tensors: dict[str, Tensor]
    convention: Convention
    changed: Mapping[str, object]


def convert_state_dict(
    tensors: Mapping[str, Tensor],
    *,
    source: str | Layout,
    target: str | Layout,
    convention: Convention | None = None,
    numbers: Mapping[str, Any] | None = None,
    gamma: str = "keep",
    rename: Sequence[tuple[str, str]] = (),
    accept_mismatch: bool = False,
    float32: bool = False,
    keep_heads: bool = False,
) -> Converted:
    """Bring the hyper-connections of a state_dict from one library's layout into another's.

    Args:
        tensors: by name; those that belong to no hyper-connection are handed on as they are.
        source, target: names in LAYOUTS. The other arguments: as in convert_checkpoint.

    Returns:
        Converted(tensors, convention, changed). Bits are kept, unless gamma is folded.

    Raises: ArgumentError (a ValueError): as convert_checkpoint.
    """
    options = Options(
        convention=convention,
        numbers=numbers or {},
        gamma=gamma,
        rename=rename,
        accept_mismatch=accept_mismatch,
        float32=float32,
        keep_heads=keep_heads,
    )
    described = {
        name: torch.empty(t.shape, dtype=t.dtype, device="meta") for name, t in tensors.items()
    }
    plan = make_plan(described, source, target, options, None)
    result = {name: tensors[name] for name in plan.passed}
    for group in plan.groups:
        given = {role: tensors[name].detach() for role, name in group.site.names.items()}
        result.update(plan.convert(group.site, given))
    stored: Stored = plan.stored
    return Converted(result, stored.convention, stored.changed)
