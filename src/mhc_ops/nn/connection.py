"""HyperConnection: the parameters of one sublayer's hyper-connection, around mhc_ops' operators."""

from collections.abc import Callable
from dataclasses import asdict, replace
from math import factorial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from ..convention import Convention
from ..errors import ArgumentError
from ..ops.common.checking import parameter_dtype, parse_impl
from ..ops.lite.api import permutation_mix
from ..ops.lite.checks import MOST_STREAMS
from ..ops.post.api import mhc_post
from ..ops.pre.api import mhc_pre
from ..ops.pre.checks import HC_EPS, NORM_EPS, POST_EPS, pre_numbers
from ..ops.pre_sinkhorn.api import mhc_pre_sinkhorn
from ..ops.sinkhorn.checks import (
    EPS,
    EPS_MODE,
    NUM_ITERS,
    ORDER,
    TEMPERATURE,
    SinkhornNumbers,
    of_rows,
    sinkhorn_numbers,
)
from . import initial
from .parameters import Float32Module

RESIDUALS = ("sinkhorn", "lite", "identity")
INITS = ("residual", "paper")
_SINKHORN = ("num_iters", "sinkhorn_eps", "eps_mode", "order", "temperature")  # of a Convention


class HyperConnectionContext(NamedTuple):
    """What `pre` leaves for `post`: x handed on, [.., N, D]; h_res [.., N, N] as [from, to], None
    for the identity; h_post [.., N].
    """

    x: Tensor
    h_res: Tensor | None
    h_post: Tensor


Observer = Callable[["HyperConnection", HyperConnectionContext], None]


