"""Monitor: watches the hyper-connections of a model and writes what they do to a file."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..nn import HyperConnection, HyperConnectionContext
from ..version import __version__
from .gains import gains_of
from .journal import FORMAT, Journal, journal_file
from .statistics import LayerStatistics, gradient_norms
from .tensorboard import write_scalars, writer_class


class Monitor:
    """Records gains, Sinkhorn defects, gates and gradient norms of a model's hyper-connections.

    Same as, around a training step::

        with Monitor(model, "runs/first", every=10) as monitor:
            for batch in batches:
                loss = model(batch)
                loss.backward()
                monitor.step(loss=loss)  # after backward, while the gradients are there
                optimizer.step()
                optimizer.zero_grad()

    Args:
        model: any module with HyperConnection inside, in a HyperConnectionStack or not.
        path: of a .jsonl file, or of a folder that gets `monitor.jsonl`; continued if it is there.
        every: k >= 1; steps first_step, first_step + k, ... are recorded, one line each. The other
            steps run without an observer.
        first_step: the number of the first step, of a run that is continued.
        evaluation: whether calls of layers in eval mode count too.
        tensorboard: True or False; None writes to TensorBoard as well where it is installed.

    Layers come in the order of their first call in a step. Several calls of a layer in a step,
    as with gradient accumulation or checkpointing, are averaged over all their tokens.
    The model computes the same bits with and without. A recorded step costs one more MhcPre
    forward and a few reductions over [.., N, N] a layer, and one transfer from its device.

    Raises:
        ArgumentError (a ValueError): no HyperConnection in the model, layers with different
            numbers of streams, a layer that is watched already, or an invalid number.
        FileError (an ArgumentError): the file cannot be written.
        UnsupportedError: tensorboard=True without the package.
    """

    def __init__(
        self,
        model: nn.Module,
        path: str | Path,
        *,
        every: int = 1,
        first_step: int = 0,
        evaluation: bool = False,
        tensorboard: bool | None = None,
    ) -> None:
        for name, number, least in (("every", every, 1), ("first_step", first_step, 0)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ArgumentError(
                    f"Monitor: {name} must be an integer >= {least}, got {number!r}."
                )
        self._layers = _layers_of(model)
        self._every, self._next, self._first = every, first_step, first_step
        self._evaluation = evaluation
        self._seen: dict[HyperConnection, LayerStatistics] = {}
        self._observer = _Observer(self)
        file = journal_file(path)
        writer = writer_class(tensorboard)
        self._journal = Journal(file)  # makes the folder, or says why it cannot
        self._writer = None if writer is None else writer(log_dir=str(file.parent))
        self._closed = False
        self._journal.write(
            {
                "kind": "run",
                "format": FORMAT,
                "mhc_ops": __version__,
                "every": every,
                "first_step": first_step,
                "streams": next(iter(self._layers)).streams,
                "layers": {
                    name: {"residual": c.residual, "dim": c.dim} for c, name in self._layers.items()
                },
            }
        )
        self._watch()

    @property
    def path(self) -> Path:
        """The JSONL."""
        return self._journal.path

    @property
    def due(self) -> bool:
        """Whether the step that runs now will be recorded."""
        return not self._closed and (self._next - self._first) % self._every == 0

    def step(self, **values: float | Tensor) -> None:
        """End a step: write its line if it is due. Call it after backward, before zero_grad.

        Args:   values: what else to draw, such as loss=loss; numbers or tensors of one element.
        Raises: ArgumentError when the monitor is closed, a value is not a number, or the step is
                due and no layer of the model has run in it.
        """
        if self._closed:
            raise ArgumentError("Monitor.step: the monitor is closed; make a new one.")
        if self.due:
            numbers = {name: _number(name, value) for name, value in values.items()}
            record = self._record(numbers)
            self._journal.write(record)
            if self._writer is not None:
                write_scalars(self._writer, record)
        self._next += 1
        self._watch()

    def close(self) -> None:
        """Stop watching; a step that has not ended is not written."""
        if not self._closed:
            self._closed = True
            self._watch()
            self._journal.close()
            if self._writer is not None:
                self._writer.close()

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def observe(self, connection: HyperConnection, ctx: HyperConnectionContext) -> None:
        """Take in one read of the streams by one layer."""
        if not (connection.training or self._evaluation):
            return
        if connection not in self._seen:
            self._seen[connection] = LayerStatistics(connection.streams)
        with torch.no_grad():
            self._seen[connection].add(connection, ctx)

    def _watch(self) -> None:
        self._seen = {}
        for connection in self._layers:
            connection.observer = self._observer if self.due else None

    def _record(self, values: dict[str, float]) -> dict[str, Any]:
        seen = {c: statistics for c, statistics in self._seen.items() if not statistics.empty}
        if not seen:
            raise ArgumentError(
                f"Monitor.step: no hyper-connection ran in step {self._next}; call step once after "
                "each backward, of a model in training mode (or pass evaluation=True)."
            )
        gains = gains_of([statistics.mean_map() for statistics in seen.values()])
        layers = [
            {
                "name": self._layers[connection],
                **{
                    f"gain_{k}" if "_" not in k else k: v
                    for k, v in zip(gains._fields, g, strict=True)
                },
                **statistics.record(),
                "grad_norm": gradient_norms(connection),
            }
            for (connection, statistics), g in zip(
                seen.items(), zip(*gains, strict=True), strict=True
            )
        ]
        return {
            "kind": "step",
            "step": self._next,
            "time": time.time(),
            "values": values,
            "layers": layers,
        }


class _Observer:
    """What hangs on the layers. A copy or a pickle of a layer that is watched is not watched."""

    def __init__(self, monitor: Monitor) -> None:
        # A compiled model breaks its graph here instead of tracing the statistics.
        self._observe = torch.compiler.disable(monitor.observe)

    def __call__(self, connection: HyperConnection, ctx: HyperConnectionContext) -> None:
        self._observe(connection, ctx)

    def __deepcopy__(self, memo: object) -> None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


def _layers_of(model: nn.Module) -> dict[HyperConnection, str]:
    layers = {
        m: name or "model" for name, m in model.named_modules() if isinstance(m, HyperConnection)
    }
    if not layers:
        raise ArgumentError(
            f"Monitor: model must contain a mhc_ops.nn.HyperConnection, got a "
            f"{type(model).__name__} without one."
        )
    counts = sorted({c.streams for c in layers})
    if len(counts) > 1:
        raise ArgumentError(
            f"Monitor: all layers must have the same number of streams to be composed, got "
            f"{counts}; watch the parts of the model with a monitor each."
        )
    for connection, name in layers.items():
        if connection.observer is not None:
            raise ArgumentError(
                f"Monitor: layer {name} is watched already; close that monitor first."
            )
    return layers


def _number(name: str, value: float | Tensor) -> float:
    try:
        return float(value.detach() if isinstance(value, Tensor) else value)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(
            f"Monitor.step: {name} must be a number or a tensor of one element, got "
            f"{type(value).__name__}."
        ) from None
