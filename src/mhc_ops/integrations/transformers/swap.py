"""Give a model's own modules the accelerated classes, and take them away again.

A module keeps everything it holds; only its class changes, to a subclass of the one it had. So
isinstance checks, checkpointing, hooks, state_dict and torch.compile's guards all go on working.
"""

from importlib import import_module
from typing import TypeVar

from torch import nn

from ...domains import MOST_ITERS
from ...errors import ArgumentError, UnsupportedError
from .agreement import check_agreement
from .family import Family

Model = TypeVar("Model", bound=nn.Module)

_FAMILIES = {
    f"transformers.models.{name}.modeling_{name}": name
    for name in ("deepseek_v4", "glm5_next", "hy_v4", "hy_v4_vl")
}


def accelerate(model: Model) -> Model:
    """Run the hyper-connections of a `transformers` model by the operators of this package.

    In place: decoder layers, their hyper-connections and the final head of this one model compute
    the same values from the same parameters, in training and inference, eager and under
    torch.compile, with gradient checkpointing and caches. Nothing else changes, no class of
    transformers either. What is accelerated already stays so. A patched hyper-connection returns
    one more value, last: the streams to mix into.

    Call it before what wraps or replaces the model's layers (FSDP, device maps, parametrizations).

    Args:    model: DeepSeek-V4, GLM-5.3 or HY-V4, whole or in part, of transformers >= 5.24.
    Returns: the same model.
    Raises:  ArgumentError: not a module. UnsupportedError: no model of these, a setting or a module
             that is not known here, or a version of transformers that computes something else; the
             model is then unchanged.
    """
    found = _families("accelerate", model)
    if not found:
        names = ", ".join(_FAMILIES.values())
        raise UnsupportedError(
            f"accelerate: {type(model).__name__} holds no hyper-connections that are known here; "
            f"expected a transformers model of {names}."
        )
    for family in found:
        check_agreement(family)
        _check_configs(family, model)
        _check_owners(family, model)
        for name, module in _parts("accelerate", family, model):
            _check_part(family, name, module)
    for family in found:
        family.swap(model)
    return model


def restore(model: Model) -> Model:
    """Undo `accelerate`: every module has the class it had before, and nothing is left behind.

    Args:    model: a model, or a part or copy of one; what is not accelerated stays as it is.
    Returns: the same model.
    Raises:  ArgumentError: not a module. UnsupportedError: something has wrapped an accelerated
             module's class since; the model is then unchanged.
    """
    found = _families("restore", model)
    for family in found:
        _parts("restore", family, model)
    for family in found:
        family.swap(model, back=True)
    return model


def _families(op: str, model: nn.Module) -> list[Family]:
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"{op}: model must be a torch module, got {type(model).__name__}.")
    files = {base.__module__ for module in model.modules() for base in type(module).__mro__}
    return [
        import_module(f".{name}", __package__).FAMILY
        for file, name in _FAMILIES.items()
        if file in files
    ]


def _parts(op: str, family: Family, model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every module of a class that has two forms, by its name in messages."""
    found = []
    for name, module in model.named_modules():
        for pair in family.pairs:
            if not isinstance(module, pair[0]):
                continue
            if type(module) not in pair:
                raise UnsupportedError(
                    f"{op}: {_called(name)} is a {type(module).__qualname__}, which something else "
                    f"made from {pair[0].__qualname__}; call {op} before that, or undo it."
                )
            found.append((_called(name), module))
    return found


def _check_part(family: Family, called: str, module: nn.Module) -> None:
    if "forward" in vars(module):
        raise UnsupportedError(
            f"accelerate: the forward of {called} has been replaced on the instance, as the hooks "
            f"of a device map do; call accelerate before that."
        )
    norm = getattr(module, "input_norm", None)
    if norm is not None and type(norm) is not family.norm:
        raise UnsupportedError(
            f"accelerate: input_norm of {called} must be a {family.norm.__name__}, got "
            f"{type(norm).__name__}; the operators know that norm alone."
        )
    eps = getattr(module, "hc_eps", 0.0)
    if not 0 <= eps < 1:
        raise UnsupportedError(f"accelerate: hc_eps of {called} must be in [0, 1), got {eps}.")
    iters = getattr(module, "hc_sinkhorn_iters", 0)
    if iters > MOST_ITERS:
        raise UnsupportedError(
            f"accelerate: hc_sinkhorn_iters of {called} must be at most {MOST_ITERS}, got {iters}."
        )
    if getattr(module, "hc_post_magnitude", 1.0) == 0:
        raise UnsupportedError(f"accelerate: hc_magnitude of {called} must not be 0, got 0.")


def _check_configs(family: Family, model: nn.Module) -> None:
    for module in model.modules():
        config = getattr(module, "config", None)
        settings = vars(config) if hasattr(config, "__dict__") else {}
        unknown = [k for k in settings if k.startswith("hc_") and k not in family.options]
        if unknown and type(module).__module__ == family.connection[0].__module__:
            raise UnsupportedError(
                f"accelerate: the config of this {family.name} has {', '.join(unknown)}, which is "
                f"not known here; known are {', '.join(family.options)}."
            )


def _check_owners(family: Family, model: nn.Module) -> None:
    """A connection returns one more value now, so only a layer of ours may call it."""
    owned = {
        id(connection)
        for module in model.modules()
        if isinstance(module, family.layer[0])
        for connection in (module.attn_hc, module.ffn_hc)
    }
    for name, module in model.named_modules():
        if isinstance(module, family.connection[0]) and id(module) not in owned:
            raise UnsupportedError(
                f"accelerate: {_called(name)} is not the attn_hc or ffn_hc of a "
                f"{family.layer[0].__name__}; accelerate whole layers."
            )


def _called(name: str) -> str:
    return name or "the model itself"