class HyperConnection(Float32Module):
    """The residual connection of one sublayer over N streams.

    Same as, with `mhc_post` and `mhc_pre_sinkhorn` of mhc_ops::

        h_in, h_post, h_res, x = mhc_pre_sinkhorn(x, phi, alpha, bias, gamma, ...)
        x = mhc_post(x, h_res, sublayer(h_in), h_post)

    Args:
        dim: D. streams: N >= 1.
        gamma: whether x is scaled by a learned gamma [N, D] before the projection.
        residual: "sinkhorn"; "lite", a mix of the N! permutations (N up to 6); "identity", no
            residual part, as HY-V4.
        convention: another library's numbers, of the gates and of Sinkhorn; None for the defaults.
        num_iters, eps, eps_mode, order, temperature: those of `sinkhorn`, for "sinkhorn" alone.
        out_bias: whether a learned bias [D] is added to the sublayer's output.
        dropout: probability of dropping elements of the sublayer's output (with its bias) while
            training.
        init: "residual", a fresh layer is a plain residual; "paper", alpha 0.01, bias 0.
        precision, impl: as in `mhc_pre`.
        device: of the parameters.

    Parameters, float32 whatever the model is cast to (Float32Module):
        phi [F, N*D], alpha [3] or [2], bias [F], and gamma [N, D], out_bias [D] where asked for;
        F = 2N + N*N ("sinkhorn"), 2N + N! ("lite") or 2N ("identity", alpha [2]).

    `observer`, None or a callable, is given the module and the context after each read of the
    streams, in a HyperConnectionStack too; it must leave both as they are.
    `mhc_ops.monitor` sets it.

    Raises:
        ArgumentError (a ValueError): an option is not valid, or has no effect.
    """

    observer: Observer | None = None
    phi: nn.Parameter
    alpha: nn.Parameter
    bias: nn.Parameter
    gamma: nn.Parameter | None
    out_bias: nn.Parameter | None

    def __init__(
        self,
        dim: int,
        streams: int,
        gamma: bool = False,
        *,
        residual: str = "sinkhorn",
        convention: Convention | None = None,
        num_iters: int = NUM_ITERS,
        eps: float = EPS,
        eps_mode: str = EPS_MODE,
        order: str = ORDER,
        temperature: float = TEMPERATURE,
        out_bias: bool = False,
        dropout: float = 0.0,
        init: str = "residual",
        precision: str = "fp32",
        impl: str = "auto",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        given = (num_iters, eps, eps_mode, order, temperature)
        numbers = sinkhorn_numbers("HyperConnection", *given, convention)
        _check_options(dim, streams, residual, given, dropout, init)
        pre_numbers("HyperConnection", NORM_EPS, HC_EPS, POST_EPS, precision, convention)
        self.dim, self.streams, self.residual = dim, streams, residual
        # Never the caller's object: Dynamo fails on one that modules share, with dynamic shapes.
        base = Convention() if convention is None else convention
        merged: dict[str, Any] = dict(zip(_SINKHORN, numbers, strict=True))
        self.convention = replace(base, **merged)
        self.dropout, self.init = float(dropout), init
        self.precision, self.impl = precision, parse_impl("HyperConnection", impl).value

        rows = {"sinkhorn": streams * streams, "lite": factorial(streams), "identity": 0}[residual]
        width = 2 * streams + rows

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=torch.float32))

        self.phi = parameter(width, streams * dim)
        self.alpha = parameter(3 if rows else 2)
        self.bias = parameter(width)
        self.register_parameter("gamma", parameter(streams, dim) if gamma else None)
        self.register_parameter("out_bias", parameter(dim) if out_bias else None)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the initial values again, in place; for modules built on the meta device too.

        "residual": phi normal with standard deviation (N*D)^-1/2, alpha 0, and a bias that reads
        the mean of the streams, writes with h_post = 1 and keeps h_res the identity but for 1e-3.
        "paper": phi Xavier uniform, alpha 0.01, bias 0. gamma is 1 and out_bias 0 in both.
        """
        n = self.streams
        if self.init == "paper":
            nn.init.xavier_uniform_(self.phi)
            self.alpha.fill_(0.01)
            self.bias.zero_()
        else:
            nn.init.normal_(self.phi, std=(n * self.dim) ** -0.5)
            self.alpha.zero_()
            rows, temperature = len(self.bias) - 2 * n, self.convention.temperature
            bias = torch.empty(self.bias.shape, dtype=self.bias.dtype)
            bias[:n] = initial.pre_logit(n, self.convention.hc_eps, "HyperConnection")
            bias[n : 2 * n] = initial.post_logit(self.convention)
            bias[2 * n :] = initial.residual_logits(n, rows, temperature)
            initial.write(self.bias, bias)
        if self.gamma is not None:
            self.gamma.fill_(1.0)
        if self.out_bias is not None:
            self.out_bias.zero_()

    def pre(self, x: Tensor) -> tuple[Tensor, HyperConnectionContext]:
        """Before the sublayer: h_in [.., D] as x, its input, and what `post` wants.

        Args:   x: [B, S, N, D] or [T, N, D]; bfloat16, float16 or float32, or float64 after
                `.double()`.
        Raises: as `mhc_pre`.
        """
        options = {**self.pre_options, **self.sinkhorn_options}
        h_res: Tensor | None
        if self.residual == "sinkhorn":
            h_in, h_post, h_res, x = mhc_pre_sinkhorn(x, *self.operator_parameters(x), **options)
        else:
            h_in, h_post, logits, x = mhc_pre(x, *self.operator_parameters(x), **options)
            h_res = self.mix_permutations(logits)
        return h_in, self.observed(HyperConnectionContext(x, h_res, h_post))

    def observed(self, ctx: HyperConnectionContext) -> HyperConnectionContext:
        """ctx, after the observer has seen it, where there is one."""
        if self.observer is not None:
            self.observer(self, ctx)
        return ctx

    def post(
        self, h_out: Tensor, ctx: HyperConnectionContext, *, bias: Tensor | None = None
    ) -> Tensor:
        """After the sublayer: the streams with its output written into them, [.., N, D].

        Args:   h_out: [.., D], cast to the dtype of x where it has another one.
                ctx: from `pre`.
                bias: [D], a bias that the sublayer left to be added here; None without.
        Raises: as `mhc_post`; ArgumentError for a bias beside out_bias=True.
        """
        h_out, bias = self.prepare_output(h_out, ctx.x, bias)
        return mhc_post(ctx.x, ctx.h_res, h_out, ctx.h_post, bias=bias, impl=self.impl)

    def forward(self, x: Tensor, sublayer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """x after `sublayer(h_in, *args, **kwargs)` has been mixed into its streams.

        A sublayer that returns a tuple has its first element mixed, and the tuple comes back with
        the new x in that place.
        """
        h_in, ctx = self.pre(x)
        result = sublayer(h_in, *args, **kwargs)
        if not isinstance(result, tuple):
            return self.post(result, ctx)
        mixed = (self.post(result[0], ctx), *result[1:])
        return type(result)(*mixed) if hasattr(result, "_fields") else mixed

    def operator_parameters(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """phi, alpha, bias and gamma as the operators take them beside x."""
        gamma = None if self.gamma is None else self._at_use(self.gamma, x)
        phi, alpha, bias = (self._at_use(p, x) for p in (self.phi, self.alpha, self.bias))
        return phi, alpha, bias, gamma

    def mix_permutations(self, logits: Tensor | None) -> Tensor | None:
        """h_res from the N! logits of "lite"; None, the identity, without logits."""
        if logits is None:
            return None
        if self.streams == 1:  # mhc_pre gives the matrix form, where 1! and 1 * 1 coincide
            logits = logits[..., 0]
        return permutation_mix(logits, impl=self.impl)

    @property
    def pre_options(self) -> dict[str, Any]:
        """The keyword arguments of `mhc_pre`."""
        return {"convention": self.convention, "precision": self.precision, "impl": self.impl}

    @property
    def sinkhorn_options(self) -> dict[str, Any]:
        """The keyword arguments of `sinkhorn`, for residual="sinkhorn" alone."""
        if self.residual != "sinkhorn":
            return {}
        # Not _asdict: Dynamo of torch 2.7 does not trace it.
        return dict(zip(SinkhornNumbers._fields, self._sinkhorn_numbers(), strict=True))

    def flat_options(self) -> tuple[Any, ...]:
        """The options of torch.ops.mhc.post_pre_forward: six of pre, five of sinkhorn, impl."""
        numbers = pre_numbers(
            "HyperConnection", NORM_EPS, HC_EPS, POST_EPS, self.precision, self.convention
        )
        iterations, *others = of_rows(self._sinkhorn_numbers(), self.convention)
        return (*numbers, iterations if self.residual == "sinkhorn" else None, *others, self.impl)

    def _sinkhorn_numbers(self) -> SinkhornNumbers:
        return SinkhornNumbers(*(getattr(self.convention, name) for name in _SINKHORN))

    def reoriented(self, h_res: Tensor) -> Tensor | None:
        """What torch.ops.mhc.post_pre_forward gives for h_res, as [from, to], None where absent."""
        if self.residual == "identity":
            return None
        matrix = self.residual == "sinkhorn"
        return h_res.mT if matrix and self.convention.res_rows == "to_from" else h_res

    def prepare_output(
        self, h_out: Tensor, x: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """h_out in the dtype of x after dropout, and the bias that `mhc_post` has yet to add."""
        if self.out_bias is not None:
            if bias is not None:
                raise ArgumentError(
                    "HyperConnection.post: bias must be None because this layer has out_bias=True, "
                    "got a tensor; add one of the two elsewhere."
                )
            bias = self._at_use(self.out_bias, x)
        elif bias is not None:
            bias = bias.to(parameter_dtype(x))
        if self.training and self.dropout > 0:
            with_bias = h_out if bias is None else h_out + bias
            return dropout(with_bias, self.dropout).to(x.dtype), None
        return h_out.to(x.dtype) if isinstance(h_out, Tensor) else h_out, bias

    def extra_repr(self) -> str:
        parts = [f"dim={self.dim}, streams={self.streams}, residual={self.residual!r}"]
        if self.gamma is not None:
            parts.append("gamma=True")
        own, usual = asdict(self.convention), asdict(Convention())
        unusual = ", ".join(f"{name}={own[name]!r}" for name in own if own[name] != usual[name])
        if unusual:
            parts.append(f"convention=Convention({unusual})")
        if self.out_bias is not None:
            parts.append("out_bias=True")
        if self.dropout:
            parts.append(f"dropout={self.dropout}")
        parts.append(f"init={self.init!r}")
        if self.precision != "fp32":
            parts.append(f"precision={self.precision!r}")
        if self.impl != "auto":
            parts.append(f"impl={self.impl!r}")
        return ", ".join(parts)


def _check_options(
    dim: int, streams: int, residual: str, given: tuple[Any, ...], dropout: float, init: str
) -> None:
    for name, size in (("dim", dim), ("streams", streams)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ArgumentError(f"HyperConnection: {name} must be an integer >= 1, got {size!r}.")
    for name, value, allowed in (("residual", residual, RESIDUALS), ("init", init, INITS)):
        if value not in allowed:
            names = ", ".join(repr(a) for a in allowed)
            raise ArgumentError(f"HyperConnection: {name} must be one of {names}, got {value!r}.")
    if residual == "lite" and streams > MOST_STREAMS:
        raise ArgumentError(
            f"HyperConnection: residual='lite' takes up to {MOST_STREAMS} streams (N! rows), got "
            f"{streams}; use residual='sinkhorn'."
        )
    if residual != "sinkhorn" and given != SinkhornNumbers():
        raise ArgumentError(
            f"HyperConnection: num_iters, eps, eps_mode, order and temperature belong to "
            f"residual='sinkhorn' and would have no effect on {residual!r}; leave them out."
        )
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
        raise ArgumentError(f"HyperConnection: dropout must be in [0, 1), got {dropout!r}.")
