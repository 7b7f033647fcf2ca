"""Does the installed transformers compute what the accelerated classes compute? Tried, not assumed.

Both classes run on small numbers: the connection, the head, and the layer around sublayers that
only record how they are called. The epsilons are large here, so that a moved one shows.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UnsupportedError
from .family import Family, Pair

_CONFIG = SimpleNamespace(
    hidden_size=8, hc_mult=3, hc_sinkhorn_iters=3, hc_eps=0.02, hc_magnitude=1.5, rms_norm_eps=0.1
)
_TOLERANCE = 2e-5  # float32 rounding of logits near 3 moves the gates by less


@cache
def check_agreement(family: Family) -> None:
    """Raise UnsupportedError unless their classes and ours agree."""
    for pair in family.pairs:
        if _parameters(pair[0]) != _parameters(pair[1]):
            raise _refusal(family, pair, "its arguments are not the ones known here")
    with torch.device("cpu"), torch.autocast("cpu", enabled=False), torch.no_grad():
        generator = torch.Generator("cpu").manual_seed(0)
        shape = (2, 3, _CONFIG.hc_mult, _CONFIG.hidden_size)
        x = 2 * torch.randn(shape, generator=generator, dtype=torch.float32)
        for pair, build in _trials(family, generator):
            try:
                module = build()
                theirs = _run(module, x)
                family.swap(module)
                ours = _run(module, x)
            except Exception as error:
                raise _refusal(family, pair, f"a trial run failed: {error!r}") from error
            if pair is family.connection:
                theirs[0] = (*theirs[0], x)
            if not _same(theirs, ours):
                raise _refusal(family, pair, "a trial run gave other values")


def _trials(
    family: Family, generator: torch.Generator
) -> Iterator[tuple[Pair, Callable[[], nn.Module]]]:
    def filled(cls: type[nn.Module]) -> nn.Module:
        module = cls(_CONFIG).float()
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        return module

    def layer(attributes: dict[str, Any], attention: Callable[[Tensor], Any]) -> nn.Module:
        stand_in: Any = family.layer[0].__new__(family.layer[0])
        nn.Module.__init__(stand_in)
        stand_in.attn_hc, stand_in.ffn_hc = (filled(family.connection[0]) for _ in range(2))
        stand_in.input_layernorm = _Recorder(1.5, lambda h: h)
        stand_in.self_attn = _Recorder(-0.7, attention)
        stand_in.post_attention_layernorm = _Recorder(0.4, lambda h: h)
        stand_in.mlp = _Recorder(1.1, lambda h: h)
        for name, value in attributes.items():
            setattr(stand_in, name, value)
        made: nn.Module = stand_in
        return made

    yield family.connection, partial(filled, family.connection[0])
    if family.head is not None:
        yield family.head, partial(filled, family.head[0])
    for attributes, attention in family.layer_kinds:
        yield family.layer, partial(layer, attributes, attention)


def _run(module: nn.Module, x: Tensor) -> list[Any]:
    """What a call returns, and how the sublayers were called; every option is a word of its own."""
    options = {
        "further" if kind is Parameter.VAR_KEYWORD else name: f"the given {name}"
        for name, kind, _ in _parameters(type(module))[2:]
    }
    out = module.forward(x, **options)
    recorders = [part for part in module.children() if isinstance(part, _Recorder)]
    calls = [recorder.calls for recorder in recorders]
    for recorder in recorders:
        recorder.calls = []
    return [out, calls]


class _Recorder(nn.Module):
    """Stands for a sublayer: scales its input, and keeps what it was called with."""

    def __init__(self, factor: float, result: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.factor, self.result = factor, result
        self.calls: list[Any] = []

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return self.result(self.factor * (args[0] if args else kwargs["hidden_states"]))


def _same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, Tensor) and isinstance(ours, Tensor):
        return theirs.shape == ours.shape and torch.allclose(theirs, ours, 0, _TOLERANCE)
    if type(theirs) is not type(ours):
        return False
    if isinstance(theirs, list | tuple):
        return len(theirs) == len(ours) and all(map(_same, theirs, ours))
    if isinstance(theirs, dict):
        return theirs.keys() == ours.keys() and all(_same(theirs[k], ours[k]) for k in theirs)
    return bool(theirs == ours)


def _parameters(cls: type[nn.Module]) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in signature(cls.forward).parameters.values()]


def _refusal(family: Family, pair: Pair, why: str) -> UnsupportedError:
    import transformers

    return UnsupportedError(
        f"accelerate: {pair[0].__name__} of transformers {transformers.__version__} is not the "
        f"{family.name} known here ({why}); use a version of mhc-ops that knows it."
    )
