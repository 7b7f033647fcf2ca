"""What one layer's gates and residual maps were like over all tokens of a step."""

from typing import Any

import torch
from torch import Tensor

from ..nn import HyperConnection, HyperConnectionContext
from ..ops.pre.api import mhc_pre_forward

GATES = ("h_pre", "h_post")
PARAMETERS = ("phi", "alpha", "bias", "gamma", "out_bias")


class LayerStatistics:
    """Sums over the tokens of every call of one layer within a step; they stay on its device."""

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self._tokens = 0
        self._h_res: Tensor | None = None
        self._defect: Tensor | None = None
        self._gates: dict[str, tuple[Tensor, Tensor, Tensor, Tensor]] = {}

    def add(self, connection: HyperConnection, ctx: HyperConnectionContext) -> None:
        """Take in one call; h_pre, which ctx does not hold, is computed once more from x."""
        h_post = ctx.h_post.detach()
        if not h_post.numel():
            return
        x = ctx.x.detach()
        parameters = connection.operator_parameters(x)
        again = mhc_pre_forward(x, *parameters, **connection.pre_options)
        self._tokens += h_post.numel() // self.streams
        self._add_gate("h_pre", again.h_pre)
        self._add_gate("h_post", h_post)
        if ctx.h_res is not None:
            self._add_map(ctx.h_res.detach())

    def mean_map(self) -> Tensor:
        """h_res [N, N] as [from, to], its mean over tokens; the identity where there is none."""
        if self._h_res is None:
            return torch.eye(self.streams, dtype=torch.float64)
        return (self._h_res / self._tokens).cpu()

    def record(self) -> dict[str, Any]:
        """Everything but the gains, as plain numbers."""
        defect = [0.0, 0.0] if self._defect is None else self._defect.tolist()
        return {
            "tokens": self._tokens,
            "h_res": self.mean_map().tolist(),
            "defect_row": defect[0],
            "defect_column": defect[1],
            **{name: self._gate(name) for name in GATES},
        }

    @property
    def empty(self) -> bool:
        return self._tokens == 0

    def _add_map(self, h_res: Tensor) -> None:
        flat = h_res.reshape(-1, self.streams, self.streams)
        flat = _wide(flat)
        rows, columns = ((flat.sum(d) - 1).abs().amax() for d in (2, 1))
        defect = torch.stack((rows, columns))
        total = flat.sum(0)
        if self._h_res is None or self._defect is None:
            self._h_res, self._defect = total, defect
        else:
            self._h_res, self._defect = self._h_res + total, self._defect.maximum(defect)

    def _add_gate(self, name: str, gate: Tensor) -> None:
        flat = _wide(gate.reshape(-1, self.streams))
        new = (flat.sum(0), flat.square().sum(0), flat.amin(), flat.amax())
        if name in self._gates:
            a, b, low, high = self._gates[name]
            new = (a + new[0], b + new[1], low.minimum(new[2]), high.maximum(new[3]))
        self._gates[name] = new

    def _gate(self, name: str) -> dict[str, Any]:
        total, squares, low, high = self._gates[name]
        count = self._tokens * self.streams
        mean = total.sum() / count
        variance = squares.sum() / count - mean.square()
        return {
            "mean": mean.item(),
            "std": variance.clamp_min(0).sqrt().item(),
            "min": low.item(),
            "max": high.item(),
            "streams": (total / self._tokens).tolist(),
        }


def _wide(t: Tensor) -> Tensor:
    """t in float64, where its device has that."""
    return t.float() if t.device.type == "mps" else t.double()


def gradient_norms(connection: HyperConnection) -> dict[str, float | None]:
    """The 2-norm of each parameter's gradient; None for a parameter or gradient that is absent."""
    norms: dict[str, float | None] = {}
    for name in PARAMETERS:
        grad = getattr(getattr(connection, name), "grad", None)
        norms[name] = None if grad is None else float(torch.linalg.vector_norm(grad.detach()))
    return norms
